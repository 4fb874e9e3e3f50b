// Types of saqiya. All times are numbers of milliseconds; a microsecond is 0.001.

/** The name of a decision's outcome. */
export type Outcome = 'allowed' | 'denied' | 'never' | 'unavailable';

/**
 * Why an outcome is 'unavailable'. With 'timeout', 'lost' and 'protocol' the charge may have been
 * made; 'cancelled' is the answer to requests that were pending when the store was closed.
 */
export type Reason =
  | 'connect'
  | 'resolve'
  | 'auth'
  | 'timeout'
  | 'lost'
  | 'refused'
  | 'read_only'
  | 'permission'
  | 'server_memory'
  | 'corrupt'
  | 'protocol'
  | 'busy'
  | 'cancelled';

/** Stable codes of {@link SaqiyaError}. */
export type ErrorCode =
  | 'bad_policy'
  | 'bad_url'
  | 'invalid'
  | 'closed'
  | 'not_local'
  | 'no_memory'
  | 'system'
  | 'internal';

/** `tokens` more every `period` milliseconds, `capacity` at the most. */
export interface Rule {
  /** A whole number, 0 to 2^53 - 1. 0 refuses everything. */
  capacity: number;
  /** A whole number, at least 1. */
  tokens: number;
  /** Milliseconds; a whole number of microseconds. */
  period: number;
}

/** A key: a well-formed string, taken as UTF-8, or bytes. At most 65,536 bytes. */
export type Key = string | Uint8Array;

/** The answer to a check. Numbers are 0 when the outcome is 'unavailable'. */
export class Decision {
  private constructor();
  /** True when the outcome is 'allowed'. */
  readonly allowed: boolean;
  /**
   * allowed: charged, go on. denied: not charged, passes after `retryAfter`. never: the cost is above
   * the capacity. unavailable: the store failed, see `reason`.
   */
  readonly outcome: Outcome;
  /** Null unless the outcome is 'unavailable'. */
  readonly reason: Reason | null;
  /** The capacity; 2^53 - 1 when unlimited. */
  readonly limit: number;
  /** Tokens left afterwards, rounded down. */
  readonly remaining: number;
  /** ms. The first moment at which this cost passes if nobody else comes; Infinity: never. */
  readonly retryAfter: number;
  /** ms until the bucket is full again if left alone. */
  readonly resetAfter: number;
  /** ms to wait before going on; `acquire` has waited already. */
  readonly delay: number;
  /** The properties as a plain object. */
  toJSON(): {
    allowed: boolean;
    outcome: Outcome;
    reason: Reason | null;
    limit: number;
    remaining: number;
    retryAfter: number;
    resetAfter: number;
    delay: number;
  };
}

/**
 * A policy or URL that is wrong, a closed handle, or a fault of the system. Arguments of the wrong
 * type or range are TypeError and RangeError instead. A store that fails is not an error: see
 * {@link Decision.outcome}.
 */
export class SaqiyaError extends Error {
  private constructor();
  readonly name: 'SaqiyaError';
  readonly code: ErrorCode;
  /** Offset in bytes in the policy or URL, where the reader stopped. */
  readonly position?: number;
}

/** A clock that moves only when told to, for tests and simulation. Range: 0 to 2^52 microseconds. */
export class ManualClock {
  /** @param now ms, default 0. */
  constructor(now?: number);
  /** ms */
  now(): number;
  /** ms; what `setWall` set. */
  wall(): number;
  /** Sets both readings; going back is allowed. Rounded to the nearest microsecond. */
  set(ms: number): void;
  /** Sets the wall reading alone. Token buckets in the process do not look at it. */
  setWall(ms: number): void;
  /** Moves both readings; may be negative. */
  advance(ms: number): void;
  nowMicroseconds(): number;
  setMicroseconds(us: number): void;
  advanceMicroseconds(us: number): void;
}

export interface StoreOptions {
  /** The system's when absent. On Redis only together with `testing`. */
  clock?: ManualClock | undefined;
  /** memory: bound on stored keys. Default 10,000,000. */
  maxKeys?: number | undefined;
  /** Redis, ms: everything one request may take. 1 to 3,600,000, default 100. */
  deadline?: number | undefined;
  /** Redis: what every key begins with, without braces. Default 'sq:'. */
  prefix?: string | undefined;
  /** Redis: key of the digest of subjects that are hashed. */
  secret?: string | Uint8Array | undefined;
  /** Redis: hash every subject in key names, not only long ones. */
  hashSubjects?: boolean | undefined;
  /** Redis: connections for blocking callers, of which JavaScript has none. 1 to 64. */
  connections?: number | undefined;
  /** Redis, for tests: the server uses `clock`, and keys live for an hour at least. */
  testing?: boolean | undefined;
}

export interface StoreStats {
  /** memory: entries held now. */
  keys: number;
  /** memory: bytes held for them. */
  bytes: number;
  /** memory: entries dropped at the bound before they were full. */
  evictions: number;
  /** Redis: requests sent. */
  requests: number;
  /** Redis: scripts called. */
  batches: number;
  /** Redis: connections made. */
  connects: number;
  /** Redis: requests that ended unavailable. */
  failures: number;
}

/** Where buckets are kept. Connects when it is first used. */
export class Store {
  /**
   * @param url memory:// (default), redis://[[user][:password]@]host[:port][/database] or
   *   unix://[[user][:password]@]/path[?db=N].
   * @throws {SaqiyaError} 'bad_url', 'invalid'
   */
  constructor(url?: string, options?: StoreOptions);
  /** True when decisions are made in this process. */
  readonly isLocal: boolean;
  stats(): StoreStats;
  /**
   * Requests that are pending end as 'unavailable' with reason 'cancelled'; later calls of its
   * limiters fail with code 'closed'. May be called again.
   */
  close(): Promise<void>;
}

export interface LimiterOptions {
  /**
   * A Store, or a URL: limiters of this thread that name the same URL share one store. A memory store
   * of its own when absent.
   */
  store?: Store | string | undefined;
  /** Names the policy in keys and HTTP fields; state is kept under it when the limit changes. */
  name?: string | undefined;
  /** Redis, ms: everything one request may take. The store's when absent. */
  deadline?: number | undefined;
}

export interface ReserveOptions {
  /** Default 1. */
  cost?: number | undefined;
  /** ms to wait at the most; default Infinity. */
  timeout?: number | undefined;
}

export interface AcquireOptions extends ReserveOptions {
  /** Ends the wait; what was reserved is given back. */
  signal?: AbortSignal | undefined;
}

/**
 * A policy on a store. The asynchronous calls work with every store, the ones that end in Sync only
 * with one in this process; on another they throw a SaqiyaError with code 'not_local'.
 *
 * Costs are whole numbers from 0 to 2^53 - 1. A wrong type of key or cost is a TypeError, a cost out
 * of range a RangeError; asynchronous calls reject with them. A store that fails rejects nothing.
 */
export class Limiter {
  /**
   * @param policy '5/s burst 20', '100/minute', 'unlimited', or a rule as numbers.
   * @throws {SaqiyaError} 'bad_policy' (with `position`), 'bad_url', 'invalid'
   */
  constructor(policy: string | Rule, options?: LimiterOptions);
  /** The policy's canonical text. */
  readonly policy: string;
  /** The name given, or ''. */
  readonly name: string;
  readonly store: Store;
  /** Asks for `cost` tokens (default 1). Already resolved when the store is in this process. */
  check(key: Key, cost?: number): Promise<Decision>;
  checkSync(key: Key, cost?: number): Decision;
  /** What check would say, charging nothing; `remaining` and `resetAfter` are the untouched state's. */
  peek(key: Key, cost?: number): Promise<Decision>;
  peekSync(key: Key, cost?: number): Decision;
  /**
   * Gives back what the decision took, once, and as far as it has not been refilled meanwhile.
   * Outcome 'allowed': something was given back; 'denied': there was nothing left to give.
   */
  refund(key: Key, decision: Decision): Promise<Decision>;
  refundSync(key: Key, decision: Decision): Decision;
  /** Forgets the key. */
  reset(key: Key): Promise<Decision>;
  resetSync(key: Key): Decision;
  /** Checks each key on its own, in order; on Redis they travel together. */
  checkMany(keys: readonly Key[], cost?: number): Promise<Decision[]>;
  /**
   * As check, and willing to wait: 'allowed' when the tokens will be there within `timeout`. They are
   * reserved, first come first served; the caller waits `delay` ms before going on.
   */
  reserve(key: Key, options?: ReserveOptions): Promise<Decision>;
  reserveSync(key: Key, options?: ReserveOptions): Decision;
  /**
   * Reserves the tokens and resolves when they are there, never earlier. Resolves at once when they
   * will not be there within `timeout` ('denied'), when the cost is above the capacity ('never'), or
   * when the store fails. Rejects with the signal's reason. Waits real time, also under a ManualClock.
   */
  acquire(key: Key, options?: AcquireOptions): Promise<Decision>;
  /**
   * Later calls fail with code 'closed'. Closes the store too when this limiter made it, or, for a
   * store named by URL, when this was the last limiter on it. May be called again.
   */
  close(): Promise<void>;
}

/** The version of the native library. */
export const version: string;

// Types of saqiya. All times are numbers of milliseconds; a microsecond is 0.001.
/// <reference lib="esnext.disposable" />
import { EventEmitter } from 'node:events';
import type { Policy, Rule } from './rules.js';

export type {
  CalendarRule,
  ConcurrencyRule,
  FixedWindowRule,
  Policy,
  Rule,
  SlidingLogRule,
  SlidingWindowRule,
  TokenBucketRule,
} from './rules.js';

/** The name of a decision's outcome. */
export type Outcome = 'allowed' | 'denied' | 'never' | 'unavailable';

/**
 * Which way a decision was made. store: by the store itself. cache: denied, for the store refused this
 * key a moment ago, and would again. The others: the store did not answer, and the limiter's
 * {@link LimiterOptions.failure} decided.
 */
export type Source = 'store' | 'cache' | 'local' | 'open' | 'closed';

/**
 * Why the store gave no answer. With 'timeout', 'lost' and 'protocol' the charge may have been made
 * there; 'cancelled' is the answer to requests that were pending when the store was closed.
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
  | 'refused'
  | 'lease_lost'
  | 'no_memory'
  | 'system'
  | 'internal';

/** A key: a well-formed string, taken as UTF-8, or bytes. At most 65,536 bytes. */
export type Key = string | Uint8Array;

/**
 * The answer to a check. Numbers are 0 when the outcome is 'unavailable' and when the source is 'open';
 * all but `retryAfter` when it is 'closed'.
 */
export class Decision {
  private constructor();
  /** True when the outcome is 'allowed'. */
  readonly allowed: boolean;
  /**
   * allowed: charged, go on (after `delay`). denied: not charged, passes after `retryAfter`. never: the
   * cost is above the limit. unavailable: the store failed and nothing was decided, see `reason`.
   */
  readonly outcome: Outcome;
  readonly source: Source;
  /** Null unless the outcome is 'unavailable' or the source 'local', 'open' or 'closed'. */
  readonly reason: Reason | null;
  /** What the rule that bound allows at the most; 2^53 - 1 when unlimited. */
  readonly limit: number;
  /** What is left of it afterwards, rounded down. */
  readonly remaining: number;
  /**
   * ms. The first moment at which this cost passes if nobody else comes; Infinity: never. Closed: when to
   * ask again.
   */
  readonly retryAfter: number;
  /** ms until all of it is there again if left alone. */
  readonly resetAfter: number;
  /** ms to wait before going on; `acquire` and saqiya/express have waited already. */
  readonly delay: number;
  /**
   * Index of the rule that bound. Refused: of those that refused, the one with the longest wait;
   * allowed: the one with the least remaining share.
   */
  readonly rule: number;
  /** checkAll: index of the item whose rule that is. */
  readonly item: number;
  /** What each rule alone says (of each item in turn), charged when all allowed; [itself] of one. */
  readonly rules: Decision[];
  /**
   * checkAll: what each item says. Its charge can be refunded, settled, renewed or released alone, by
   * its limiter. [itself] of other decisions.
   */
  readonly items: Decision[];
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
    rule: number;
    item: number;
    source: Source;
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
  /** Code 'refused': the decision that did. */
  readonly decision?: Decision;
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
  /** Sets the wall reading alone. In the process only windows and calendars look at it. */
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
  /**
   * Bound on the keys stored in this process: by memory://, or by the failure policy 'local' of Redis.
   * Default 10,000,000.
   */
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
  /** Redis: requests it did not answer, whatever was decided without it. */
  failures: number;
  /** Redis: checks that the server allowed. A checkAll counts as one, a peek not at all. */
  allowed: number;
  /** Redis: checks that the server refused, now ('denied') or for good ('never'). */
  denied: number;
  /** Redis: checks refused from the memory of a refusal. */
  cached: number;
  /** Redis: checks decided while it did not answer, by {@link Source}. */
  localAllowed: number;
  localDenied: number;
  opened: number;
  closed: number;
  /** Redis: how often it has gone away. */
  outages: number;
  /** Redis: 1 while a server is away, else 0. */
  degraded: number;
  /**
   * Redis: a histogram of 16 counts of requests answered. The i-th: within 64 * 2^i microseconds, and
   * not within half of that; the last: all that took longer than the one before.
   */
  latency: number[];
}

/**
 * What an operator should be told. `outage`: a server does not answer, and failure policies decide.
 * `recovered`: it answers again. `refused`: a server that answers refuses requests, for want of memory
 * or permission for example; told once a minute for each reason. A long outage makes a handful of them,
 * whatever the load.
 */
export interface StoreEvent {
  reason: Reason | null;
  /** Host and port, or a socket's path. */
  server: string;
  /** A sentence for a log. Holds no password and no key. */
  message: string;
  /** How many events were left out since the one before. */
  suppressed: number;
  /** recovered: how long the outage was, ms; else 0. */
  durationMs: number;
  /** recovered: requests that the server did not answer meanwhile; else 0. */
  decisions: number;
  /** ms since 1970, as Date.now() gives it. */
  at: number;
}

type StoreEventName = 'outage' | 'recovered' | 'refused';
type StoreListener = (event: StoreEvent) => void;

/**
 * Where buckets are kept. Connects when it is first used, and again for as long as it must: what becomes
 * of checks meanwhile is each limiter's {@link LimiterOptions.failure}. Events are told to listeners
 * alone; without one nothing happens. They do not keep the process alive.
 */
export class Store extends EventEmitter {
  /**
   * @param url memory:// (default), redis://[[user][:password]@]host[:port][/database],
   *   unix://[[user][:password]@]/path[?db=N],
   *   redis+sentinel://[[user][:password]@]host[:port][,...]/master[/database] or
   *   redis+cluster://[[user][:password]@]host[:port][,...]. rediss, rediss+sentinel and rediss+cluster
   *   are the same over TLS. Behind a question mark, joined by &: client_name; of TLS ca, cert and key
   *   (PEM files), server_name, verify=no; sentinel_user, sentinel_password.
   * @throws {SaqiyaError} 'bad_url', 'invalid'
   */
  constructor(url?: string, options?: StoreOptions);
  on(event: StoreEventName, listener: StoreListener): this;
  once(event: StoreEventName, listener: StoreListener): this;
  addListener(event: StoreEventName, listener: StoreListener): this;
  prependListener(event: StoreEventName, listener: StoreListener): this;
  prependOnceListener(event: StoreEventName, listener: StoreListener): this;
  off(event: StoreEventName, listener: StoreListener): this;
  removeListener(event: StoreEventName, listener: StoreListener): this;
  /** True when decisions are made in this process. */
  readonly isLocal: boolean;
  stats(): StoreStats;
  /**
   * Requests that are pending end as 'unavailable' with reason 'cancelled'; later calls of its
   * limiters fail with code 'closed'. May be called again.
   */
  close(): Promise<void>;
}

/** What a limiter does while its store does not answer. Of no consequence in this process. */
export interface FailureOptions {
  /**
   * What becomes of checks and peeks that Redis does not answer within the deadline. What can never pass
   * stays 'never'.
   *
   * - 'local' (default): decided in this process by the same rules, of which it lets a `share` through.
   *   At most processes * share * (limit + rate * T) pass in an outage of duration T. What was admitted is
   *   not charged to Redis afterwards.
   * - 'open': allowed. 'closed': denied (503 in HTTP), with a `retryAfter` of 1 to 5 s.
   * - 'error': the outcome is 'unavailable', for the caller to decide.
   *
   * checkAll: with an 'error' among the limiters the outcome is 'unavailable', else with a 'closed'
   * denied; 'open' ones are passed over, 'local' ones decide together.
   */
  failure?: 'local' | 'open' | 'closed' | 'error' | undefined;
  /**
   * local: the part of every limit and rate that this process may let through, above 0 and up to 1 (the
   * default). With N processes and 1 / N all of them together keep the limit. Limits are rounded down,
   * but not below 1.
   */
  share?: number | undefined;
  /** local: decide by this policy, which has as many rules, instead of a share. */
  fallback?: Policy | undefined;
  /**
   * Remember refusals for up to a second, in this process, so that a key that is refused again and again
   * hardly reaches Redis. Policies of one token bucket only, and none that refunds or settles. A reset by
   * another process is seen when the second is over. Default true.
   */
  denyCache?: boolean | undefined;
}

export interface LimiterOptions extends FailureOptions {
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
  /**
   * Ends the wait: what was charged is given back, and so is what was reserved, unless others have
   * queued behind it. Then its turn is lost: their turns stay as they were told, the spacing exact.
   */
  signal?: AbortSignal | undefined;
}

export interface HoldOptions extends AcquireOptions {
  /** ms to wait for the lease at the most. Default 0: one try, without waiting. */
  timeout?: number | undefined;
  /** Renew the lease in time for as long as it is held. Default true. */
  renew?: boolean | undefined;
}

/** A lease that `Limiter.hold` acquired. With `await using` it is released at the end of the block. */
export class Lease {
  private constructor();
  /** Of the check that gave it. */
  readonly decision: Decision;
  /**
   * Aborted when the lease has ended, or may have: it could not be renewed in time or, with `renew`
   * false, its ttl is over and nobody renewed it. The reason is a SaqiyaError with code 'lease_lost'.
   * Never aborted when the failure policy 'open' gave it unseen: nobody else knows of it.
   */
  readonly signal: AbortSignal;
  /** Lives for its whole time from now on. 'denied': it has ended. */
  renew(): Promise<Decision>;
  /** Once; later calls give the same answer. */
  release(): Promise<Decision>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** One of several requests that are decided together. */
export interface Item {
  /** All of one store. */
  limiter: Limiter;
  key: Key;
  /** Default 1. */
  cost?: number | undefined;
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
   * @throws {SaqiyaError} 'bad_policy' (with `position`), 'bad_url', 'invalid'
   */
  constructor(policy: Policy, options?: LimiterOptions);
  /** The policy's canonical text. */
  readonly policy: string;
  /** Its rules as numbers. Of an unlimited policy: one, with the algorithm 'unlimited'. */
  readonly rules: (Rule | { algorithm: 'unlimited' })[];
  /** The name given, or ''. */
  readonly name: string;
  readonly store: Store;
  /** Asks for `cost` (default 1); charges every rule or none. Already resolved when the store is in this process. */
  check(key: Key, cost?: number): Promise<Decision>;
  checkSync(key: Key, cost?: number): Decision;
  /** What check would say, charging nothing; `remaining` and `resetAfter` are the untouched state's. */
  peek(key: Key, cost?: number): Promise<Decision>;
  peekSync(key: Key, cost?: number): Decision;
  /**
   * Gives back what the decision took, once, and as far as it still counts. Outcome 'allowed':
   * something was given back; 'denied': there was nothing left to give. The decision is spent by the
   * call: it cannot be given back later. But when the outcome is 'unavailable' for a reason by which
   * certainly nothing was done ('connect', 'resolve', 'auth', 'refused', 'read_only',
   * 'server_memory', 'busy') it is as before. What was decided locally is given back locally, also
   * when the store is back.
   */
  refund(key: Key, decision: Decision): Promise<Decision>;
  refundSync(key: Key, decision: Decision): Decision;
  /**
   * Makes the charge what it turned out to be: check an estimate first, settle the true cost when it is
   * known. Less is given back as by refund; more is charged whatever the limit says, so that later
   * requests wait for it. Spends the decision, as refund does. In a policy of several rules a lease stays as it is and is not spent, so that settle goes together with `hold`.
   */
  settle(key: Key, decision: Decision, cost: number): Promise<Decision>;
  settleSync(key: Key, decision: Decision, cost: number): Decision;
  /** Concurrency: the lease lives for its whole time from now on. 'denied': it has ended. */
  renew(key: Key, decision: Decision): Promise<Decision>;
  renewSync(key: Key, decision: Decision): Decision;
  /**
   * Concurrency: gives the slot back. Unlike refund, what other rules of the policy charged stays
   * charged. 'denied': the lease had ended, or was released before. Spends the lease, as refund does the
   * decision; when 'unavailable' it ends after its ttl.
   */
  release(key: Key, decision: Decision): Promise<Decision>;
  releaseSync(key: Key, decision: Decision): Decision;
  /**
   * Acquires a lease, runs `fn` while it is held and renewed, and releases it afterwards; gives what
   * `fn` gives. The policy must have a concurrency rule. Does not wait for a lease unless `timeout` says
   * so.
   *
   * @throws {SaqiyaError} 'refused' (with `decision`) when it is not acquired in time; `fn` is not run
   * @throws {TypeError} when there is no concurrency rule, or an argument is of the wrong kind
   */
  hold<T>(key: Key, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  hold<T>(key: Key, options: HoldOptions, fn: (lease: Lease) => T | PromiseLike<T>): Promise<T>;
  /** Without `fn`: the lease, to be released by the caller. */
  hold(key: Key, options?: HoldOptions): Promise<Lease>;
  /** Forgets the key; what this process decided about it locally even when the store fails. */
  reset(key: Key): Promise<Decision>;
  resetSync(key: Key): Decision;
  /** Checks each key on its own, in order; on Redis they travel together. */
  checkMany(keys: readonly Key[], cost?: number): Promise<Decision[]>;
  checkManySync(keys: readonly Key[], cost?: number): Decision[];
  /**
   * As check, and willing to wait: 'allowed' when the tokens will be there within `timeout`. They are
   * reserved, first come first served; the caller waits `delay` ms before going on. Only token buckets
   * can be reserved: with any other rule in the policy this is check. Who will not go on gives it back by
   * refund: that works as long as nobody has queued behind; else the turn is lost and the spacing stays
   * exact.
   */
  reserve(key: Key, options?: ReserveOptions): Promise<Decision>;
  reserveSync(key: Key, options?: ReserveOptions): Decision;
  /**
   * As check, and waits up to `timeout` until the request is allowed and its delay is over. Where every
   * rule is a token bucket the tokens are reserved: fair, one call to the store. Else it sleeps until
   * the moment at which the request would pass, and tries again. Resolves at once to what will not pass
   * within `timeout` ('denied') or ever ('never'), and to 'unavailable'. Rejects with the signal's
   * reason. Timeout 0: one try, without waiting. Waits real time, also under a ManualClock.
   */
  acquire(key: Key, options?: AcquireOptions): Promise<Decision>;
  /**
   * Later calls fail with code 'closed'. Closes the store too when this limiter made it, or, for a
   * store named by URL, when this was the last limiter on it. May be called again.
   */
  close(): Promise<void>;
}

/**
 * Decides 1 to 16 requests together, in one call to the store: all are charged, or none is. The decision
 * tells the rule that bound (`item`, `rule`); `retryAfter` is the longest of those that refuse. Items of
 * one limiter and key are added up.
 *
 * @throws {TypeError} when the limiters are not of one store
 */
export function checkAll(items: readonly Item[]): Promise<Decision>;
export function checkAllSync(items: readonly Item[]): Decision;
/** What checkAll would say, charging nothing. */
export function peekAll(items: readonly Item[]): Promise<Decision>;
export function peekAllSync(items: readonly Item[]): Decision;
/** As checkAll, and willing to wait: see {@link Limiter.reserve}. */
export function reserveAll(
  items: readonly Item[],
  options?: { timeout?: number | undefined },
): Promise<Decision>;
export function reserveAllSync(
  items: readonly Item[],
  options?: { timeout?: number | undefined },
): Decision;
/** As checkAll, and waits: see {@link Limiter.acquire}. */
export function acquireAll(
  items: readonly Item[],
  options?: { timeout?: number | undefined; signal?: AbortSignal | undefined },
): Promise<Decision>;
/** Gives back what checkAll took, once, of the same items in the same order. */
export function refundAll(items: readonly Item[], decision: Decision): Promise<Decision>;
export function refundAllSync(items: readonly Item[], decision: Decision): Decision;

/** The version of the native library. */
export const version: string;

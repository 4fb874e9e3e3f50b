// Types of policies and their rules. All times are numbers of milliseconds.

/**
 * `tokens` more every `period`, `capacity` at the most. With a `queue` of K, K more may wait for their
 * turn: they are allowed with a `delay`. Capacity 1 with a queue is a leaky bucket: a steady flow.
 *
 * After division of `tokens` and `period` by their greatest common divisor, tokens are below 2^32 and
 * filling the bucket (and waiting in its queue) takes at most 2^50 us, 35.7 years.
 */
export interface TokenBucketRule {
  /** May be absent of this kind of rule alone. */
  algorithm?: 'token-bucket' | undefined;
  /** 0 to 2^53 - 1. 0 refuses everything. */
  capacity: number;
  /** At least 1. */
  tokens: number;
  /** ms, in whole microseconds, up to 2^50 us. */
  period: number;
  queue?: number | undefined;
}

/** `limit` in each window of `period`, aligned to 1970. Twice that may pass around an edge. */
export interface FixedWindowRule {
  algorithm: 'fixed-window';
  /** 0 to 2^53 - 1. */
  limit: number;
  /** ms, in whole microseconds, up to 2^50 us. */
  period: number;
}

/** Two counters, the previous window's weighted by its overlap: less than twice `limit` in any period. */
export interface SlidingWindowRule {
  algorithm: 'sliding-window';
  /** 0 to 2^32 - 1. */
  limit: number;
  /** ms, in whole microseconds, up to 2^50 us. */
  period: number;
}

/** Exactly `limit` in every period; remembers every charge. */
export interface SlidingLogRule {
  algorithm: 'sliding-log';
  /** 0 to 2^32 - 1. */
  limit: number;
  /** ms, in whole microseconds, up to 2^47 us (4.4 years). */
  period: number;
}

/** `limit` in each day, week (from Monday), month or year of a time zone. */
export interface CalendarRule {
  algorithm: 'calendar';
  /** 0 to 2^53 - 1. */
  limit: number;
  unit: 'day' | 'week' | 'month' | 'year';
  /** An IANA name that the machine knows, such as 'Africa/Cairo'. Default 'UTC'. */
  zone?: string | undefined;
  /** Months begin on this day, 1 to 31, or on their last. Default 1. */
  anchorDay?: number | undefined;
}

/** `limit` at once. Each holds a lease, which ends by itself after `ttl`. */
export interface ConcurrencyRule {
  algorithm: 'concurrency';
  /** 0 to 65,535. */
  limit: number;
  /** ms, in whole microseconds, up to 2^47 us. */
  ttl: number;
}

/** One rule as numbers; all are whole. A wrong type is a TypeError, out of range a SaqiyaError. */
export type Rule =
  | TokenBucketRule
  | FixedWindowRule
  | SlidingWindowRule
  | SlidingLogRule
  | CalendarRule
  | ConcurrencyRule;

/**
 * '5/s burst 20', '100/minute', 'leaky-bucket: 10/s queue 50', 'fixed-window: 100/min',
 * 'sliding-window: 1000/hour', 'sliding-log: 5/15min', 'calendar: 10000/month tz Africa/Cairo',
 * 'concurrency: 20 ttl 30s', '5/s burst 20; 1000/day', 'unlimited'; a rule as numbers; or up to 8 of
 * them, which are decided together.
 */
export type Policy = string | Rule | readonly (string | Rule)[];

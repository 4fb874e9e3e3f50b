import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Decision, Key, Limiter, Rule, Store } from './index.js';

declare global {
  namespace Express {
    interface Request {
      /** The decision on this request, set by rateLimit. */
      rateLimit?: Decision;
    }
  }
}

type Awaitable<T> = T | PromiseLike<T>;
type Next = (error?: any) => void;

export interface RateLimitOptions<
  Req extends IncomingMessage = any,
  Res extends ServerResponse = any,
> {
  /** '5/s', '5/s burst 20', a rule as numbers, or a limiter made elsewhere. */
  limit: string | Rule | Limiter;
  /** Burst, when the limit is text that does not name one. */
  burst?: number | undefined;
  /** Who is limited; default: the peer's address. */
  key?: ((req: Req, res: Res) => Awaitable<Key>) | undefined;
  /** Tokens a request takes; default 1. */
  cost?: number | ((req: Req, res: Res) => Awaitable<number>) | undefined;
  /** True lets the request through without a check. */
  skip?: ((req: Req, res: Res) => Awaitable<boolean>) | undefined;
  /** As for Limiter. */
  store?: Store | string | undefined;
  /** As for Limiter. */
  name?: string | undefined;
  /** As for Limiter, ms. */
  deadline?: number | undefined;
  /**
   * Which fields to send: X-RateLimit-* (legacy), RateLimit and RateLimit-Policy (draft), both
   * (all, the default) or neither. Retry-After is sent whenever it applies.
   */
  fields?: 'all' | 'legacy' | 'draft' | 'none' | undefined;
  /**
   * Answers instead of the default, which is 429 (503 when the store is unavailable) with a JSON body.
   * Fields have been set. Errors, also of a promise, go to next.
   */
  handler?: ((req: Req, res: Res, next: Next, decision: Decision) => unknown) | undefined;
}

/**
 * Middleware for Express 4 and 5. Sets req.rateLimit. Calls next once for a request that may go on,
 * or with an error when an option's function fails; a store that fails is answered with 503.
 *
 * @throws {SaqiyaError | TypeError} when the limit or an option is wrong
 */
export function rateLimit<Req extends IncomingMessage = any, Res extends ServerResponse = any>(
  options: RateLimitOptions<Req, Res>,
): (req: Req, res: Res, next: Next) => void;

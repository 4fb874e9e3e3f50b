import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Decision, FailureOptions, Key, Limiter, Policy, Store } from './index.js';

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

/** By whom, how much and by what a request is limited. */
export interface Layer<
  Req extends IncomingMessage = any,
  Res extends ServerResponse = any,
> extends FailureOptions {
  /**
   * A policy, a limiter made elsewhere, or a function of the request that gives the policy of its
   * plan: a text, texts, a limiter, or null for no limit. Limiters are kept for each text. With a
   * `name` the plans share their state, so that a user who changes plans keeps what was used; without
   * one each plan counts for itself.
   */
  limit:
    | Policy
    | Limiter
    | ((req: Req, res: Res) => Awaitable<string | readonly string[] | Limiter | null>);
  /** Burst, when the limit is text that does not name one. */
  burst?: number | undefined;
  /**
   * Who is limited. Default: `req.ip` when the application has 'trust proxy' set, so that clients behind
   * a proxy are told apart, else the peer's address.
   */
  key?: ((req: Req, res: Res) => Awaitable<Key>) | undefined;
  /** Tokens a request takes; default 1. */
  cost?: number | ((req: Req, res: Res) => Awaitable<number>) | undefined;
  /** As for Limiter. Layers without a name all show as "default" in the RateLimit fields. */
  name?: string | undefined;
}

export interface CommonOptions<
  Req extends IncomingMessage = any,
  Res extends ServerResponse = any,
> extends FailureOptions {
  /** True lets the request through without a check. */
  skip?: ((req: Req, res: Res) => Awaitable<boolean>) | undefined;
  /** As for Limiter. */
  store?: Store | string | undefined;
  /** As for Limiter, ms. */
  deadline?: number | undefined;
  /**
   * Which fields to send: X-RateLimit-* (legacy), RateLimit and RateLimit-Policy (draft), both
   * (all, the default) or neither. Retry-After is sent whenever it applies.
   */
  fields?: 'all' | 'legacy' | 'draft' | 'none' | undefined;
  /**
   * Answers instead of the default, which is 429 (503 when the store does not answer and `failure` is
   * 'closed' or 'error') with a JSON body. Fields have been set. Errors, also of a promise, go to next.
   */
  handler?: ((req: Req, res: Res, next: Next, decision: Decision) => unknown) | undefined;
}

export interface OneLimit<Req extends IncomingMessage = any, Res extends ServerResponse = any>
  extends Layer<Req, Res>, CommonOptions<Req, Res> {
  limits?: undefined;
}

/**
 * Several layers, such as an address and a user, decided together: a request is charged to all of them
 * or to none. At most 16, all on one store. `failure`, `share` and `fallback` are for layers that have
 * none of them.
 */
export interface SeveralLimits<
  Req extends IncomingMessage = any,
  Res extends ServerResponse = any,
> extends CommonOptions<Req, Res> {
  limits: readonly Layer<Req, Res>[];
}

export type RateLimitOptions<Req extends IncomingMessage = any, Res extends ServerResponse = any> =
  OneLimit<Req, Res> | SeveralLimits<Req, Res>;

export interface RateLimit<Req extends IncomingMessage = any, Res extends ServerResponse = any> {
  (req: Req, res: Res, next: Next): void;
  /** For its events and statistics. */
  readonly store: Store;
}

/**
 * Middleware for Express 4 and 5. Sets req.rateLimit. Calls next once for a request that may go on,
 * or with an error when an option's function fails. A store that fails is no error: `failure` decides.
 *
 * A rule with a queue: next is called after `req.rateLimit.delay`. A client that goes away meanwhile
 * gives its turn back, and next is not called. A concurrency rule: the slot is released when the response
 * is done or its connection closed; it is not renewed, so choose a ttl longer than responses take.
 *
 * RateLimit-Policy lists every policy that was asked and RateLimit what each says, the one that binds
 * most first; X-RateLimit tells of that one. Several middlewares together say the same in any order. Of
 * several layers, `req.rateLimit.item` counts those that had a limit.
 *
 * @throws {SaqiyaError | TypeError} when the limit or an option is wrong
 */
export function rateLimit<Req extends IncomingMessage = any, Res extends ServerResponse = any>(
  options: RateLimitOptions<Req, Res>,
): RateLimit<Req, Res>;

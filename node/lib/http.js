'use strict';
// A decision as an HTTP answer. The rounding is the core's: it comes with the record, in seconds.
// Only the strings are put together here, from whole numbers and constant parts.

const record = require('./record.js');
const { Decision, load } = require('./decision.js');
const { hasLeases, hasQueue, isPlain, limiterNative } = require('./limiter.js');

const { records } = record;
const LEGACY = 1;
const DRAFT = 2;
const FIELDS = { all: LEGACY | DRAFT, legacy: LEGACY, draft: DRAFT, none: 0 };

class HttpAnswers {
  #native;
  #legacy;
  #draft;
  #policy;
  #items; // of each rule
  #plain; // the limiter's checks come with the HTTP numbers
  limiter;
  hasLeases;
  admitsAtOnce; // a request that is allowed has nothing to wait for, and nothing to release

  constructor(limiter, fields = 'all') {
    if (!Object.hasOwn(FIELDS, fields)) {
      throw new TypeError("fields must be 'all', 'legacy', 'draft' or 'none'");
    }
    this.limiter = limiter;
    this.#native = limiterNative(limiter);
    this.#legacy = (FIELDS[fields] & LEGACY) !== 0;
    this.#draft = (FIELDS[fields] & DRAFT) !== 0;
    this.#policy = this.#native.httpPolicy;
    this.#items = this.#native.httpItems;
    this.#plain = isPlain(limiter);
    this.hasLeases = hasLeases(limiter);
    this.admitsAtOnce = !this.hasLeases && !hasQueue(limiter);
  }

  // The value of RateLimit-Policy, '' when unlimited.
  get policy() {
    return this.#policy;
  }

  // Decides in this process and writes the fields.
  check(key, cost, res) {
    if (!this.#plain) return this.write(this.limiter.checkSync(key, cost), res);
    this.#native.checkHttp(key, cost);
    const decision = new Decision(0);
    this.#writeFields(decision, res, this.#policy);
    return decision;
  }

  // Writes the fields of a decision that was made elsewhere, by this limiter's rule. policy: of all
  // limiters that were asked.
  write(decision, res, policy = this.#policy) {
    load(decision);
    this.#native.http();
    this.#writeFields(decision, res, policy);
    return decision;
  }

  // Ends the response of a request that may not go on.
  refuse(decision, res) {
    load(decision);
    const body = this.#native.httpBody();
    if (res.headersSent) return;
    res.statusCode = decision.outcome === 'unavailable' ? 503 : 429;
    res.setHeader('content-type', 'application/json; charset=utf-8');
    res.setHeader('content-length', body.length);
    res.end(body);
  }

  // The record is read at once: setHeader may be someone's code, which may make checks.
  #writeFields(decision, res, policy) {
    const reset = records[record.HTTP_RESET];
    const retryAfter = records[record.HTTP_RETRY_AFTER];
    const t = records[record.HTTP_T];
    // Express gives every response a hidden class of its own, so that each access to a property
    // misses the inline caches: setHeader is looked up once, headersSent only when it matters.
    const { setHeader } = res;
    try {
      if (retryAfter >= 0) setHeader.call(res, 'retry-after', `${retryAfter}`);
      if (reset < 0) return;
      const { remaining } = decision;
      if (this.#legacy) {
        setHeader.call(res, 'x-ratelimit-limit', `${decision.limit}`);
        setHeader.call(res, 'x-ratelimit-remaining', `${remaining}`);
        setHeader.call(res, 'x-ratelimit-reset', `${reset}`);
      }
      if (this.#draft) {
        const item = this.#items[decision.rule] + remaining;
        setHeader.call(res, 'ratelimit', t >= 0 ? `${item};t=${t}` : item);
        setHeader.call(res, 'ratelimit-policy', policy);
      }
    } catch (error) {
      if (!res.headersSent) throw error;
    }
  }
}

module.exports = { HttpAnswers };

'use strict';
// A held lease: renewed while it is held, released once.

const { SaqiyaError } = require('./errors.js');

const LONGEST_TIMER = 2 ** 31 - 1; // ms

// The limiter and key it was acquired on, ttl in ms.
class Lease {
  #limiter;
  #key;
  #decision;
  #lost = new AbortController();
  #timer;
  #released;

  constructor(limiter, key, decision, ttl, renews) {
    this.#limiter = limiter;
    this.#key = key;
    this.#decision = decision;
    if (!renews) return;
    // Two renewals may fail before the lease ends. The timer holds no process alive.
    const every = Math.min(Math.max(Math.floor(ttl / 3), 1), LONGEST_TIMER);
    this.#timer = setInterval(() => this.renew().catch(() => {}), every);
    this.#timer.unref();
  }

  get decision() {
    return this.#decision;
  }

  get signal() {
    return this.#lost.signal;
  }

  async renew() {
    const decision = await this.#limiter.renew(this.#key, this.#decision);
    if (decision.outcome === 'denied' && this.#released === undefined) {
      clearInterval(this.#timer);
      this.#lost.abort(new SaqiyaError('lease_lost', 'the lease expired or was released'));
    }
    return decision;
  }

  release() {
    if (this.#released === undefined) {
      clearInterval(this.#timer);
      this.#released = this.#limiter.release(this.#key, this.#decision);
    }
    return this.#released;
  }
}

if (Symbol.asyncDispose !== undefined) {
  Lease.prototype[Symbol.asyncDispose] = async function dispose() {
    await this.release();
  };
}

function refused(decision) {
  const reason = decision.reason === null ? '' : `: ${decision.reason}`;
  const error = new SaqiyaError('refused', `the lease was not given: ${decision.outcome}${reason}`);
  error.decision = decision;
  return error;
}

module.exports = { Lease, refused };

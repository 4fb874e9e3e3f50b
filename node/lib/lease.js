'use strict';
// A held lease: renewed while it is held, released once.

const { SaqiyaError } = require('./errors.js');

const LONGEST_TIMER = 2 ** 31 - 1; // ms

class Lease {
  #limiter;
  #key;
  #decision;
  #ttl; // ms
  #end; // performance.now() at which it ends, if it is not renewed
  #lost = new AbortController();
  #timer;
  #released;

  // start: performance.now() from which on ttl may count. One that the failure policy gave unseen does
  // not end, for there is nothing to renew or to release.
  constructor(limiter, key, decision, ttl, { start, renews }) {
    this.#limiter = limiter;
    this.#key = key;
    this.#decision = decision;
    this.#ttl = ttl;
    this.#end = start + ttl;
    if (decision.source === 'open') return;
    if (!renews) {
      this.#watch();
      return;
    }
    // Two renewals may fail before the lease ends. The timer holds no process alive.
    const every = Math.min(Math.max(Math.floor(ttl / 3), 1), LONGEST_TIMER);
    this.#timer = setInterval(() => this.#renewInTime(), every);
    this.#timer.unref();
  }

  get decision() {
    return this.#decision;
  }

  get signal() {
    return this.#lost.signal;
  }

  async renew() {
    if (this.#decision.source === 'open') return this.#decision;
    const start = performance.now();
    const decision = await this.#limiter.renew(this.#key, this.#decision);
    if (decision.allowed) this.#end = start + this.#ttl;
    else if (decision.outcome === 'denied' && this.#released === undefined) this.#lose();
    return decision;
  }

  // A store that fails, or a limiter that was closed, lets the lease end in its time.
  async #renewInTime() {
    await this.renew().catch(() => {});
    if (this.#released === undefined && performance.now() >= this.#end) this.#lose();
  }

  // The lease ends in its time, which the holder may have renewed meanwhile.
  #watch() {
    const left = this.#end - performance.now();
    if (left <= 0) {
      this.#lose();
      return;
    }
    this.#timer = setTimeout(() => this.#watch(), Math.min(Math.ceil(left), LONGEST_TIMER));
    this.#timer.unref();
  }

  #lose() {
    clearInterval(this.#timer);
    this.#lost.abort(new SaqiyaError('lease_lost', 'the lease has ended'));
  }

  release() {
    if (this.#released === undefined) {
      clearInterval(this.#timer);
      const isUnseen = this.#decision.source === 'open';
      this.#released = isUnseen
        ? Promise.resolve(this.#decision)
        : this.#limiter.release(this.#key, this.#decision);
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

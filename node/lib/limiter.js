'use strict';

const native = require('./native.js');
const { sleep, unlessAborted } = require('./acquire.js');
const { Decision, spendTicket } = require('./decision.js');
const { SaqiyaError, closed } = require('./errors.js');
const { checkNames, optionalText } = require('./options.js');
const { openStore, storeHandle, storeQueue } = require('./store.js');
const { deadlineMicros, exactMicros, waitMicros } = require('./units.js');

const OPTIONS = new Set(['store', 'name', 'deadline']);
const RESERVE_OPTIONS = new Set(['cost', 'timeout']);
const ACQUIRE_OPTIONS = new Set(['cost', 'timeout', 'signal']);
const OP_CHECK = 1;
const OP_PEEK = 2;
const OP_RESET = 4;
const MANY_AT_ONCE = 4096;

function policyArgument(policy) {
  if (typeof policy === 'string') return policy;
  if (policy === null || typeof policy !== 'object') {
    throw new TypeError('a policy must be a string or { capacity, tokens, period }');
  }
  checkNames(policy, new Set(['capacity', 'tokens', 'period']), 'policy');
  const { capacity, tokens, period } = policy;
  for (const [name, value] of Object.entries({ capacity, tokens, period })) {
    if (typeof value !== 'number') throw new TypeError(`${name} must be a number`);
  }
  if (!Number.isSafeInteger(capacity)) throw new RangeError('capacity must be a whole number');
  if (!Number.isSafeInteger(tokens)) throw new RangeError('tokens must be a whole number');
  return [capacity, tokens, exactMicros(period, 'period')];
}

function notLocal() {
  throw new SaqiyaError('not_local', 'the store is not in this process: use the asynchronous call');
}

let limiterNative;

class Limiter {
  #native;
  #local; // decisions are made in this process: the store is here, or none is needed
  #check; // the addon's function for this limiter; throws unless #local
  #store;
  #release;
  #closing;

  constructor(policy, options = {}) {
    checkNames(options, OPTIONS, 'limiter');
    const argument = policyArgument(policy);
    const name = optionalText(options.name, 'name');
    const deadline = deadlineMicros(options.deadline);
    const { store, release } = openStore(options.store);
    try {
      this.#native = native.createLimiter(storeHandle(store), argument, name, deadline);
    } catch (error) {
      release();
      throw error;
    }
    this.#local = store.isLocal || this.#native.text === 'unlimited';
    this.#check = this.#local ? this.#native.check : notLocal;
    this.#store = store;
    this.#release = release;
  }

  get policy() {
    return this.#native.text;
  }

  get name() {
    return this.#native.name;
  }

  get store() {
    return this.#store;
  }

  checkSync(key, cost) {
    if (cost === undefined) this.#check(key);
    else this.#check(key, cost);
    return new Decision(0);
  }

  check(key, cost) {
    try {
      if (this.#local) return Promise.resolve(this.checkSync(key, cost));
      return this.#submit(OP_CHECK, key, cost);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  peekSync(key, cost = 1) {
    this.#needLocal();
    this.#native.peek(key, cost);
    return new Decision(0);
  }

  async peek(key, cost = 1) {
    if (this.#local) return this.peekSync(key, cost);
    return this.#submit(OP_PEEK, key, cost);
  }

  refundSync(key, decision) {
    this.#needLocal();
    spendTicket(decision, (...ticket) => this.#native.refund(key, ...ticket));
    return new Decision(0);
  }

  async refund(key, decision) {
    if (this.#local) return this.refundSync(key, decision);
    const queue = storeQueue(this.#store);
    const { handle } = this.#native;
    return spendTicket(decision, (...ticket) => queue.refund(handle, key, ticket));
  }

  resetSync(key) {
    this.#needLocal();
    this.#native.reset(key);
    return new Decision(0);
  }

  async reset(key) {
    if (this.#local) return this.resetSync(key);
    return this.#submit(OP_RESET, key);
  }

  async checkMany(keys, cost = 1) {
    if (!Array.isArray(keys)) throw new TypeError('keys must be an array');
    const decisions = [];
    for (let from = 0; from < keys.length; from += MANY_AT_ONCE) {
      const some = keys.slice(from, from + MANY_AT_ONCE);
      decisions.push(...(await Promise.all(some.map((key) => this.check(key, cost)))));
    }
    return decisions;
  }

  reserveSync(key, options = {}) {
    checkNames(options, RESERVE_OPTIONS, 'reserve');
    const { cost = 1, timeout = Infinity } = options;
    this.#needLocal();
    this.#native.checkWait(key, cost, waitMicros(timeout, 'timeout'));
    return new Decision(0);
  }

  async reserve(key, options = {}) {
    checkNames(options, RESERVE_OPTIONS, 'reserve');
    const { cost = 1, timeout = Infinity } = options;
    return this.#reserve(key, cost, waitMicros(timeout, 'timeout'));
  }

  async acquire(key, options = {}) {
    checkNames(options, ACQUIRE_OPTIONS, 'acquire');
    const { cost = 1, timeout = Infinity, signal } = options;
    const maxWaitUs = waitMicros(timeout, 'timeout');
    signal?.throwIfAborted();
    const decision = await this.#reserve(key, cost, maxWaitUs, signal);
    try {
      signal?.throwIfAborted();
      if (decision.delay > 0) await sleep(decision.delay, signal);
    } catch (reason) {
      // It cannot fail but by a close meanwhile, and then the caller still wants the reason.
      await this.refund(key, decision).catch(() => {});
      throw reason;
    }
    return decision;
  }

  #submit(op, key, cost = 1, maxWaitUs = 0) {
    return storeQueue(this.#store).submit(this.#native.handle, op, key, cost, maxWaitUs);
  }

  #reserve(key, cost, maxWaitUs, signal) {
    if (this.#local) {
      this.#native.checkWait(key, cost, maxWaitUs);
      return new Decision(0);
    }
    if (signal === undefined) return this.#submit(OP_CHECK, key, cost, maxWaitUs);
    const { promise, withdraw } = storeQueue(this.#store).submitCancellable(
      ...[this.#native.handle, OP_CHECK, key, cost, maxWaitUs],
    );
    return unlessAborted(promise, signal, withdraw);
  }

  close() {
    if (this.#closing === undefined) {
      this.#native.close();
      this.#closing = this.#release();
    }
    return this.#closing;
  }

  #needLocal() {
    if (this.#closing !== undefined) throw closed('limiter');
    if (!this.#local) notLocal();
  }

  // For this package alone: the addon's object, on which HTTP answers are built.
  static {
    limiterNative = (limiter) => limiter.#native;
  }
}

module.exports = { Limiter, limiterNative };

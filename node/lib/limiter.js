'use strict';

const native = require('./native.js');
const { acquire, unlessAborted } = require('./acquire.js');
const { Decision, makeRoom, useTicket } = require('./decision.js');
const { SaqiyaError, closed } = require('./errors.js');
const { FAILURE_OPTIONS, failureArguments } = require('./failure.js');
const { Lease, refused } = require('./lease.js');
const { checkNames, optionalText } = require('./options.js');
const { policyArgument, ruleOf } = require('./policy.js');
const { openStore, storeHandle, storeQueue } = require('./store.js');
const { NO_WAIT, deadlineMicros, waitMicros } = require('./units.js');

const OPTIONS = new Set(['store', 'name', 'deadline', ...FAILURE_OPTIONS]);
const RESERVE_OPTIONS = new Set(['cost', 'timeout']);
const ACQUIRE_OPTIONS = new Set(['cost', 'timeout', 'signal']);
const HOLD_OPTIONS = new Set(['cost', 'timeout', 'signal', 'renew']);
const OP_CHECK = 1;
const OP_PEEK = 2;
const OP_REFUND = 3;
const OP_RESET = 4;
const OP_SETTLE = 5;
const OP_RENEW = 6;
const OP_RELEASE = 16; // the addon's: a refund of leases alone
const RESERVED = new Set(['token-bucket', 'unlimited']);
const MANY_AT_ONCE = 4096;

function notLocal() {
  throw new SaqiyaError('not_local', 'the store is not in this process: use the asynchronous call');
}

function needArray(keys) {
  if (!Array.isArray(keys)) throw new TypeError('keys must be an array');
}

// Of hold, what comes after the key: options, a function, or both.
function holdArguments(rest) {
  const given = typeof rest[0] === 'function' ? [undefined, ...rest] : rest;
  const [options = {}, fn] = given;
  if (given.length > 2 || (given.length === 2 && typeof fn !== 'function')) {
    throw new TypeError('hold takes a key, options and a function, in this order');
  }
  checkNames(options, HOLD_OPTIONS, 'hold');
  const { renew = true } = options;
  if (typeof renew !== 'boolean') throw new TypeError('renew must be a boolean');
  return { options, fn };
}

// The text of a policy that may be given by rules.
function policyText(handle, policy) {
  const argument = policyArgument(policy);
  if (typeof argument === 'string') return argument;
  const made = native.createLimiter(handle, argument, undefined, 0, 0, 0, 0, undefined);
  made.close();
  return made.text;
}

let limiterNative;
let isLocal;
let isPlain;
let hasLeases;
let hasQueue;
let reserves;

class Limiter {
  #native;
  #local; // decisions are made in this process: the store is here, or none is needed
  #check; // the addon's function for this limiter; throws unless #local
  #parts; // how many rules, when decisions need room of their own: several, or leases; else 0
  #rules;
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
      const handle = storeHandle(store);
      const failure = failureArguments(options, (fallback) => policyText(handle, fallback));
      this.#native = native.createLimiter(handle, argument, name, deadline, ...failure);
    } catch (error) {
      release();
      throw error;
    }
    this.#rules = this.#native.rules.map(ruleOf);
    const [{ algorithm }] = this.#rules;
    const count = this.#rules.length;
    this.#parts = count > 1 || algorithm === 'concurrency' ? count : 0;
    this.#local = store.isLocal || algorithm === 'unlimited';
    this.#check = this.#local ? this.#native.check : notLocal;
    this.#store = store;
    this.#release = release;
  }

  get policy() {
    return this.#native.text;
  }

  get rules() {
    return this.#rules.map((rule) => ({ ...rule }));
  }

  get name() {
    return this.#native.name;
  }

  get store() {
    return this.#store;
  }

  checkSync(key, cost) {
    if (this.#parts !== 0) return this.#askParts(OP_CHECK, key, cost, 0);
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
    if (this.#parts !== 0) return this.#askParts(OP_PEEK, key, cost, 0);
    this.#needLocal();
    this.#native.peek(key, cost);
    return new Decision(0);
  }

  async peek(key, cost = 1) {
    return this.#local ? this.peekSync(key, cost) : this.#submit(OP_PEEK, key, cost);
  }

  refundSync(key, decision) {
    return this.#changeSync(OP_REFUND, key, decision, 0);
  }

  async refund(key, decision) {
    return this.#change(OP_REFUND, key, decision, 0);
  }

  settleSync(key, decision, cost) {
    return this.#changeSync(OP_SETTLE, key, decision, cost);
  }

  async settle(key, decision, cost) {
    return this.#change(OP_SETTLE, key, decision, cost);
  }

  renewSync(key, decision) {
    return this.#changeSync(OP_RENEW, key, decision, 0);
  }

  async renew(key, decision) {
    return this.#change(OP_RENEW, key, decision, 0);
  }

  releaseSync(key, decision) {
    return this.#changeSync(OP_RELEASE, key, decision, 0);
  }

  async release(key, decision) {
    return this.#change(OP_RELEASE, key, decision, 0);
  }

  resetSync(key) {
    this.#needLocal();
    this.#native.reset(key);
    return new Decision(0);
  }

  async reset(key) {
    return this.#local ? this.resetSync(key) : this.#submit(OP_RESET, key);
  }

  checkManySync(keys, cost = 1) {
    needArray(keys);
    return keys.map((key) => this.checkSync(key, cost));
  }

  async checkMany(keys, cost = 1) {
    needArray(keys);
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
    return this.#reserveSync(key, cost, waitMicros(timeout, 'timeout') || NO_WAIT);
  }

  async reserve(key, options = {}) {
    checkNames(options, RESERVE_OPTIONS, 'reserve');
    const { cost = 1, timeout = Infinity } = options;
    return this.#reserve(key, cost, waitMicros(timeout, 'timeout') || NO_WAIT);
  }

  async acquire(key, options = {}) {
    checkNames(options, ACQUIRE_OPTIONS, 'acquire');
    return this.#acquire(key, options);
  }

  async hold(key, ...rest) {
    const { options, fn } = holdArguments(rest);
    const leased = this.#rules.find(({ algorithm }) => algorithm === 'concurrency');
    if (leased === undefined) throw new TypeError('hold needs a policy with a concurrency rule');
    const { timeout = 0, renew = true } = options;
    let asked; // the lease is not older than this
    const decision = await this.#acquire(key, { ...options, timeout }, () => {
      asked = performance.now();
    });
    if (!decision.allowed) throw refused(decision);
    const lease = new Lease(this, key, decision, leased.ttl, { start: asked, renews: renew });
    if (fn === undefined) return lease;
    try {
      return await fn(lease);
    } finally {
      // A limiter that was closed meanwhile cannot release it: it ends in its time.
      await lease.release().catch(() => {});
    }
  }

  close() {
    if (this.#closing === undefined) {
      this.#native.close();
      this.#closing = this.#release();
    }
    return this.#closing;
  }

  // A decision of several rules, on a store in this process.
  #askParts(op, key, cost = 1, maxWaitUs) {
    this.#needLocal();
    const parts = this.#newParts();
    this.#native.askParts(op, key, cost, maxWaitUs, parts.room);
    return new Decision(0, parts);
  }

  #newParts() {
    const count = this.#parts;
    return { room: makeRoom(count), first: 0, count, counts: undefined };
  }

  #submit(op, key, cost = 1, maxWaitUs = 0) {
    const queue = storeQueue(this.#store);
    const { handle } = this.#native;
    if (this.#parts === 0 || op === OP_RESET) return queue.submit(handle, op, key, cost, maxWaitUs);
    return queue.submitParts(handle, op, key, cost, maxWaitUs, this.#newParts());
  }

  #changeSync(op, key, decision, cost) {
    this.#needLocal();
    useTicket(decision, op !== OP_RENEW, (ticket) => this.#native.change(op, key, cost, ...ticket));
    return new Decision(0);
  }

  #change(op, key, decision, cost) {
    if (this.#local) return this.#changeSync(op, key, decision, cost);
    const queue = storeQueue(this.#store);
    return useTicket(decision, op !== OP_RENEW, (ticket, unspend) =>
      queue.change(this.#native.handle, op, key, cost, ticket, unspend),
    );
  }

  #reserveSync(key, cost, maxWaitUs) {
    if (this.#parts !== 0) return this.#askParts(OP_CHECK, key, cost, maxWaitUs);
    this.#native.checkWait(key, cost, maxWaitUs);
    return new Decision(0);
  }

  #reserve(key, cost, maxWaitUs, signal) {
    if (this.#local) return this.#reserveSync(key, cost, maxWaitUs);
    const submit = () => this.#submit(OP_CHECK, key, cost, maxWaitUs);
    if (signal === undefined) return submit();
    return unlessAborted(storeQueue(this.#store).cancellable(submit), signal);
  }

  #acquire(key, { cost = 1, timeout = Infinity, signal }, onAsk) {
    const request = {
      ask: (maxWaitUs) => {
        onAsk?.();
        return this.#reserve(key, cost, maxWaitUs, signal);
      },
      pause: (attempt, leftUs) => this.#native.pause(attempt, leftUs),
      giveBack: (decision) => this.refund(key, decision),
      reserves: reserves(this),
    };
    return acquire(request, timeout, signal);
  }

  #needLocal() {
    if (this.#closing !== undefined) throw closed('limiter');
    if (!this.#local) notLocal();
  }

  // For this package alone: the addon's object, on which HTTP answers are built, and what several
  // limiters that are asked at once need of each.
  static {
    limiterNative = (limiter) => limiter.#native;
    isLocal = (limiter) => limiter.#local;
    isPlain = (limiter) => limiter.#parts === 0;
    hasLeases = (limiter) => limiter.#rules.some(({ algorithm }) => algorithm === 'concurrency');
    hasQueue = (limiter) => limiter.#rules.some(({ queue }) => queue > 0);
    reserves = (limiter) => limiter.#rules.every(({ algorithm }) => RESERVED.has(algorithm));
  }
}

module.exports = { Limiter, limiterNative, isLocal, isPlain, hasLeases, hasQueue, reserves };

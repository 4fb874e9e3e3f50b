'use strict';
// Several limiters asked at once: all are charged, or none is.

const native = require('./native.js');
const { acquire, unlessAborted } = require('./acquire.js');
const { Decision, makeRoom, roomOf } = require('./decision.js');
const { SaqiyaError } = require('./errors.js');
const { Limiter, isLocal, limiterNative, reserves } = require('./limiter.js');
const { checkNames } = require('./options.js');
const { storeQueue } = require('./store.js');
const { NO_WAIT, waitMicros } = require('./units.js');

const MAX_ITEMS = 16;
const ITEM = new Set(['limiter', 'key', 'cost']);
const RESERVE_OPTIONS = new Set(['timeout']);
const ACQUIRE_OPTIONS = new Set(['timeout', 'signal']);
const OP_CHECK = 1;
const OP_PEEK = 2;
const OP_REFUND = 3;

// The items of a call, as the addon takes them.
class Group {
  #arguments = []; // handle, key, cost of each
  #counts = []; // rules of each
  #rules = 0; // of all
  #store;
  #reserves = true; // token buckets only
  local = true; // every limiter is, or needs no store

  constructor(items) {
    if (!Array.isArray(items)) throw new TypeError('items must be an array');
    if (items.length === 0 || items.length > MAX_ITEMS) {
      throw new RangeError(`there must be 1 to ${MAX_ITEMS} items`);
    }
    for (const item of items) this.#add(item);
  }

  #add(item) {
    checkNames(item, ITEM, 'item');
    const { limiter, key, cost = 1 } = item;
    if (!(limiter instanceof Limiter)) throw new TypeError('limiter must be a Limiter');
    this.#store ??= limiter.store;
    if (limiter.store !== this.#store) throw new TypeError('the limiters must be of one store');
    const { handle, rules } = limiterNative(limiter);
    this.#arguments.push(handle, key, cost);
    this.#counts.push(rules.length);
    this.#rules += rules.length;
    this.local &&= isLocal(limiter);
    this.#reserves &&= reserves(limiter);
  }

  #newParts() {
    const count = this.#rules;
    return { room: makeRoom(count), first: 0, count, counts: this.#counts };
  }

  #needLocal() {
    if (this.local) return;
    throw new SaqiyaError(
      'not_local',
      'the store is not in this process: use the asynchronous call',
    );
  }

  checkSync() {
    return this.askSync(OP_CHECK, 0);
  }

  check() {
    return this.ask(OP_CHECK, 0);
  }

  askSync(op, maxWaitUs) {
    this.#needLocal();
    const parts = this.#newParts();
    native.ask(op, maxWaitUs, parts.room, ...this.#arguments);
    return new Decision(0, parts);
  }

  // signal: undefined, or withdraws the request.
  ask(op, maxWaitUs, signal) {
    if (this.local) return this.askSync(op, maxWaitUs);
    const queue = storeQueue(this.#store);
    const submit = () => queue.submitItems(op, maxWaitUs, this.#arguments, this.#newParts());
    if (signal === undefined) return submit();
    return unlessAborted(queue.cancellable(submit), signal);
  }

  refundSync(decision) {
    this.#needLocal();
    native.ask(OP_REFUND, 0, this.#ticketsOf(decision), ...this.#arguments);
    return new Decision(0);
  }

  refund(decision) {
    if (this.local) return this.refundSync(decision);
    const room = this.#ticketsOf(decision);
    return storeQueue(this.#store).refundItems(this.#arguments, room);
  }

  acquire(timeout, signal) {
    const request = {
      ask: (maxWaitUs) => this.ask(OP_CHECK, maxWaitUs, signal),
      pause: (attempt, leftUs) => native.pause(attempt, leftUs, ...this.#arguments),
      giveBack: async (decision) => this.refund(decision),
      reserves: this.#reserves,
    };
    return acquire(request, timeout, signal);
  }

  #ticketsOf(decision) {
    return roomOf(decision) ?? makeRoom(this.#rules).fill(0);
  }
}

async function checkAll(items) {
  return new Group(items).check();
}

function checkAllSync(items) {
  return new Group(items).checkSync();
}

async function peekAll(items) {
  return new Group(items).ask(OP_PEEK, 0);
}

function peekAllSync(items) {
  return new Group(items).askSync(OP_PEEK, 0);
}

function reserveWait(options = {}) {
  checkNames(options, RESERVE_OPTIONS, 'reserveAll');
  const { timeout = Infinity } = options;
  return waitMicros(timeout, 'timeout') || NO_WAIT;
}

async function reserveAll(items, options) {
  return new Group(items).ask(OP_CHECK, reserveWait(options));
}

function reserveAllSync(items, options) {
  return new Group(items).askSync(OP_CHECK, reserveWait(options));
}

async function acquireAll(items, options = {}) {
  checkNames(options, ACQUIRE_OPTIONS, 'acquireAll');
  const { timeout = Infinity, signal } = options;
  return new Group(items).acquire(timeout, signal);
}

async function refundAll(items, decision) {
  return new Group(items).refund(decision);
}

function refundAllSync(items, decision) {
  return new Group(items).refundSync(decision);
}

module.exports = {
  Group,
  checkAll,
  checkAllSync,
  peekAll,
  peekAllSync,
  reserveAll,
  reserveAllSync,
  acquireAll,
  refundAll,
  refundAllSync,
};

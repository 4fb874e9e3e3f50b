'use strict';
// Requests to a remote store. Each pending one has a slot, a small number that the addon hands back
// with the answer; slots are used again, so the arrays stay as small as the busiest moment was.

const native = require('./native.js');
const record = require('./record.js');
const { Decision, unavailable } = require('./decision.js');

const { records } = record;
// Taken now, so that a test's fake timers cannot stop the traffic.
const { nextTick } = process;

const CAPACITY = 65536;
const REASON_BUSY = 12;
const FULL = 2;
const FLUSH_WANTED = 1;
const NOBODY = Symbol('nobody');

class Queue {
  #native;
  #settle;
  #flush;
  #resolvers = [];
  #free = [];

  constructor(storeHandle) {
    this.#settle = (count) => this.#complete(count);
    this.#flush = () => this.flush();
    // The addon holds #settle weakly while nothing is pending.
    this.#native = native.createQueue(storeHandle, CAPACITY, this.#settle);
  }

  // op: a saqiya_op. The promise resolves to a Decision, also when the store fails; misuse rejects.
  submit(limiterHandle, op, key, cost, maxWaitUs) {
    const slot = this.#nextSlot();
    const result = this.#native.submit(limiterHandle, op, slot, key, cost, maxWaitUs);
    return this.#pending(slot, result);
  }

  refund(limiterHandle, key, ticket) {
    const slot = this.#nextSlot();
    const result = this.#native.refund(limiterHandle, slot, key, ...ticket);
    return this.#pending(slot, result);
  }

  // As submit; gives { promise, withdraw }. withdraw() is true when the request will not be answered
  // any more; whatever it charges is given back.
  submitCancellable(limiterHandle, op, key, cost, maxWaitUs) {
    const slot = this.#nextSlot();
    const result = this.#native.submit(limiterHandle, op, slot, key, cost, maxWaitUs);
    const promise = this.#pending(slot, result);
    // The slot may be another request's by the time of the call, its resolver tells.
    const resolver = result === FULL ? NOBODY : this.#resolvers[slot];
    return { promise, withdraw: () => this.#cancel(slot, resolver) };
  }

  flush() {
    let count;
    while ((count = this.#native.flush()) !== 0) this.#complete(count);
  }

  close() {
    this.#native.cancelAll();
    this.flush();
    this.#native.close();
  }

  #nextSlot() {
    const free = this.#free;
    return free.length !== 0 ? free[free.length - 1] : this.#resolvers.length;
  }

  #pending(slot, result) {
    if (result === FULL) return Promise.resolve(unavailable(REASON_BUSY));
    if (this.#free.length !== 0) this.#free.pop();
    if (result === FLUSH_WANTED) nextTick(this.#flush);
    return new Promise((resolve) => {
      this.#resolvers[slot] = resolve;
    });
  }

  #cancel(slot, resolver) {
    if (this.#resolvers[slot] !== resolver || !this.#native.cancel(slot)) return false;
    this.#resolvers[slot] = undefined;
    this.#free.push(slot);
    return true;
  }

  #complete(count) {
    const resolvers = this.#resolvers;
    const free = this.#free;
    for (let i = 0, at = 0; i < count; i++, at += record.STRIDE) {
      const slot = records[at + record.USER_DATA];
      const resolve = resolvers[slot];
      resolvers[slot] = undefined;
      free.push(slot);
      resolve(new Decision(at));
    }
  }
}

module.exports = { Queue };

'use strict';
// Requests to a remote store. Each pending one has a slot, a small number that the addon hands back
// with the answer; slots are used again, so the arrays stay as small as the busiest moment was.

const native = require('./native.js');
const record = require('./record.js');
const { Decision, unavailable, withParts } = require('./decision.js');

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

  // The same for a limiter of several rules. The room in parts is written to until the completion, so
  // the slot keeps it.
  submitParts(limiterHandle, op, key, cost, maxWaitUs, parts) {
    const slot = this.#nextSlot();
    const { room } = parts;
    const result = this.#native.submit(limiterHandle, op, slot, key, cost, maxWaitUs, room);
    return this.#pending(slot, result, parts);
  }

  // Check or peek (with parts), or refund (of the room's tickets), of several limiters.
  submitItems(op, maxWaitUs, items, parts, room = parts.room) {
    const slot = this.#nextSlot();
    const result = this.#native.submitItems(op, slot, maxWaitUs, room, ...items);
    return this.#pending(slot, result, parts);
  }

  // Refund, settle, renew, release.
  change(limiterHandle, op, key, cost, ticket) {
    const slot = this.#nextSlot();
    const result = this.#native.change(limiterHandle, op, slot, key, cost, ...ticket);
    return this.#pending(slot, result);
  }

  // Calls submit(), which calls one of those above, and gives { promise, withdraw }. withdraw() is true
  // when the request will not be answered any more; whatever it charges is given back.
  cancellable(submit) {
    const slot = this.#nextSlot();
    const before = this.#resolvers[slot];
    const promise = submit();
    // Later the slot may be another request's; its resolver tells. The queue was full if it is not set.
    const resolver = this.#resolvers[slot] === before ? NOBODY : this.#resolvers[slot];
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

  #pending(slot, result, parts) {
    if (result === FULL) return Promise.resolve(unavailable(REASON_BUSY));
    if (this.#free.length !== 0) this.#free.pop();
    if (result === FLUSH_WANTED) nextTick(this.#flush);
    return new Promise((resolve) => {
      this.#resolvers[slot] =
        parts === undefined ? resolve : (decision) => resolve(withParts(decision, parts));
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

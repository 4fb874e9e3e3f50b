'use strict';
// Requests to a remote store. Each pending one has a slot, a small number that the addon hands back
// with the answer; slots are used again, so the arrays stay as small as the busiest moment was.

const native = require('./native.js');
const record = require('./record.js');
const { Decision, spending, unavailable, withParts } = require('./decision.js');
const { UNDONE } = require('./names.js');

const { records } = record;
// Taken now, so that a test's fake timers cannot stop the traffic.
const { nextTick } = process;

const CAPACITY = 65536;
const OP_REFUND = 3;
const REASON_BUSY = 12;
const FULL = 2;
const FLUSH_WANTED = 1;
const NOBODY = Symbol('nobody');

function finish(decision, parts, unspend) {
  if (decision.outcome === 'unavailable' && UNDONE.has(decision.reason)) unspend?.();
  return parts === undefined ? decision : withParts(decision, parts);
}

class Queue {
  #native;
  #events;
  #onTurn;
  #flush;
  #resolvers = [];
  #free = [];

  // events: { hasEvent(), tell() } of the store.
  constructor(storeHandle, events) {
    this.#events = events;
    this.#onTurn = (count, hasEvent) => {
      this.#complete(count);
      if (hasEvent) events.tell();
    };
    this.#flush = () => this.flush();
    // The addon holds #onTurn weakly while nothing is pending.
    this.#native = native.createQueue(storeHandle, CAPACITY, this.#onTurn);
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

  // Check or peek of several limiters.
  submitItems(op, maxWaitUs, items, parts) {
    const slot = this.#nextSlot();
    const result = this.#native.submitItems(op, slot, maxWaitUs, parts.room, ...items);
    return this.#pending(slot, result, parts);
  }

  // Refund of several limiters by the room's tickets.
  refundItems(items, room) {
    return spending(room, (unspend) => {
      const slot = this.#nextSlot();
      const result = this.#native.submitItems(OP_REFUND, slot, 0, room, ...items);
      return this.#pending(slot, result, undefined, unspend);
    });
  }

  // Refund, settle, renew, release. unspend() is called when nothing was done; undefined: the ticket is
  // one of parts.
  change(limiterHandle, op, key, cost, ticket, unspend) {
    if (unspend === undefined) {
      return spending(ticket[0], (take) => this.change(limiterHandle, op, key, cost, ticket, take));
    }
    const slot = this.#nextSlot();
    const result = this.#native.change(limiterHandle, op, slot, key, cost, ...ticket);
    return this.#pending(slot, result, undefined, unspend);
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
    if (this.#events.hasEvent()) this.#events.tell();
  }

  close() {
    this.#native.cancelAll();
    try {
      this.flush(); // which may throw what a listener throws
    } finally {
      this.#native.close();
    }
  }

  #nextSlot() {
    const free = this.#free;
    return free.length !== 0 ? free[free.length - 1] : this.#resolvers.length;
  }

  #pending(slot, result, parts, unspend) {
    if (result === FULL) {
      unspend?.();
      return Promise.resolve(unavailable(REASON_BUSY));
    }
    if (this.#free.length !== 0) this.#free.pop();
    if (result === FLUSH_WANTED) nextTick(this.#flush);
    return new Promise((resolve) => {
      this.#resolvers[slot] =
        parts === undefined && unspend === undefined
          ? resolve
          : (decision) => resolve(finish(decision, parts, unspend));
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

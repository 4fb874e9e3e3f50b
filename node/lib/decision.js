'use strict';

const { inspect } = require('node:util');
const native = require('./native.js');
const { OUTCOMES, SOURCES, reasonName } = require('./names.js');
const record = require('./record.js');

const { records } = record;
const ALLOWED = 1;
const DENIED = 2;
const UNAVAILABLE = 4;

let unavailable;
let load;
let withParts;
let useTicket;
let roomOf;
let compareBinding;

// Built from a record on the hot path: plain numbers in microseconds, read by getters.
class Decision {
  #outcome;
  #detail; // reason + rule * 2^8 + item * 2^16 + source * 2^24
  #limit;
  #remaining;
  #retryAfter;
  #resetAfter;
  #delay;
  // What the charge can be given back by, as the addon wants it. N is 0 when there is nothing.
  #ticketQ;
  #ticketR;
  #ticketN;
  #ticketCost;
  #ticketEpochHigh;
  #ticketEpochLow;
  // Instead of these, where there are several rules or a lease: what each rule says, and its ticket.
  // { room, first, count, counts }: bytes as node/src/parts.h has them, of which `count` rules from
  // `first` on belong to this decision; counts: how many of each item, if there are items.
  #parts;

  constructor(at, parts) {
    this.#outcome = records[at];
    this.#detail = records[at + record.DETAIL];
    this.#limit = records[at + record.LIMIT];
    this.#remaining = records[at + record.REMAINING];
    this.#retryAfter = records[at + record.RETRY_AFTER_US];
    this.#resetAfter = records[at + record.RESET_AFTER_US];
    this.#delay = records[at + record.DELAY_US];
    this.#ticketQ = records[at + record.TICKET_Q];
    this.#ticketR = records[at + record.TICKET_R];
    this.#ticketN = records[at + record.TICKET_N];
    this.#ticketCost = records[at + record.TICKET_COST];
    this.#ticketEpochHigh = records[at + record.TICKET_EPOCH_HIGH];
    this.#ticketEpochLow = records[at + record.TICKET_EPOCH_LOW];
    this.#parts = parts;
  }

  get allowed() {
    return this.#outcome === ALLOWED;
  }

  get outcome() {
    return OUTCOMES[this.#outcome];
  }

  get reason() {
    return reasonName(this.#detail & 0xff);
  }

  get limit() {
    return this.#limit;
  }

  get remaining() {
    return this.#remaining;
  }

  get retryAfter() {
    return this.#retryAfter / 1000;
  }

  get resetAfter() {
    return this.#resetAfter / 1000;
  }

  get delay() {
    return this.#delay / 1000;
  }

  get rule() {
    return (this.#detail >> 8) & 0xff;
  }

  get item() {
    return (this.#detail >> 16) & 0xff;
  }

  get source() {
    return SOURCES[this.#detail >> 24];
  }

  get rules() {
    const parts = this.#parts;
    if (parts === undefined || parts.count === 1) return [this];
    parts.rules ??= Array.from({ length: parts.count }, (_, i) => this.#part(parts.first + i));
    return parts.rules.slice();
  }

  get items() {
    const parts = this.#parts;
    if (parts?.counts === undefined || parts.counts.length === 1) return [this];
    let first = 0;
    parts.items ??= parts.counts.map((count) => this.#itemAt((first += count) - count, count));
    return parts.items.slice();
  }

  toJSON() {
    const { allowed, outcome, reason, limit, remaining, retryAfter, resetAfter, delay } = this;
    const { rule, item, source } = this;
    return {
      allowed,
      outcome,
      reason,
      limit,
      remaining,
      retryAfter,
      resetAfter,
      delay,
      rule,
      item,
      source,
    };
  }

  [inspect.custom](_depth, options) {
    return `Decision ${inspect(this.toJSON(), options)}`;
  }

  // What one rule says.
  #part(first) {
    const { room } = this.#parts;
    native.unpack(room, first);
    return new Decision(0, { room, first, count: 1 });
  }

  // What an item's rules say together: as that one of them which binds.
  #itemAt(first, count) {
    const rules = Array.from({ length: count }, (_, i) => this.#part(first + i));
    const bound = rules.reduce((one, other) => (compareBinding(other, one) < 0 ? other : one));
    bound.#delay = Math.max(...rules.map((rule) => rule.#delay));
    bound.#parts = { room: this.#parts.room, first, count };
    return bound;
  }

  // For this package alone.
  static {
    unavailable = (reason) => {
      records.fill(0, 0, record.STRIDE);
      records[record.OUTCOME] = UNAVAILABLE;
      records[record.DETAIL] = reason;
      return new Decision(0);
    };

    // Writes the numbers back to record 0, for the addon's functions that read it.
    load = (decision) => {
      records[record.OUTCOME] = decision.#outcome;
      records[record.DETAIL] = decision.#detail;
      records[record.LIMIT] = decision.#limit;
      records[record.REMAINING] = decision.#remaining;
      records[record.RETRY_AFTER_US] = decision.#retryAfter;
      records[record.RESET_AFTER_US] = decision.#resetAfter;
      records[record.DELAY_US] = decision.#delay;
    };

    withParts = (decision, parts) => {
      decision.#parts = parts;
      return decision;
    };

    // Returns what use(ticket, unspend) returns. The ticket is spent unless use throws; unspend() takes
    // that back. Those in parts are marked by the addon, and there is no unspend(): see spending.
    useTicket = (decision, spends, use) => {
      needDecision(decision);
      const parts = decision.#parts;
      if (parts !== undefined) return use([parts.room, parts.first, parts.count]);
      const n = decision.#ticketN;
      const ticket = [
        decision.#ticketQ,
        decision.#ticketR,
        n,
        decision.#ticketCost,
        decision.#ticketEpochHigh,
        decision.#ticketEpochLow,
      ];
      // An earlier use has spent it for good, or will take that back itself.
      const unspend = () => (decision.#ticketN ||= n);
      if (spends) decision.#ticketN = 0;
      try {
        return use(ticket, unspend);
      } catch (error) {
        unspend();
        throw error;
      }
    };

    // Sorts those that bind most to the front. Numbers go to 2^53, their products need not be exact to
    // tell which share is shown.
    compareBinding = (one, other) => {
      if (one.#outcome !== other.#outcome) return other.#outcome - one.#outcome;
      if (one.#outcome === DENIED) return other.#retryAfter - one.#retryAfter;
      return one.#remaining / (one.#limit || 1) - other.#remaining / (other.#limit || 1);
    };

    // The room of a decision on all of these items; undefined: the request was never made.
    roomOf = (decision) => {
      needDecision(decision);
      const parts = decision.#parts;
      if (parts === undefined && decision.#outcome === UNAVAILABLE) return undefined;
      if (parts?.counts === undefined)
        throw new TypeError('the decision is not one of these items');
      return parts.room;
    };

    const needDecision = (decision) => {
      if (decision === null || typeof decision !== 'object' || !(#outcome in decision)) {
        throw new TypeError('the decision of the check is needed');
      }
    };
  }
}

// Room for what `count` rules say. Buffer's pool gives it without a call into the allocator.
function makeRoom(count) {
  const size = count * native.partSize;
  const room = Buffer.allocUnsafe(size);
  return room.byteOffset % 8 === 0 ? room : new Uint8Array(size);
}

// Runs use(unspend), which marks tickets in the room as spent. unspend(), called later, takes these
// marks back, and no others.
function spending(room, use) {
  const before = Uint8Array.prototype.slice.call(room);
  const marked = [];
  const result = use(() => marked.forEach((i) => (room[i] = before[i])));
  for (let i = 0; i < before.length; i++) if (room[i] !== before[i]) marked.push(i);
  return result;
}

module.exports = {
  Decision,
  unavailable,
  load,
  withParts,
  useTicket,
  roomOf,
  makeRoom,
  spending,
  compareBinding,
};

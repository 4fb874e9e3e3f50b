'use strict';

const { inspect } = require('node:util');
const native = require('./native.js');
const record = require('./record.js');

const { records } = record;
const OUTCOMES = ['none', 'allowed', 'denied', 'never', 'unavailable'];
const ALLOWED = 1;
const UNAVAILABLE = 4;
const reasons = [];

function reasonName(reason) {
  return reason === 0 ? null : (reasons[reason] ??= native.reasonName(reason));
}

let unavailable;
let load;
let spendTicket;

// Built from a record on the hot path: plain numbers in microseconds, read by getters.
class Decision {
  #outcome;
  #reason;
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

  constructor(at) {
    this.#outcome = records[at];
    this.#reason = records[at + record.REASON];
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
  }

  get allowed() {
    return this.#outcome === ALLOWED;
  }

  get outcome() {
    return OUTCOMES[this.#outcome];
  }

  get reason() {
    return reasonName(this.#reason);
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

  toJSON() {
    const { allowed, outcome, reason, limit, remaining, retryAfter, resetAfter, delay } = this;
    return { allowed, outcome, reason, limit, remaining, retryAfter, resetAfter, delay };
  }

  [inspect.custom](_depth, options) {
    return `Decision ${inspect(this.toJSON(), options)}`;
  }

  // For this package alone.
  static {
    unavailable = (reason) => {
      records.fill(0, 0, record.STRIDE);
      records[record.OUTCOME] = UNAVAILABLE;
      records[record.REASON] = reason;
      return new Decision(0);
    };

    // Writes the numbers back to record 0, for the addon's HTTP functions.
    load = (decision) => {
      records[record.OUTCOME] = decision.#outcome;
      records[record.REASON] = decision.#reason;
      records[record.LIMIT] = decision.#limit;
      records[record.REMAINING] = decision.#remaining;
      records[record.RETRY_AFTER_US] = decision.#retryAfter;
      records[record.RESET_AFTER_US] = decision.#resetAfter;
      records[record.DELAY_US] = decision.#delay;
    };

    // Returns what use(...ticket) returns. The ticket is spent unless use throws.
    spendTicket = (decision, use) => {
      if (decision === null || typeof decision !== 'object' || !(#outcome in decision)) {
        throw new TypeError('refund needs the decision of the check');
      }
      const result = use(
        decision.#ticketQ,
        decision.#ticketR,
        decision.#ticketN,
        decision.#ticketCost,
        decision.#ticketEpochHigh,
        decision.#ticketEpochLow,
      );
      decision.#ticketN = 0;
      return result;
    };
  }
}

module.exports = { Decision, unavailable, load, spendTicket };

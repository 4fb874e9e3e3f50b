'use strict';
// A decision as an HTTP answer. The rounding is the core's: it comes with the record, in seconds.
// Only the strings are put together here, from whole numbers and constant parts.

const record = require('./record.js');
const { Decision, load } = require('./decision.js');
const { Note, addNote, setFields, setRetryAfter } = require('./fields.js');
const { hasLeases, hasQueue, isPlain, limiterNative } = require('./limiter.js');

const { records } = record;
const LEGACY = 1;
const DRAFT = 2;
const FIELDS = { all: LEGACY | DRAFT, legacy: LEGACY, draft: DRAFT, none: 0 };

// The record has been read: setHeader may be someone's code, which may make checks.
function setHeaders(res, retryAfter, hasNote) {
  const { setHeader } = res;
  try {
    if (retryAfter >= 0) setRetryAfter(res, setHeader, retryAfter);
    if (hasNote) setFields(res, setHeader);
  } catch (error) {
    if (!res.headersSent) throw error;
  }
}

class HttpAnswers {
  #native;
  #hasLegacy;
  #hasDraft;
  #policy; // the value of RateLimit-Policy
  #items; // of each rule
  #plain; // the limiter's checks come with the HTTP numbers
  limiter;
  hasLeases;
  admitsAtOnce; // a request that is allowed has nothing to wait for, and nothing to release

  constructor(limiter, fields = 'all') {
    if (!Object.hasOwn(FIELDS, fields)) {
      throw new TypeError("fields must be 'all', 'legacy', 'draft' or 'none'");
    }
    this.limiter = limiter;
    this.#native = limiterNative(limiter);
    this.#hasLegacy = (FIELDS[fields] & LEGACY) !== 0;
    this.#hasDraft = (FIELDS[fields] & DRAFT) !== 0;
    this.#policy = this.#native.httpPolicy;
    this.#items = this.#native.httpItems;
    this.#plain = isPlain(limiter);
    this.hasLeases = hasLeases(limiter);
    this.admitsAtOnce = !this.hasLeases && !hasQueue(limiter);
  }

  // Decides in this process and writes the fields.
  check(key, cost, res) {
    if (!this.#plain) return this.write(this.limiter.checkSync(key, cost), res);
    this.#native.checkHttp(key, cost);
    const decision = new Decision(0);
    const retryAfter = records[record.HTTP_RETRY_AFTER];
    setHeaders(res, retryAfter, this.#note(decision, res));
    return decision;
  }

  // Writes the fields of a decision of this limiter that was made elsewhere.
  write(decision, res) {
    const retryAfter = this.#loadHttp(decision);
    setHeaders(res, retryAfter, this.#note(decision, res));
    return decision;
  }

  // Writes the fields of a decision of several limiters, of which this one bound. all: their answers.
  writeAll(decision, all, res) {
    const { items } = decision;
    let hasNote = false;
    all.forEach((answers, i) => {
      answers.#loadHttp(items[i]);
      hasNote = answers.#note(items[i], res) || hasNote;
    });
    setHeaders(res, this.#loadHttp(decision), hasNote);
  }

  // Ends the response of a request that may not go on.
  refuse(decision, res) {
    load(decision);
    const body = this.#native.httpBody();
    const status = records[record.HTTP_STATUS];
    if (res.headersSent) return;
    res.statusCode = status;
    res.setHeader('content-type', 'application/json; charset=utf-8');
    res.setHeader('content-length', body.length);
    res.end(body);
  }

  // Puts a decision's numbers in seconds into the record; returns Retry-After, or -1.
  #loadHttp(decision) {
    load(decision);
    this.#native.http();
    return records[record.HTTP_RETRY_AFTER];
  }

  // Notes what the record says for the fields; false when there are none.
  #note(decision, res) {
    const reset = records[record.HTTP_RESET];
    if (reset < 0 || !(this.#hasLegacy || this.#hasDraft)) return false;
    const t = records[record.HTTP_T];
    const start = this.#items[decision.rule] + decision.remaining;
    const item = t >= 0 ? `${start};t=${t}` : start;
    addNote(res, new Note(decision, this.#policy, item, reset, this.#hasLegacy, this.#hasDraft));
    return true;
  }
}

module.exports = { HttpAnswers };

'use strict';
// The rate fields of a response. Every policy that was asked for it leaves a note, so that several
// middlewares together say the same in any order: the legacy fields tell of the policy that binds
// most, the draft's list them all, those that bind more first.

const { compareBinding } = require('./decision.js');

// Of each response, the newest. A property of the response would cost more: Express gives every response
// a hidden class of its own, so that accesses miss the inline caches.
const notes = new WeakMap();

// decision: of one policy; policy, item: its texts in RateLimit-Policy and RateLimit; reset: seconds.
class Note {
  constructor(decision, policy, item, reset, hasLegacy, hasDraft) {
    this.decision = decision;
    this.policy = policy;
    this.item = item;
    this.reset = reset;
    this.hasLegacy = hasLegacy;
    this.hasDraft = hasDraft;
    this.earlier = undefined;
  }
}

function compare(one, other) {
  const order = compareBinding(one.decision, other.decision);
  if (order !== 0) return order;
  const [a, b] = [one.policy + one.item, other.policy + other.item];
  return a < b ? -1 : Number(a > b);
}

// setHeader is res's, looked up once by the caller.
function setLegacy(res, setHeader, { decision, reset }) {
  setHeader.call(res, 'x-ratelimit-limit', `${decision.limit}`);
  setHeader.call(res, 'x-ratelimit-remaining', `${decision.remaining}`);
  setHeader.call(res, 'x-ratelimit-reset', `${reset}`);
}

function setDraft(res, setHeader, item, policy) {
  setHeader.call(res, 'ratelimit', item);
  setHeader.call(res, 'ratelimit-policy', policy);
}

function setAll(res, setHeader, newest) {
  const all = [];
  for (let note = newest; note !== undefined; note = note.earlier) all.push(note);
  all.sort(compare);
  const tightest = all.find(({ hasLegacy }) => hasLegacy);
  if (tightest !== undefined) setLegacy(res, setHeader, tightest);
  // Of one policy under two keys only the one that binds more.
  const listed = new Map();
  for (const { policy, item, hasDraft } of all) {
    if (hasDraft && !listed.has(policy)) listed.set(policy, item);
  }
  if (listed.size === 0) return;
  setDraft(res, setHeader, [...listed.values()].join(', '), [...listed.keys()].join(', '));
}

// Adds a note to the response; the fields are set by setFields.
function addNote(res, note) {
  note.earlier = notes.get(res);
  notes.set(res, note);
}

// res has at least one note.
function setFields(res, setHeader) {
  const note = notes.get(res);
  if (note.earlier !== undefined) {
    setAll(res, setHeader, note);
    return;
  }
  if (note.hasLegacy) setLegacy(res, setHeader, note);
  if (note.hasDraft) setDraft(res, setHeader, note.item, note.policy);
}

// Of several refusals that were let through, the longest wait.
function setRetryAfter(res, setHeader, seconds) {
  if (Number(res.getHeader?.('retry-after')) >= seconds) return;
  setHeader.call(res, 'retry-after', `${seconds}`);
}

module.exports = { Note, addNote, setFields, setRetryAfter };

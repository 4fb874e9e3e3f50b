'use strict';
// What a request that was let in may have besides its charge: a turn to wait for, and slots that are
// its own until its response is done.

const { sleep } = require('./acquire.js');

// Stands for the decision when the client has gone before its turn: nobody waits for an answer.
const GONE = Symbol('gone');

// It fails when the limiter was closed meanwhile. Leases end in their time then.
function quietly(give) {
  give().catch(() => {});
}

// decision: an allowed one. giveBack() undoes the charge, release() (if there are slots) gives back
// these alone; both give promises. Returns the decision, or GONE, or a promise of either.
function admit(decision, res, giveBack, release) {
  if (res.destroyed) {
    quietly(giveBack);
    return GONE;
  }
  if (decision.delay > 0) return waitTurn(decision, res, giveBack, release);
  return admitNow(decision, res, release);
}

// 'close' comes once, after the end of the response as well as when the connection is lost.
function admitNow(decision, res, release) {
  if (release !== undefined) res.once('close', () => quietly(release));
  return decision;
}

async function waitTurn(decision, res, giveBack, release) {
  const gone = new AbortController();
  const leave = () => gone.abort();
  res.once('close', leave);
  try {
    await sleep(decision.delay, gone.signal);
  } catch {
    quietly(giveBack);
    return GONE;
  }
  res.off('close', leave);
  return admitNow(decision, res, release);
}

module.exports = { GONE, admit };

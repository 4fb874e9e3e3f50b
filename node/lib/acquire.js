'use strict';
// Waiting until a request is allowed.

const { load } = require('./decision.js');
const { NO_WAIT, waitMicros } = require('./units.js');

const LONGEST_TIMER = 2 ** 31 - 1; // ms

// Also one of another realm, or of a library.
const isSignal = (value) =>
  typeof value?.throwIfAborted === 'function' && typeof value.addEventListener === 'function';

// Timers may fire early by a fraction of a millisecond, so the clock has the last word.
function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const due = performance.now() + ms;
    let timer;
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const wait = () => {
      const left = due - performance.now();
      if (left > 0) {
        timer = setTimeout(wait, Math.min(Math.ceil(left), LONGEST_TIMER));
        return;
      }
      signal?.removeEventListener('abort', abort);
      resolve();
    };
    signal?.addEventListener('abort', abort, { once: true });
    wait();
  });
}

// Settles as the promise does, or rejects with the signal's reason if withdraw() succeeds first.
function unlessAborted({ promise, withdraw }, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      if (withdraw()) reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

// What a request is made of:
//   ask(maxWaitUs)           a decision, or a promise of one
//   pause(attempt, leftUs)   us until the next try, or -1: give up; reads record 0
//   giveBack(decision)       a promise
//   reserves                 whether a wait is had by reservation
// Resolves to an allowed decision once its delay is over, or to the last refusal. Rejects with the
// signal's reason.
async function acquire({ ask, pause, giveBack, reserves }, timeout, signal) {
  let leftUs = waitMicros(timeout, 'timeout');
  if (signal !== undefined && !isSignal(signal)) {
    throw new TypeError('signal must be an AbortSignal');
  }
  const end = performance.now() + timeout;
  signal?.throwIfAborted();
  for (let attempt = 0; ; attempt++) {
    let decision = await ask(leftUs || NO_WAIT);
    leftUs = waitMicros(Math.max(end - performance.now(), 0), 'timeout');
    if (!reserves && decision.delay * 1000 > leftUs) {
      // A rule's queue let it in for longer than is left.
      await giveBack(decision);
      decision = await ask(NO_WAIT);
    }
    let wait = decision.delay;
    if (!decision.allowed) {
      if (decision.outcome !== 'denied') return decision;
      load(decision);
      const us = pause(attempt, leftUs);
      if (us < 0) return decision;
      wait = us / 1000;
    }
    try {
      signal?.throwIfAborted();
      if (wait > 0) await sleep(wait, signal);
    } catch (reason) {
      // It cannot fail but by a close meanwhile, and then the caller still wants the reason.
      if (decision.allowed) await giveBack(decision).catch(() => {});
      throw reason;
    }
    if (decision.allowed) return decision;
  }
}

module.exports = { acquire, sleep, unlessAborted };

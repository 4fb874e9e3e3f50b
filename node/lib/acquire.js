'use strict';
// Waiting for tokens that were reserved.

const LONGEST_TIMER = 2 ** 31 - 1; // ms

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
function unlessAborted(promise, signal, withdraw) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      if (withdraw()) reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

module.exports = { sleep, unlessAborted };

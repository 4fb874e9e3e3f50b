import assert from 'node:assert/strict';

const LONG = 30_000; // ms: for a busy machine; what is waited for comes much earlier

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function until(condition, what = 'the condition did not come true') {
  const end = Date.now() + LONG;
  while (!(await condition())) {
    assert.ok(Date.now() < end, what);
    await pause(5);
  }
}

// The milliseconds for which the event loop ran no timer at a stretch, until the promise settled.
export async function longestGap(promise) {
  let settled = false;
  const settle = () => (settled = true);
  promise.then(settle, settle);
  let longest = 0;
  let last = performance.now();
  while (!settled) {
    await pause(2);
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
  }
  return longest;
}

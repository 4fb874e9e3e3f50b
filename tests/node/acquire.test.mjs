// Waiting for tokens. Waits are real, so they are short; what is asserted is order and "not earlier".
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Limiter, ManualClock, Store, acquireAll } from './support/saqiya.mjs';

test('acquire waits until the token is there, first come first served', async () => {
  const store = new Store('memory://', { clock: new ManualClock() });
  const limiter = new Limiter('1/20ms', { store });
  limiter.checkSync('k');
  const start = performance.now();
  const order = [];
  const one = async (name) => {
    const { allowed, delay } = await limiter.acquire('k');
    order.push(name);
    assert.equal(allowed, true);
    assert.ok(performance.now() - start >= delay);
    return delay;
  };
  assert.deepEqual(await Promise.all(['a', 'b', 'c'].map(one)), [20, 40, 60]);
  assert.deepEqual(order, ['a', 'b', 'c']);
});

test('acquire that would wait longer than the timeout is denied at once', async () => {
  const limiter = new Limiter('1/h');
  assert.equal((await limiter.acquire('k')).delay, 0);
  const decision = await limiter.acquire('k', { timeout: 1000 });
  assert.equal(decision.outcome, 'denied');
  assert.ok(decision.retryAfter > 3_500_000);
  assert.equal((await limiter.acquire('k', { timeout: 0 })).outcome, 'denied');
});

test('an abort gives back what was reserved', async () => {
  const clock = new ManualClock(1000);
  const store = new Store('memory://', { clock });
  const limiter = new Limiter('1/h', { store });
  limiter.checkSync('k');
  const controller = new AbortController();
  const waiting = limiter.acquire('k', { signal: controller.signal });
  await Promise.resolve();
  assert.equal(limiter.peekSync('k').retryAfter, 2 * 3_600_000);
  controller.abort(new Error('enough'));
  await assert.rejects(waiting, /^Error: enough$/);
  assert.equal(limiter.peekSync('k').retryAfter, 3_600_000);
});

test('an abort after close still rejects with its reason', async () => {
  const limiter = new Limiter('1/h');
  limiter.checkSync('k');
  const controller = new AbortController();
  const waiting = limiter.acquire('k', { signal: controller.signal });
  await Promise.resolve();
  await limiter.close();
  controller.abort(new Error('enough'));
  await assert.rejects(waiting, /^Error: enough$/);
});

test('a signal that is aborted already reserves nothing', async () => {
  const limiter = new Limiter('1/h');
  await assert.rejects(limiter.acquire('k', { signal: AbortSignal.abort() }), {
    name: 'AbortError',
  });
  assert.equal(limiter.peekSync('k').remaining, 1);
});

test('reserve does not wait', async () => {
  const limiter = new Limiter('1/h', {
    store: new Store('memory://', { clock: new ManualClock() }),
  });
  limiter.checkSync('k');
  const decision = await limiter.reserve('k', { timeout: 3_600_000 });
  assert.equal(decision.allowed, true);
  assert.equal(decision.delay, 3_600_000);
  assert.equal(limiter.reserveSync('k', { timeout: 7_199_999.999 }).outcome, 'denied');
  assert.equal(limiter.reserveSync('k', { timeout: 7_200_000 }).delay, 7_200_000);
});

test('wrong options are refused', async () => {
  const limiter = new Limiter('1/h');
  await assert.rejects(limiter.acquire('k', { timeout: -1 }), RangeError);
  await assert.rejects(limiter.acquire('k', { timeout: NaN }), RangeError);
  await assert.rejects(limiter.acquire('k', { timeout: '5' }), TypeError);
  await assert.rejects(limiter.acquire('k', { wait: 5 }), TypeError);
  const isClear = { name: 'TypeError', message: 'signal must be an AbortSignal' };
  for (const signal of [new AbortController(), {}, null, 5]) {
    await assert.rejects(limiter.acquire('k', { signal }), isClear);
    await assert.rejects(acquireAll([{ limiter, key: 'k' }], { signal }), isClear);
  }
  assert.equal(limiter.peekSync('k').remaining, 1);
});

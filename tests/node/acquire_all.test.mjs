// acquire under every algorithm and over several limiters. Waits are real, so they are short; what is
// asserted is order and "not earlier".
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Limiter, Store, acquireAll, checkAll } from './support/saqiya.mjs';
import { RedisServer } from './support/redis.mjs';

const PERIOD = 60; // ms

let redis;
let count = 0;
const stores = [];

before(async () => (redis = await RedisServer.start()));
after(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await redis.stop();
});

function openStore(kind) {
  const store = kind === 'memory' ? new Store() : new Store(redis.url, { deadline: 30_000 });
  stores.push(store);
  return store;
}

const named = (store, policy) => new Limiter(policy, { store, name: `acquire-${count++}` });
const used = async (limiter) => {
  const { limit, remaining } = await limiter.peek('k', 0);
  return limit - remaining;
};

for (const kind of ['memory', 'redis']) {
  describe(kind, () => {
    const policies = [
      `1/${PERIOD}ms`,
      `fixed-window: 1/${PERIOD}ms`,
      `sliding-window: 1/${PERIOD}ms`,
      `sliding-log: 1/${PERIOD}ms`,
      `concurrency: 1 ttl ${PERIOD}ms`,
      `1/${PERIOD}ms; sliding-log: 1/50ms`,
    ];
    for (const policy of policies) {
      test(`${policy}: waits until it is let in`, async () => {
        const limiter = named(openStore(kind), policy);
        await limiter.check('k');
        for (let i = 0; i < 2; i++) {
          const start = performance.now();
          const { retryAfter } = await limiter.peek('k');
          const decision = await limiter.acquire('k');
          assert.equal(decision.outcome, 'allowed');
          // On Redis the server's clock has the say. Windows go by the wall clock, which is not quite
          // as fast.
          if (kind === 'memory') assert.ok(performance.now() - start >= retryAfter - 1);
        }
      });

      test(`${policy}: timeout 0 is one try, never is told at once`, async () => {
        const limiter = named(openStore(kind), policy.replaceAll(/\d+ms/g, '1d'));
        assert.equal((await limiter.acquire('k', { timeout: 0 })).outcome, 'allowed');
        for (const timeout of [0, 5]) {
          const refused = await limiter.acquire('k', { timeout });
          assert.deepEqual([refused.outcome, refused.delay], ['denied', 0]);
        }
        assert.equal((await limiter.acquire('k', { cost: 2 })).outcome, 'never');
        assert.equal(await used(limiter), 1);
      });

      test(`${policy}: an abort gives back`, async () => {
        const limiter = named(openStore(kind), policy.replaceAll(/\d+ms/g, '1d'));
        const first = await limiter.check('k');
        const { retryAfter } = await limiter.peek('k');
        const controller = new AbortController();
        const waiting = limiter.acquire('k', { signal: controller.signal });
        await new Promise((resolve) => setTimeout(resolve, 20));
        controller.abort(new Error('enough'));
        await assert.rejects(waiting, /^Error: enough$/);
        const later = await limiter.peek('k');
        assert.ok(later.retryAfter <= retryAfter);
        assert.equal((await limiter.refund('k', first)).outcome, 'allowed');
        assert.equal(await used(limiter), 0);
        const aborted = limiter.acquire('k', { signal: AbortSignal.abort() });
        await assert.rejects(aborted, { name: 'AbortError' });
        assert.equal(await used(limiter), 0);
      });
    }

    test('a slot that is released is found before its lease would have ended', async () => {
      const limiter = named(openStore(kind), 'concurrency: 1 ttl 1h');
      const lease = await limiter.check('k');
      const waiting = limiter.acquire('k');
      await new Promise((resolve) => setTimeout(resolve, 20));
      await limiter.release('k', lease);
      assert.equal((await waiting).outcome, 'allowed');
    });

    test('a queue does not wait for longer than the timeout', async () => {
      const store = openStore(kind);
      for (const policy of [
        'leaky-bucket: 1/h queue 5',
        'leaky-bucket: 1/h queue 5; sliding-log: 9/h',
      ]) {
        const limiter = named(store, policy);
        assert.equal((await limiter.acquire('k', { timeout: 10 })).delay, 0);
        assert.equal((await limiter.acquire('k', { timeout: 10 })).outcome, 'denied');
        assert.equal((await limiter.acquire('k', { timeout: 0 })).outcome, 'denied');
        assert.ok((await limiter.check('k')).delay > 3_500_000);
      }
    });

    test('acquireAll waits for all, charges all at once, and gives all back', async () => {
      const store = openStore(kind);
      const [bucket, log] = [named(store, `1/${PERIOD}ms`), named(store, 'sliding-log: 9/h')];
      const slots = named(store, `concurrency: 1 ttl ${PERIOD}ms`);
      const items = [bucket, log, slots].map((limiter) => ({ limiter, key: 'k' }));
      assert.equal((await checkAll(items)).allowed, true);
      const second = await acquireAll(items);
      assert.deepEqual([second.outcome, await used(log)], ['allowed', 2]);
      assert.equal((await acquireAll(items, { timeout: 0 })).outcome, 'denied');
      const never = await acquireAll([...items, { limiter: log, key: 'other', cost: 10 }]);
      assert.equal(never.outcome, 'never');
      const controller = new AbortController();
      const full = [{ limiter: named(store, 'sliding-log: 0/h; 9/h'), key: 'k' }];
      assert.equal((await acquireAll(full)).outcome, 'never');
      const hours = [named(store, '1/h'), log].map((limiter) => ({ limiter, key: 'k' }));
      await checkAll(hours);
      const waiting = acquireAll(hours, { signal: controller.signal });
      await new Promise((resolve) => setTimeout(resolve, 20));
      controller.abort(new Error('enough'));
      await assert.rejects(waiting, /enough/);
      assert.equal(await used(log), 3);
      const buckets = ['1/h', '1/2h'].map((policy) => ({
        limiter: named(store, policy),
        key: 'k',
      }));
      await checkAll(buckets);
      const signal = AbortSignal.timeout(20);
      await assert.rejects(acquireAll(buckets, { signal }), { name: 'TimeoutError' });
      for (const { limiter } of buckets) assert.equal(await used(limiter), 1);
    });
  });
}

test('an abort while a group is on the wire gives back what it charges', async () => {
  const store = openStore('redis');
  const limiters = ['1/h burst 5', 'sliding-log: 5/h'].map((policy) => named(store, policy));
  const items = limiters.map((limiter) => ({ limiter, key: 'k' }));
  await checkAll(items);
  await redis.command('CLIENT', 'PAUSE', '60000', 'WRITE');
  const controller = new AbortController();
  const { signal } = controller;
  const waiting = [
    acquireAll(items, { signal }),
    named(store, 'concurrency: 5 ttl 1h').acquire('k', { signal }),
  ];
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  controller.abort(new Error('gone'));
  for (const one of waiting) await assert.rejects(one, /gone/);
  await redis.command('CLIENT', 'UNPAUSE');
  const end = Date.now() + 30_000;
  while ((await used(limiters[0])) !== 1 || (await used(limiters[1])) !== 1) {
    assert.ok(Date.now() < end);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
});

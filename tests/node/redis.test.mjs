// Redis: a real server, one that is away, and one that never answers.
import assert from 'node:assert/strict';
import dns from 'node:dns/promises';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Limiter, ManualClock, SaqiyaError, Store, rateLimit } from './support/saqiya.mjs';
import { Proxy } from './support/proxy.mjs';
import { RedisServer, freePort, silentServer } from './support/redis.mjs';
import { longestGap } from './support/until.mjs';

const SLOW = 30_000; // ms: a deadline that does not pass on a busy machine

let redis;
const stores = [];
const unhandled = [];

function open(url, options) {
  const store = new Store(url, { deadline: SLOW, ...options });
  stores.push(store);
  return store;
}

// Requests end by their deadline, not when the machine says so: a test may only wait for that.
async function until(condition) {
  const end = Date.now() + SLOW;
  while (!(await condition())) {
    assert.ok(Date.now() < end, 'the condition did not come true');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

before(async () => {
  process.on('unhandledRejection', (reason) => unhandled.push(reason));
  redis = await RedisServer.start();
});

after(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await redis.stop();
  assert.deepEqual(unhandled, []);
});

test('check, peek, refund, reset, over TCP and a Unix socket', async () => {
  const tcp = new Limiter('1/h burst 5', { store: open(redis.url), name: 'basic' });
  const unix = new Limiter('1/h burst 5', { store: open(redis.unixUrl), name: 'basic' });
  const decision = await tcp.check('k', 2);
  assert.equal(decision.outcome, 'allowed');
  assert.equal(decision.remaining, 3);
  assert.equal((await unix.check('k', 2)).remaining, 1);
  const denied = await unix.check(Buffer.from('k'), 2);
  assert.equal(denied.outcome, 'denied');
  assert.ok(denied.retryAfter > 3_500_000 && denied.retryAfter <= 3_600_000);
  assert.equal((await tcp.peek('k')).remaining, 1);
  assert.equal((await tcp.check('k', 6)).outcome, 'never');
  assert.equal((await tcp.check('k', 0)).remaining, 1);
  const refunded = await unix.refund('k', decision);
  assert.deepEqual([refunded.outcome, refunded.remaining], ['allowed', 3]);
  assert.equal((await tcp.refund('k', decision)).outcome, 'denied');
  assert.equal((await tcp.reset('k')).remaining, 5);
  assert.equal(await redis.number('EXISTS', 'sq:{k}:basic:b'), 0);
});

test('synchronous calls say that the store is not in the process', async () => {
  const limiter = new Limiter('5/s', { store: open(redis.url) });
  const notLocal = (error) => error instanceof SaqiyaError && error.code === 'not_local';
  for (const name of ['checkSync', 'peekSync', 'resetSync', 'reserveSync', 'refundSync']) {
    assert.throws(() => limiter[name]('k'), notLocal, name);
  }
});

test('C40: misuse rejects and leaves nothing behind', async () => {
  const limiter = new Limiter('1/h burst 5', { store: open(redis.url), name: 'misuse' });
  for (const cost of [-1, 0.5, NaN, 2 ** 64]) {
    await assert.rejects(limiter.check('k', cost), RangeError);
  }
  for (const cost of ['3', null, true]) await assert.rejects(limiter.check('k', cost), TypeError);
  await assert.rejects(limiter.check('\ud800'), TypeError);
  await assert.rejects(limiter.refund('k', {}), TypeError);
  assert.equal((await limiter.check('k')).remaining, 4);
});

test('many at once: every promise gets its own answer, exactly the burst passes', async () => {
  const store = open(redis.url);
  const limiter = new Limiter('1/h burst 700', { store, name: 'many' });
  const single = new Limiter('1/h burst 9', { store, name: 'single' });
  const decisions = await Promise.all(
    Array.from({ length: 10_000 }, (_, i) => (i % 2 ? limiter.check('k') : single.check(`u${i}`))),
  );
  assert.equal(decisions.filter((d) => d.limit === 700 && d.allowed).length, 700);
  assert.ok(decisions.every((d, i) => d.limit === (i % 2 ? 700 : 9)));
  assert.ok(decisions.every((d, i) => i % 2 || d.remaining === 8));
  const { requests, batches, connects } = store.stats();
  assert.deepEqual([requests, connects], [10_000, 1]);
  assert.ok(batches <= 1000, `${batches} batches`);
  const more = await limiter.checkMany(Array.from({ length: 9000 }, (_, i) => `many${i}`));
  assert.ok(more.length === 9000 && more.every((d) => d.remaining === 699));
});

test('a chain of awaited checks, also inside of callbacks of the same turn', async () => {
  const limiter = new Limiter('1/h burst 3000', { store: open(redis.url), name: 'chain' });
  const chain = async (length) => {
    for (let i = 0; i < length; i++) assert.equal((await limiter.check('k')).allowed, true);
  };
  await Promise.all([chain(500), chain(500), chain(500)]);
  await new Promise((resolve, reject) => {
    limiter.check('k').then(() => process.nextTick(() => chain(3).then(resolve, reject)), reject);
  });
  assert.equal((await limiter.peek('k')).remaining, 3000 - 1504);
});

test('acquire waits for a reservation; an abort gives it back', async () => {
  const clock = new ManualClock(1000);
  const store = open(redis.url, { clock, testing: true });
  const limiter = new Limiter('1/h', { store, name: 'acquire' });
  await limiter.check('k');
  const hour = 3_600_000;
  const reserved = await limiter.reserve('k', { timeout: hour });
  assert.equal(reserved.delay, hour);
  assert.equal((await limiter.refund('k', reserved)).outcome, 'allowed');

  const sleeping = new AbortController();
  const first = limiter.acquire('k', { signal: sleeping.signal });
  await until(async () => (await limiter.peek('k')).retryAfter === 2 * hour);
  sleeping.abort(new Error('enough'));
  await assert.rejects(first, /enough/);
  assert.equal((await limiter.peek('k')).retryAfter, hour);

  // Aborted before it is sent.
  const queued = new AbortController();
  const second = limiter.acquire('k', { signal: queued.signal });
  queued.abort(new Error('too late'));
  await assert.rejects(second, /too late/);
  assert.equal((await limiter.peek('k')).retryAfter, hour);

  const fast = new Limiter('1/20ms', { store: open(redis.url), name: 'fast' });
  await fast.check('k');
  const start = performance.now();
  const { allowed, delay } = await fast.acquire('k');
  assert.equal(allowed, true);
  assert.ok(performance.now() - start >= delay);
  assert.equal((await limiter.acquire('k', { cost: 2 })).outcome, 'never');
  assert.equal((await limiter.acquire('k', { timeout: 10 })).outcome, 'denied');
});

test('an abort while the request is on the wire gives back the charge', async () => {
  const store = open(redis.url);
  const limiter = new Limiter('1/h burst 5', { store, name: 'wire' });
  await limiter.check('warm');
  await redis.command('CLIENT', 'PAUSE', '60000', 'WRITE');
  const controller = new AbortController();
  const waiting = limiter.acquire('k', { signal: controller.signal });
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  controller.abort(new Error('gone'));
  await assert.rejects(waiting, /gone/);
  await redis.command('CLIENT', 'UNPAUSE');
  await until(async () => (await limiter.peek('k')).remaining === 5);
});

test(
  'an abort that comes too late withdraws nobody else’s request',
  { timeout: 60_000 },
  async () => {
    const limiter = new Limiter('1/h burst 500', { store: open(redis.url), name: 'late' });
    const controller = new AbortController();
    const { signal } = controller;
    // Both are answered in one turn. The second's slot is free then, and taken by the third.
    const first = limiter.check('first');
    const second = limiter.acquire('second', { signal });
    const third = first.then(() => {
      const more = [limiter.check('third'), limiter.check('third')];
      controller.abort(new Error('late'));
      return Promise.all(more);
    });
    await assert.rejects(second, /late/);
    assert.deepEqual(
      (await third).map(({ remaining }) => remaining),
      [499, 498],
    );
    await until(async () => (await limiter.peek('second')).remaining === 500);
  },
);

test('a limiter that is closed does not take its pending answers along', async () => {
  const limiter = new Limiter('1/h', { store: open(redis.url), name: 'closing' });
  const pending = limiter.check('k');
  await limiter.close();
  assert.equal((await pending).allowed, true);
  await assert.rejects(limiter.check('k'), { code: 'closed' });
});

test('C41: a wait of 0.4 s is 400 ms, from integers', async () => {
  const clock = new ManualClock(1000);
  const store = open(redis.url, { clock, testing: true });
  const limiter = new Limiter('5/2s burst 1', { store, name: 'c41' });
  await limiter.check('k');
  assert.equal((await limiter.check('k')).retryAfter, 400);
});

test('C11: at retryAfter − 1 µs refused, at retryAfter allowed', async () => {
  const clock = new ManualClock(1_000_000);
  const store = open(redis.url, { clock, testing: true });
  const limiter = new Limiter('7/min burst 5', { store, name: 'c11' });
  await limiter.check('k', 4);
  const { retryAfter } = await limiter.check('k', 3);
  clock.advanceMicroseconds(Math.round(retryAfter * 1000) - 1);
  assert.equal((await limiter.check('k', 3)).allowed, false);
  clock.advanceMicroseconds(1);
  assert.equal((await limiter.check('k', 3)).allowed, true);
});

test('C21: unlimited makes no store call, 0 refuses', async () => {
  const store = open(redis.url);
  assert.equal((await new Limiter('unlimited', { store }).check('k')).allowed, true);
  const unlimited = new Limiter('unlimited', { store });
  assert.equal((await unlimited.peek('k')).remaining, Number.MAX_SAFE_INTEGER);
  assert.equal((await unlimited.acquire('k', { cost: 1e9 })).delay, 0);
  assert.equal(unlimited.checkSync('k').allowed, true);
  assert.equal(store.stats().requests, 0);
  assert.equal((await new Limiter('0/s', { store }).check('k')).outcome, 'never');
});

test('a bucket of 1 per hour is not full again after two; its key lives for ten', async () => {
  const clock = new ManualClock(1_000_000);
  const testing = open(redis.url, { clock, testing: true });
  const limiter = new Limiter('1/h burst 10', { store: testing, name: 'idle' });
  const drain = async () => {
    const all = await limiter.checkMany(new Array(12).fill('k'));
    return all.filter((decision) => decision.allowed).length;
  };
  assert.equal(await drain(), 10);
  clock.advance(2 * 3_600_000);
  assert.equal(await drain(), 2);

  const real = new Limiter('1/h burst 10', { store: open(redis.url), name: 'real' });
  await real.check('k', 10);
  const ttl = await redis.number('PTTL', 'sq:{k}:real:b');
  assert.ok(ttl > 35_900_000 && ttl <= 36_000_001, `${ttl}`);
});

test('the store away at the start: unavailable, then enforced when it comes', async () => {
  const port = await freePort();
  const store = open(`redis://127.0.0.1:${port}`);
  const limiter = new Limiter('1/h', { store, failure: 'error' });
  const decision = await limiter.check('k');
  assert.equal(decision.outcome, 'unavailable');
  assert.equal(decision.allowed, false);
  assert.equal(decision.reason, 'connect');
  assert.equal(decision.limit, 0);
  for (const name of ['peek', 'reset']) {
    assert.equal((await limiter[name]('k')).outcome, 'unavailable', name);
  }
  assert.equal((await limiter.acquire('k')).outcome, 'unavailable');
  const late = await RedisServer.start(port);
  try {
    await until(async () => (await limiter.check('k')).outcome === 'allowed');
    assert.equal((await limiter.check('k')).outcome, 'denied');
    await late.stop();
    await until(async () => (await limiter.check('k')).outcome === 'unavailable');
  } finally {
    await late.stop();
  }
});

test('close ends what is pending, once', async (t) => {
  const silent = await silentServer(t);
  const store = open(silent.url);
  const limiter = new Limiter('5/s', { store });
  const pending = Array.from({ length: 100 }, (_, i) => limiter.check(`k${i}`));
  await until(() => silent.connections.size === 1);
  await Promise.all([store.close(), store.close()]);
  for (const decision of await Promise.all(pending)) {
    assert.deepEqual([decision.outcome, decision.reason], ['unavailable', 'cancelled']);
  }
  await assert.rejects(limiter.check('k'), { code: 'closed' });
});

test('limiters that name one URL share a store, which the last one closes', async () => {
  const [a, b] = ['a', 'b'].map(
    (name) => new Limiter('1/h', { store: redis.url, name, deadline: SLOW }),
  );
  assert.equal(a.store, b.store);
  assert.equal((await a.check('shared')).allowed, true);
  await a.close();
  assert.equal((await b.check('shared')).allowed, true);
  await b.close();
  await assert.rejects(b.check('shared'), { code: 'closed' });
  assert.throws(() => b.store.stats(), { code: 'closed' });
});

test('C133, C141: a silent server delays nobody else', async (t) => {
  const silent = await silentServer(t);
  const store = open(silent.url);
  const limiter = new Limiter('5/s', { store });
  const pending = Array.from({ length: 1000 }, (_, i) => limiter.check(`k${i}`));
  await until(() => silent.connections.size === 1);

  let settled = 0;
  for (const promise of pending) promise.then(() => settled++);
  const server = http.createServer((req, res) => res.end('here'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // More than the pool of libuv has threads, and the loop itself, all while the checks are pending.
  const file = fileURLToPath(import.meta.url);
  await Promise.all([
    ...Array.from({ length: 16 }, () => readFile(file)),
    ...Array.from({ length: 16 }, () => dns.lookup('localhost')),
    ...Array.from({ length: 16 }, () => new Promise((resolve) => setTimeout(resolve, 1))),
    fetch(`http://127.0.0.1:${server.address().port}/`, { headers: { connection: 'close' } }),
  ]);
  assert.equal(settled, 0);
  server.close();
  await store.close();
  assert.equal((await Promise.all(pending)).length, 1000);
});

test('C133: a slow server never blocks the event loop', async (t) => {
  const proxy = await Proxy.start(t, redis.port);
  proxy.delay = 250;
  const limiter = new Limiter('10/h', { store: open(proxy.url), name: 'slow' });
  // The first one connects.
  for (const calls of [1, 100]) {
    const begin = performance.now();
    const checks = Promise.all(Array.from({ length: calls }, () => limiter.check(`k${calls}`)));
    const gap = await longestGap(checks);
    assert.ok(gap < 250, `${gap}`);
    assert.ok(performance.now() - begin >= 450, 'it was not slow');
    const allowed = (await checks).filter((decision) => decision.allowed);
    assert.equal(allowed.length, Math.min(calls, 10));
  }
});

test('C133: a server that falls silent never blocks the event loop', async () => {
  const deadline = 1000;
  const options = { deadline, name: 'frozen', failure: 'error' };
  const limiter = new Limiter('10/h', { store: open(redis.url), ...options });
  await until(async () => (await limiter.check('warm')).outcome !== 'unavailable');
  redis.process.kill('SIGSTOP');
  try {
    const check = limiter.check('k');
    const gap = await longestGap(check);
    const { outcome, reason } = await check;
    assert.deepEqual([outcome, reason], ['unavailable', 'timeout']);
    assert.ok(gap < deadline / 4, `${gap}`);
  } finally {
    redis.process.kill('SIGCONT');
  }
  await until(async () => (await limiter.check('k')).outcome !== 'unavailable');
});

test('the deadline ends requests to a silent server', async (t) => {
  const silent = await silentServer(t);
  const limiter = new Limiter('5/s', { store: open(silent.url), deadline: 30, failure: 'error' });
  for (const { outcome, reason } of await limiter.checkMany(['a', 'b', 'c'])) {
    assert.equal(outcome, 'unavailable');
    assert.match(reason, /^(connect|timeout)$/);
  }
});

test('the deadline ends requests that a server does not answer any more', async () => {
  const options = { deadline: 50, name: 'paused', failure: 'error' };
  const limiter = new Limiter('5/s', { store: open(redis.url), ...options });
  await until(async () => (await limiter.check('warm')).outcome !== 'unavailable');
  await redis.command('CLIENT', 'PAUSE', '60000', 'WRITE');
  const { outcome, reason } = await limiter.check('k');
  assert.deepEqual([outcome, reason], ['unavailable', 'timeout']);
  await redis.command('CLIENT', 'UNPAUSE');
  await until(async () => (await limiter.check('k')).outcome !== 'unavailable');
});

test('middleware: two applications share one limit', async () => {
  const get = await Promise.all(
    [1, 2].map(async () => {
      const limit = rateLimit({ limit: '1/h', burst: 20, name: 'web', store: open(redis.url) });
      const server = http.createServer((req, res) => limit(req, res, () => res.end('ok')));
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      after(() => server.close());
      const url = `http://127.0.0.1:${server.address().port}/`;
      return () => fetch(url, { headers: { connection: 'close' } });
    }),
  );
  const responses = await Promise.all(Array.from({ length: 60 }, (_, i) => get[i % 2]()));
  const count = (status) => responses.filter((response) => response.status === status).length;
  assert.deepEqual([count(200), count(429)], [20, 40]);
  const refused = responses.find((response) => response.status === 429);
  assert.equal((await refused.json()).error, 'rate_limited');
  assert.match(refused.headers.get('ratelimit'), /^"web";r=0;t=\d+$/);
  assert.ok(Number(refused.headers.get('retry-after')) > 3500);
});

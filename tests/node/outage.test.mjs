// Redis goes away under load and comes back.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { Limiter, Store, checkAll, refundAll } from './support/saqiya.mjs';
import { RedisServer, freePort } from './support/redis.mjs';
import { run } from './support/processes.mjs';
import { Proxy } from './support/proxy.mjs';
import { Tally } from './support/tally.mjs';
import { pause, until } from './support/until.mjs';

const SLOW = 30_000; // ms
const unhandled = [];
const stores = [];
let redis;

const note = (reason) => unhandled.push(reason);

before(async () => {
  process.on('unhandledRejection', note);
  redis = await RedisServer.start();
});

after(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await redis.stop();
  process.off('unhandledRejection', note);
  assert.deepEqual(unhandled, []);
});

// told: the store's events, as [name, event].
function open(url, options) {
  const store = new Store(url, options);
  const told = [];
  stores.push(store);
  for (const name of ['outage', 'recovered', 'refused']) {
    store.on(name, (event) => told.push([name, event]));
  }
  return { store, told };
}

const names = (told) => told.map(([name]) => name);

// Asks until the store itself answers.
function back(limiter, tally = new Tally()) {
  return until(async () => tally.add(await limiter.check('back')).source === 'store');
}

test('C44: Redis down at the start; enforced when it comes, without a call meanwhile', async () => {
  const port = await freePort();
  const { store, told } = open(`redis://127.0.0.1:${port}`);
  const limiter = new Limiter('1/h burst 2', { store, name: 'start' });
  assert.equal((await limiter.check('k')).source, 'local');
  assert.deepEqual([store.stats().degraded, names(told)], [1, ['outage']]);
  const recovered = once(store, 'recovered', { signal: AbortSignal.timeout(SLOW) });
  const late = await RedisServer.start(port);
  try {
    // The event loop alone finds it: no request is made.
    const [event] = await recovered;
    assert.equal(event.server, `127.0.0.1:${port}`);
    assert.equal(event.decisions, 1);
    assert.ok(event.durationMs > 0 && Math.abs(Date.now() - event.at) < SLOW);
    assert.equal(store.stats().degraded, 0);
    const sources = [];
    for (let i = 0; i < 3; i++) sources.push(await limiter.check('k'));
    assert.deepEqual(
      sources.map(({ outcome, source }) => `${outcome} ${source}`),
      ['allowed store', 'allowed store', 'denied store'],
    );
  } finally {
    await store.close();
    await late.stop();
  }
});

test('C47, C53, C164, C165: killed under load and started again', async () => {
  const server = await RedisServer.start();
  const { store, told } = open(server.url);
  const tally = new Tally();
  const options = { local: { share: 0.25 }, open: {}, closed: {}, error: {} };
  const limiters = Object.keys(options).map(
    (failure) =>
      new Limiter('1/h burst 400', { store, failure, name: failure, ...options[failure] }),
  );
  const expected = [
    ['local', ['allowed', 'denied']],
    ['open', ['allowed']],
    ['closed', ['denied']],
    ['store', ['unavailable']],
  ];
  let running = true;
  let answered = 0;

  async function caller(id) {
    const limiter = limiters[id % 4];
    const [source, outcomes] = expected[id % 4];
    while (running) {
      const decision = tally.add(await limiter.check(`user${id % 8}`));
      answered++;
      const { reason } = decision;
      if (reason !== null) {
        assert.equal(decision.source, source);
        assert.ok(outcomes.includes(decision.outcome), `${source} ${decision.outcome}`);
      }
      // Answers without the server come at once, and the event loop must see to sockets, too.
      if (reason !== null || decision.source === 'cache') await pause(0);
    }
  }

  const callers = Array.from({ length: 32 }, (_, id) => caller(id));
  const more = async (count) => {
    const goal = answered + count;
    await until(() => answered >= goal);
  };
  await more(2000);
  await server.kill();
  await until(() => names(told).includes('outage'));
  await more(5000);
  assert.equal(store.stats().degraded, 1);
  const again = await RedisServer.start(server.port);
  await until(() => names(told).includes('recovered'));
  await more(2000);
  running = false;
  await Promise.all(callers);

  const { failures, degraded, outages, latency, allowed, denied } = tally.check(store);
  const { localAllowed, localDenied, opened, closed } = tally.counts;
  assert.equal(failures, localAllowed + localDenied + opened + closed + tally.unavailable);
  for (const count of [allowed, localAllowed, localDenied, opened, closed]) assert.ok(count > 0);
  assert.ok(localAllowed <= 2 * 100, `${localAllowed}`);
  assert.equal(degraded, 0);
  assert.ok(outages >= 1);
  assert.ok(latency.reduce((sum, count) => sum + count) >= allowed + denied);
  assert.ok(told.length <= 5, names(told).join());
  const [last, event] = told.at(-1);
  assert.equal(last, 'recovered');
  assert.ok(event.decisions > 0 && event.decisions <= failures, `${event.decisions}`);
  await store.close();
  await again.stop();
});

test('an event tells what an operator wants to know, and no secret', async (t) => {
  const proxy = await Proxy.start(t, redis.port);
  const url = `redis://:sesame@127.0.0.1:${proxy.port}`;
  await proxy.down();
  const { store, told } = open(url);
  const limiter = new Limiter('1/h', { store });
  await limiter.check('secret-key');
  const [[name, event]] = told;
  assert.equal(name, 'outage');
  assert.deepEqual(Object.keys(event).sort(), [
    'at',
    'decisions',
    'durationMs',
    'message',
    'reason',
    'server',
    'suppressed',
  ]);
  assert.deepEqual([event.reason, event.server], ['connect', `127.0.0.1:${proxy.port}`]);
  assert.doesNotMatch(JSON.stringify(told), /sesame|secret-key/);
  assert.match(event.message, /^[^\n]+$/);
});

test('a refused login is told of without the password', async () => {
  await redis.command('ACL', 'SETUSER', 'web', 'on', '>right', '~*', '+@all');
  const { store, told } = open(`redis://web:s%C3%A9same%2F1@127.0.0.1:${redis.port}`);
  const limiter = new Limiter('1/h', { store, failure: 'error' });
  const { outcome, reason } = await limiter.check('secret-key');
  assert.deepEqual([outcome, reason], ['unavailable', 'auth']);
  assert.deepEqual(names(told), ['outage']);
  const [, event] = told[0];
  assert.deepEqual([event.reason, event.server], ['auth', `127.0.0.1:${redis.port}`]);
  assert.match(event.message, /WRONGPASS/);
  // Neither as the URL has it nor as it is sent.
  assert.doesNotMatch(JSON.stringify(told), /same|right|secret-key/);
  await redis.command('ACL', 'DELUSER', 'web');
});

test('a server that refuses is told of once for each reason', async () => {
  await redis.command('CONFIG', 'SET', 'maxmemory', '1');
  const { store, told } = open(redis.url, { deadline: SLOW });
  const limiter = new Limiter('1/h', { store, failure: 'closed', name: 'full' });
  for (let i = 0; i < 50; i++) {
    assert.equal((await limiter.check(`k${i}`)).reason, 'server_memory');
  }
  await redis.command('CONFIG', 'SET', 'maxmemory', '0');
  assert.deepEqual(names(told), ['refused']);
  assert.equal(told[0][1].reason, 'server_memory');
  assert.equal(store.stats().degraded, 0);
  assert.equal((await limiter.check('k')).source, 'store');
});

test('without a listener nothing happens; one that throws is the application’s own', async () => {
  const source = `
    const url = 'redis://127.0.0.1:${await freePort()}';
    process.on('uncaughtException', (error) => console.log('uncaught', error.message));
    const limiterOf = (store) => new saqiya.Limiter('5/s', { store });
    async function main() {
      console.log((await limiterOf(new saqiya.Store(url)).check('k')).source);
      const loud = new saqiya.Store(url);
      loud.once('outage', () => { throw new Error('mine'); });
      for (let i = 0; i < 2; i++) console.log((await limiterOf(loud).check('k')).source);
    }
    main();
  `;
  const { code, stdout, stderr } = await run(source);
  assert.deepEqual([code, stderr], [0, '']);
  assert.deepEqual(stdout.split('\n').sort(), ['', 'local', 'local', 'local', 'uncaught mine']);
});

test('a store that was named by URL tells its events, too', async () => {
  const url = `redis://127.0.0.1:${await freePort()}`;
  const limiter = new Limiter('5/s', { store: url });
  const outage = once(limiter.store, 'outage');
  await limiter.check('k');
  assert.equal((await outage)[0].reason, 'connect');
  await limiter.close();
});

test('a refund that certainly did nothing leaves the decision as it was', async (t) => {
  const proxy = await Proxy.start(t, redis.port);
  const { store } = open(proxy.url, { deadline: SLOW });
  const single = new Limiter('1/h burst 5', { store, name: 'refund' });
  const several = new Limiter('1/h burst 5; concurrency: 5 ttl 1h', { store, name: 'parts' });
  const charged = await single.check('k', 3);
  const settled = await single.check('s', 3);
  const parts = await several.check('k', 3);
  const items = [single, several].map((limiter) => ({ limiter, key: 'group', cost: 2 }));
  const group = await checkAll(items);

  await proxy.down();
  const left = async (limiter, key) => (await limiter.peek(key, 0)).rules.map((r) => r.remaining);
  for (let i = 0; i < 2; i++) {
    for (const { outcome, reason } of await Promise.all([
      single.refund('k', charged),
      single.settle('s', settled, 1),
      several.release('k', parts),
      several.settle('k', parts, 1),
      refundAll(items, group),
    ])) {
      assert.deepEqual([outcome, reason], ['unavailable', 'connect']);
    }
  }

  await proxy.up();
  await back(single);
  const again = await Promise.all([
    single.refund('k', charged),
    single.refund('k', charged),
    single.settle('s', settled, 1),
    several.release('k', parts),
    several.release('k', parts),
    several.settle('k', parts, 1),
    refundAll(items, group),
    refundAll(items, group),
  ]);
  const [allowed, denied] = ['allowed', 'denied'];
  assert.deepEqual(
    again.map(({ outcome }) => outcome),
    [allowed, denied, allowed, allowed, denied, allowed, allowed, denied],
  );
  assert.deepEqual(await left(single, 'k'), [5]);
  assert.deepEqual(await left(single, 's'), [4]);
  assert.deepEqual(await left(several, 'k'), [4, 5]);
  assert.deepEqual(await left(several, 'group'), [5, 5]);
});

test('a refund that may have been done spends the decision', async (t) => {
  const proxy = await Proxy.start(t, redis.port);
  const { store } = open(proxy.url, { deadline: 200 });
  const limiter = new Limiter('1/h burst 5', { store, name: 'unknown' });
  const decision = await limiter.check('k', 3);
  proxy.silence();
  const { outcome, reason } = await limiter.refund('k', decision);
  assert.deepEqual([outcome, reason], ['unavailable', 'timeout']);
  await proxy.down();
  await proxy.up();
  await back(limiter);
  assert.equal((await limiter.refund('k', decision)).outcome, 'denied');
});

test('what was decided locally stays local, and what is of Redis stays there', async (t) => {
  const proxy = await Proxy.start(t, redis.port);
  const { store } = open(proxy.url);
  const limiter = new Limiter('1/h burst 5', { store, name: 'both' });
  await proxy.down();
  const local = await limiter.check('k', 2);
  assert.deepEqual([local.source, local.remaining], ['local', 3]);
  await proxy.up();
  await back(limiter);
  const { source, remaining } = await limiter.check('k', 1);
  assert.deepEqual([source, remaining], ['store', 4]);
  assert.equal((await limiter.refund('k', local)).remaining, 5);
  assert.equal((await limiter.peek('k')).remaining, 4);
});

test('pending requests end when the connection is cut, each once', async (t) => {
  const proxy = await Proxy.start(t, redis.port);
  const { store } = open(proxy.url, { deadline: SLOW });
  const tally = new Tally();
  const limiter = new Limiter('100000/h', { store, name: 'cut' });
  for (let round = 0; round < 8; round++) {
    const pending = Array.from({ length: 500 }, (_, i) => limiter.check(`k${i % 50}`));
    if (round % 2) await pause(0);
    await proxy.down();
    for (const decision of await Promise.all(pending)) tally.add(decision);
    await proxy.up();
    await back(limiter, tally);
  }
  tally.check(store);
});

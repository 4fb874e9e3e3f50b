// Redis over TLS, behind a sentinel, and as a cluster.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Limiter, Store, checkAll, refundAll } from './support/saqiya.mjs';
import { cluster, sentinel, tlsServer } from './support/launch.mjs';
import { until } from './support/until.mjs';

const SLOW = 30_000; // ms

function open(t, url, options) {
  const store = new Store(url, options);
  t.after(() => store.close());
  return store;
}

test('TLS: the server is verified, and the client shows its certificate', async (t) => {
  const { server, port, ca, cert, key } = await tlsServer(t);
  const url = `rediss://localhost:${port}?ca=${ca}&cert=${cert}&key=${key}`;
  const store = open(t, url, { deadline: SLOW });
  const limiter = new Limiter('1/h burst 5', { store, name: 'tls', denyCache: false });
  const many = await limiter.checkMany(new Array(2000).fill('k'));
  assert.equal(many.filter(({ allowed }) => allowed).length, 5);
  assert.ok(many.every(({ source }) => source === 'store'));
  assert.equal(await server.number('EXISTS', 'sq:{k}:tls:b'), 1);

  // Nobody vouches for the server; and the client has nothing to show.
  for (const wrong of [`?cert=${cert}&key=${key}`, `?ca=${ca}`]) {
    const refused = open(t, `rediss://localhost:${port}${wrong}`, { deadline: SLOW });
    const events = [];
    refused.on('outage', (event) => events.push(event));
    const other = new Limiter('1/h', { store: refused, failure: 'error' });
    const { outcome, reason } = await other.check('k');
    assert.equal(outcome, 'unavailable');
    assert.notEqual(reason, null);
    assert.equal(events.length, 1);
  }
});

test('Sentinel: the new master is found when the old one dies', async (t) => {
  const { master, replica, url } = await sentinel(t);
  const store = open(t, url);
  const events = [];
  for (const name of ['outage', 'recovered']) store.on(name, () => events.push(name));
  const limiter = new Limiter('1/h burst 5', { store, name: 'sentinel' });
  await until(async () => (await limiter.check('warm')).source === 'store');
  assert.equal((await limiter.check('k', 2)).remaining, 3);
  await until(async () => (await replica.number('EXISTS', 'sq:{k}:sentinel:b')) === 1);
  await master.kill();
  await until(async () => (await limiter.check('other')).source === 'local');
  await until(async () => (await limiter.peek('k')).source === 'store', 'no new master');
  assert.equal((await limiter.peek('k')).remaining, 3);
  assert.equal(await replica.number('EXISTS', 'sq:{k}:sentinel:b'), 1);
  assert.deepEqual(events, ['outage', 'recovered']);
});

test('Cluster: keys of every node, and several at once', async (t) => {
  const { nodes, url } = await cluster(t);
  const store = open(t, url, { deadline: SLOW });
  const limiter = new Limiter('1/h burst 3', { store, name: 'cluster' });
  const keys = Array.from({ length: 300 }, (_, i) => `user${i % 60}`);
  const many = await limiter.checkMany(keys);
  assert.ok(many.every(({ source }) => source === 'store' || source === 'cache'));
  assert.equal(many.filter(({ allowed }) => allowed).length, 180);
  const sizes = await Promise.all(nodes.map((node) => node.number('DBSIZE')));
  assert.ok(sizes.every((size) => size > 0));
  assert.equal(
    sizes.reduce((sum, size) => sum + size),
    60,
  );

  const wide = new Limiter('1/h burst 9', { store, name: 'wide' });
  const items = ['a', 'b', 'c', 'd'].map((key) => ({ limiter: wide, key, cost: 4 }));
  const decision = await checkAll(items);
  assert.equal(decision.allowed, true);
  const left = async () =>
    (await Promise.all(items.map(({ key }) => wide.peek(key)))).map((d) => d.remaining);
  assert.deepEqual(await left(), [5, 5, 5, 5]);
  await wide.check('c', 3);
  const refused = await checkAll(items);
  assert.deepEqual([refused.outcome, refused.item], ['denied', 2]);
  assert.deepEqual(await left(), [5, 5, 2, 5]);
  assert.equal((await refundAll(items, decision)).outcome, 'allowed');
  assert.deepEqual(await left(), [9, 9, 6, 9]);
});

test('Cluster: one node dies; the others’ keys go on', async (t) => {
  const { nodes, url } = await cluster(t);
  const store = open(t, url);
  const limiter = new Limiter('1000/h', { store, name: 'node', failure: 'closed' });
  const keys = Array.from({ length: 60 }, (_, i) => `user${i}`);
  const sources = async () => new Set((await limiter.checkMany(keys)).map(({ source }) => source));
  await until(async () => [...(await sources())].join() === 'store');
  await nodes[1].kill();
  await until(async () => (await sources()).has('closed'));
  assert.deepEqual([...(await sources())].sort(), ['closed', 'store']);
  assert.equal(store.stats().degraded, 1);
});

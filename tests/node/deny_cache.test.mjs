// A refusal is remembered in this process for a moment, so that who floods hardly reaches Redis.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Limiter, Store, rateLimit } from './support/saqiya.mjs';
import { RedisServer } from './support/redis.mjs';
import { listen } from './support/http.mjs';
import { Tally } from './support/tally.mjs';
import { until } from './support/until.mjs';

const SLOW = 30_000; // ms
const stores = [];
let redis;

before(async () => (redis = await RedisServer.start()));

after(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await redis.stop();
});

function open() {
  const store = new Store(redis.url, { deadline: SLOW });
  stores.push(store);
  return store;
}

// How often the server has run a script.
async function calls() {
  const stats = await redis.command('INFO', 'commandstats');
  const [, count = '0'] = /cmdstat_evalsha:calls=(\d+)/.exec(stats) ?? [];
  return Number(count);
}

const passes = async (limiter, key, count) => {
  for (let i = 0; i < count; i++) assert.equal((await limiter.check(key)).allowed, true);
};

test('a flood of one denied key makes few calls, and its decisions are exact', async () => {
  const store = open();
  const limiter = new Limiter('1/h burst 2', { store, name: 'flood' });
  const tally = new Tally();
  for (let i = 0; i < 2; i++) tally.add(await limiter.check('k'));
  const earlier = await calls();
  const start = performance.now();
  let last = Infinity;
  for (let i = 0; i < 20_000; i++) {
    const decision = tally.add(await limiter.check('k'));
    const { outcome, limit, remaining, retryAfter, source } = decision;
    if (source === 'store') last = Infinity; // its clock is not known to the millisecond
    assert.deepEqual([outcome, limit, remaining], ['denied', 2, 0]);
    assert.ok(retryAfter > 3_500_000 && retryAfter <= last, `${retryAfter} after ${last}`);
    last = retryAfter;
  }
  const seconds = (performance.now() - start) / 1000;
  const made = (await calls()) - earlier;
  // A refusal is remembered for a second at the most; twice that often is more than is to be expected.
  assert.ok(made <= 3 + 2 * seconds, `${made} calls in ${seconds} s`);
  const { cached, denied } = tally.check(store);
  assert.equal(denied, made);
  assert.equal(cached, 20_000 - made);
});

test('a remembered refusal is one in every respect', async (t) => {
  const store = open();
  const limiter = new Limiter('1/h burst 2', { store, name: 'answer' });
  const options = { limit: limiter, key: () => 'k' };
  const middleware = rateLimit(options);
  const get = await listen(t, (req, res) => middleware(req, res, () => res.end('ok')));
  await passes(limiter, 'k', 2);
  await limiter.check('k');
  const decision = await limiter.check('k');
  assert.deepEqual([decision.source, decision.reason], ['cache', null]);
  assert.equal((await limiter.check('k', 3)).outcome, 'never');
  assert.equal((await limiter.check('k', 0)).outcome, 'allowed');
  assert.equal((await limiter.acquire('k', { timeout: 10 })).outcome, 'denied');
  const { status, headers } = await get();
  assert.equal(status, 429);
  assert.equal(headers.get('x-ratelimit-remaining'), '0');
  assert.ok(Number(headers.get('retry-after')) > 3500);
  assert.equal((await limiter.check('other')).source, 'store');
});

test('a reset in this process is seen at once, one elsewhere within a second', async () => {
  const limiter = new Limiter('1/h burst 2', { store: open(), name: 'reset' });
  const elsewhere = new Limiter('1/h burst 2', { store: open(), name: 'reset' });
  for (const other of [limiter, elsewhere]) {
    await passes(limiter, 'k', 2);
    await limiter.check('k');
    assert.equal((await limiter.check('k')).source, 'cache');
    await other.reset('k');
    if (other === limiter) assert.equal((await limiter.check('k')).remaining, 1);
    else await until(async () => (await limiter.check('k')).allowed);
    await limiter.reset('k');
  }
});

test('it passes again when the time has come', async () => {
  const limiter = new Limiter('5/s burst 1', { store: open(), name: 'refill' });
  let allowed = 0;
  let checks = 0;
  const start = performance.now();
  while (allowed < 4) {
    if ((await limiter.check('k')).allowed) allowed++;
    checks++;
  }
  assert.ok(performance.now() - start >= 590);
  assert.ok(checks > 4);
});

test('not where it is off, where something is given back, or of several rules', async () => {
  const store = open();
  const off = new Limiter('1/h', { store, name: 'off', denyCache: false });
  const several = new Limiter('1/h; fixed-window: 9/h', { store, name: 'several' });
  const window = new Limiter('fixed-window: 1/h', { store, name: 'window' });
  const refunding = new Limiter('1/h', { store, name: 'refunding' });
  const given = await refunding.check('given');
  assert.equal((await refunding.refund('given', given)).outcome, 'allowed');
  for (const limiter of [off, several, window, refunding]) {
    await passes(limiter, 'k', 1);
    for (let i = 0; i < 3; i++) {
      const { outcome, source } = await limiter.check('k');
      assert.deepEqual([outcome, source], ['denied', 'store'], limiter.name);
    }
  }
  assert.equal(store.stats().cached, 0);
});

// The shared vectors on a real Redis, with the store's test clock.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Limiter, ManualClock, Store } from './support/saqiya.mjs';
import { RedisServer } from './support/redis.mjs';
import { play, playCrowd, read, traces } from './support/vectors.mjs';

const clock = new ManualClock();
let redis;
let store;

before(async () => {
  redis = await RedisServer.start();
  store = new Store(redis.unixUrl, { clock, testing: true, deadline: 30_000 });
});

after(async () => {
  await store.close();
  await redis.stop();
});

function redisDriver(name) {
  let limiter;
  return {
    setNow: (us) => clock.setMicroseconds(us),
    setRule: (rule) => (limiter = new Limiter(rule.text, { store, name })),
    check: (key, cost, wait) =>
      wait === 0 ? limiter.check(key, cost) : limiter.reserve(key, { cost, timeout: wait / 1000 }),
    peek: (key, cost) => limiter.peek(key, cost),
    refund: (key, decision) => limiter.refund(key, decision),
    reset: (key) => limiter.reset(key),
  };
}

for (const file of ['token_bucket', 'random']) {
  test(`${file}.json`, async () => {
    const all = traces(file);
    assert.ok(all.length > 0);
    for (const trace of all) await play(trace, redisDriver(trace.name.slice(0, 64)));
  });
}

test('users.json: 1,000 users with 100 requests each', async () => {
  const scenario = read('users').scenarios.find(({ users }) => users === 1000);
  const { setNow, setRule, check } = redisDriver('users');
  setRule(scenario.rule);
  const checkNow = (key, cost) => check(key, cost, 0);
  assert.deepEqual(await playCrowd(scenario, { setNow, check: checkNow }), scenario.expect);
  assert.equal(await redis.number('EXISTS', 'sq:{user0}:users:b'), 1);
});

// The shared vectors on a real Redis, with the store's test clock.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { makeDriver } from './support/driver.mjs';
import { ManualClock, Store } from './support/saqiya.mjs';
import { RedisServer } from './support/redis.mjs';
import { TRACES, play, playCrowd, read, traces } from './support/vectors.mjs';

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

let count = 0;
const redisDriver = (name = (i) => `t${count}-${i}`) => makeDriver({ clock, store, name });

for (const file of TRACES) {
  test(`${file}.json`, async () => {
    const all = traces(file);
    assert.ok(all.length > 0);
    for (const trace of all) {
      count++;
      await play(trace, redisDriver());
    }
  });
}

test('users.json: 1,000 users with 100 requests each', async () => {
  const scenario = read('users').scenarios.find(({ users }) => users === 1000);
  assert.deepEqual(
    await playCrowd(
      scenario,
      redisDriver(() => 'users'),
    ),
    scenario.expect,
  );
  assert.equal(await redis.number('EXISTS', 'sq:{user0}:users:b'), 1);
});

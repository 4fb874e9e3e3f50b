// C139: worker threads load the addon, use Redis, and are terminated at any moment.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Limiter } from './support/saqiya.mjs';
import { Proxy } from './support/proxy.mjs';
import { RedisServer } from './support/redis.mjs';
import { run } from './support/processes.mjs';
import { until } from './support/until.mjs';

const script = new URL('./support/worker.mjs', import.meta.url);
let redis;

before(async () => (redis = await RedisServer.start()));
after(() => redis.stop());

const start = (rounds, options) =>
  new Worker(script, { workerData: { url: redis.url, rounds, ...options } });

test('each worker has its own memory store, and ends by itself', async () => {
  const main = new Limiter('1/h burst 5');
  assert.equal(main.checkSync('k').remaining, 4);
  const workers = Array.from({ length: 4 }, () => start(5));
  const results = await Promise.all(
    workers.map(async (worker) => {
      const messages = [];
      worker.on('message', (message) => messages.push(message));
      const [code] = await once(worker, 'exit');
      return [code, messages];
    }),
  );
  for (const result of results) assert.deepEqual(result, [0, [{ allowed: 5 }, { done: true }]]);
  assert.equal(main.checkSync('k').remaining, 3);
});

test('workers that are terminated in the middle of their calls', async () => {
  const options = { store: redis.url, name: 'main', deadline: 30_000 };
  const limiter = new Limiter('1000000/s', options);
  for (let round = 0; round < 12; round++) {
    const workers = Array.from({ length: 4 }, () => start(1e9));
    await Promise.all(
      workers.map(async (worker, i) => {
        await once(worker, 'message');
        // A different moment for each: at once, after some traffic of the main thread, later.
        for (let n = 0; n < i * round; n++) await limiter.check('k');
        assert.equal(await worker.terminate(), 1);
      }),
    );
    assert.equal((await limiter.check('k')).allowed, true);
  }
  await limiter.close();
});

test('workers that are terminated while Redis goes away and comes back', async (t) => {
  const proxy = await Proxy.start(t, redis.port);
  const limiter = new Limiter('1000000/s', { store: proxy.url, name: 'away', failure: 'error' });
  const options = { url: proxy.url, mayFail: true };
  const seen = new Set();
  for (let round = 0; round < 8; round++) {
    const workers = Array.from({ length: 4 }, () => start(1e9, options));
    for (const worker of workers) {
      worker.on('message', (message) => seen.add(Object.keys(message)[0]));
      worker.on('error', (error) => assert.fail(error));
    }
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    // A short outage may pass unseen. The last one is long enough for its workers.
    const isLast = round === 7;
    if (isLast) seen.clear();
    const done = isLast ? until(() => seen.has('recovered')) : Promise.resolve();
    const ends = workers.map(async (worker, i) => {
      for (let n = 0; n < i * (1 + round); n++) await limiter.check('k');
      await done;
      assert.equal(await worker.terminate(), 1);
    });
    if (round % 2) proxy.silence();
    await proxy.down();
    await limiter.check('k');
    if (isLast) await until(() => seen.has('outage'));
    await proxy.up();
    await Promise.all(ends);
  }
  assert.deepEqual([...seen].sort(), ['outage', 'recovered']);
  await until(async () => (await limiter.check('k')).allowed);
  await limiter.close();
});

test('workers when the main thread never loads the addon', async () => {
  const source = `
    const { Worker } = require('node:worker_threads');
    const worker = new Worker(new URL(${JSON.stringify(script.href)}), {
      workerData: { url: ${JSON.stringify(redis.url)}, rounds: 3 },
    });
    worker.on('exit', (code) => console.log('exit', code));
  `;
  const { code, stdout, stderr } = await run(source, { bare: true });
  assert.deepEqual([code, stdout, stderr], [0, 'exit 0\n', '']);
});

// C139: worker threads load the addon, use Redis, and are terminated at any moment.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Limiter } from './support/saqiya.mjs';
import { RedisServer } from './support/redis.mjs';
import { run } from './support/processes.mjs';

const script = new URL('./support/worker.mjs', import.meta.url);
let redis;

before(async () => (redis = await RedisServer.start()));
after(() => redis.stop());

const start = (rounds) => new Worker(script, { workerData: { url: redis.url, rounds } });

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

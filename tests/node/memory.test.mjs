// Memory does not grow with the number of calls.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { RedisServer } from './support/redis.mjs';
import { run } from './support/processes.mjs';

let redis;

before(async () => (redis = await RedisServer.start()));
after(() => redis.stop());

// Runs work(n) in a process of its own; the growth of its resident set from the first half on, in MiB.
async function growth(setup, work) {
  const source = `
    ${setup}
    const work = async () => { ${work} };
    const size = () => { global.gc(); return process.memoryUsage.rss() / 2 ** 20; };
    async function main() {
      for (let i = 0; i < 10; i++) await work();
      const first = size();
      for (let i = 0; i < 30; i++) await work();
      console.log(size() - first);
    }
    main();
  `;
  const { code, stdout, stderr } = await run(source, { execArgv: ['--expose-gc'] });
  assert.deepEqual([code, stderr], [0, '']);
  return Number(stdout);
}

test('checks in the process', async () => {
  const setup = `const limiter = new saqiya.Limiter('5/s');`;
  const work = `
    for (let i = 0; i < 20000; i++) {
      limiter.checkSync('user:' + i % 100);
      if (i % 50 === 0) try { limiter.checkSync('k', -1) } catch {}
    }
  `;
  const mib = await growth(setup, work);
  assert.ok(mib < 24, `${mib} MiB`);
});

test('checks on Redis, and promises that nobody keeps', async () => {
  const setup = `
    const store = new saqiya.Store(${JSON.stringify(redis.url)}, { deadline: 60000 });
    const limiter = new saqiya.Limiter('5/s', { store });
  `;
  const work = `
    for (let n = 0; n < 10; n++) {
      for (let i = 0; i < 500; i++) limiter.check('user:' + i);
      await limiter.check('last');
    }
  `;
  const mib = await growth(setup, work);
  assert.ok(mib < 24, `${mib} MiB`);
});

test('limiters and stores that come and go', async () => {
  const setup = '';
  const work = `
    for (let i = 0; i < 200; i++) {
      const clock = new saqiya.ManualClock();
      const store = new saqiya.Store('memory://', { clock });
      const limiter = new saqiya.Limiter('5/s', { store });
      limiter.checkSync('k');
      if (i % 2) await limiter.close();
      else await store.close();
    }
    global.gc();
    await new Promise(setImmediate);
  `;
  const mib = await growth(setup, work);
  assert.ok(mib < 24, `${mib} MiB`);
});

// C140: the process ends by itself when nothing is pending, and can be ended at any time.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { RedisServer, freePort, silentServer } from './support/redis.mjs';
import { run } from './support/processes.mjs';

let redis;

before(async () => (redis = await RedisServer.start()));
after(() => redis.stop());

const limiter = (url) => `
  const store = new saqiya.Store(${JSON.stringify(url)}, { deadline: 3600000 });
  const limiter = new saqiya.Limiter('5/s burst 10', { store, name: 'exit' });
`;

async function runs(source, expected, code = 0) {
  const result = await run(source);
  assert.deepEqual(result, { code, signal: null, stdout: expected, stderr: '' });
}

test('after checks in the process, without close', async () => {
  const source = `
    const limiter = new saqiya.Limiter('5/s');
    for (let i = 0; i < 10; i++) limiter.checkSync('k');
    limiter.check('k').then(({ outcome }) => console.log(outcome));
  `;
  await runs(source, 'denied\n');
});

test('after checks on Redis, without close', async () => {
  const source = `
    ${limiter(redis.url)}
    const keys = new Array(10).fill('a');
    limiter.checkMany(keys).then((all) => console.log(all.filter((d) => d.allowed).length));
  `;
  await runs(source, '10\n');
});

test('a store that was never used holds nothing', async () => {
  await runs(`${limiter(redis.url)} console.log('end')`, 'end\n');
});

test('a pending check keeps the process alive until it is answered', async () => {
  await redis.command('CLIENT', 'PAUSE', '200', 'ALL');
  await runs(
    `${limiter(redis.url)} limiter.check('b').then((d) => console.log(d.allowed))`,
    'true\n',
  );
});

test('close with requests pending', async (t) => {
  const { url } = await silentServer(t);
  const source = `
    ${limiter(url)}
    limiter.check('k').then(({ reason }) => console.log(reason));
    setTimeout(() => store.close().then(() => console.log('closed')), 50);
  `;
  await runs(source, 'cancelled\nclosed\n');
});

test('process.exit with requests in flight', async (t) => {
  const { url } = await silentServer(t);
  for (const moment of ['process.exit(7)', 'setTimeout(() => process.exit(7), 50)']) {
    const source = `
      ${limiter(url)}
      for (let i = 0; i < 1000; i++) limiter.check('k' + i);
      ${moment};
    `;
    await runs(source, '', 7);
  }
});

test('process.exit and close with groups and leases in flight', async (t) => {
  const { url } = await silentServer(t);
  const groups = `
    ${limiter(url)}
    const several = new saqiya.Limiter('5/s; 9/min; concurrency: 5 ttl 1h', { store });
    const items = [limiter, several].map((one) => ({ limiter: one, key: 'k' }));
    const pending = [];
    for (let i = 0; i < 200; i++) {
      pending.push(saqiya.checkAll(items), several.check('k' + i), several.acquire('k'));
    }
  `;
  for (const moment of ['process.exit(7)', 'setTimeout(() => process.exit(7), 50)']) {
    await runs(`${groups} ${moment};`, '', 7);
  }
  const closing = `
    ${groups}
    setTimeout(() => store.close(), 50);
    Promise.all(pending).then((all) =>
      console.log(all.length, new Set(all.map(({ reason }) => reason)), all[0].rules.length));
  `;
  await runs(closing, "600 Set(1) { 'cancelled' } 4\n");
});

test('rooms of groups that are pending outlive collections', async () => {
  const source = `
    ${limiter(redis.url)}
    const several = new saqiya.Limiter('5/s; 900/d; concurrency: 5 ttl 1h', { store });
    const items = [limiter, several].map((one) => ({ limiter: one, key: 'gc' }));
    async function round() {
      const controllers = Array.from({ length: 50 }, () => new AbortController());
      const some = controllers.map(({ signal }) =>
        saqiya.acquireAll(items, { timeout: 0, signal }).catch((error) => error));
      if (Math.random() < 0.5) await new Promise((resolve) => process.nextTick(resolve));
      controllers.forEach((controller, i) => i % 2 && controller.abort());
      for (let i = 0; i < 3; i++) {
        global.gc();
        Buffer.alloc(1 << 20, 0xff);
      }
      for (const one of await Promise.all(some)) {
        if (one.name === 'AbortError') continue;
        const limits = one.rules.map(({ limit }) => limit).join();
        if (limits !== '10,5,900,5') throw new Error(limits);
      }
    }
    async function main() {
      for (let i = 0; i < 60; i++) await round();
      console.log('end');
    }
    main();
  `;
  const result = await run(source, { execArgv: ['--expose-gc'] });
  assert.deepEqual(result, { code: 0, signal: null, stdout: 'end\n', stderr: '' });
});

test('process.exit in the continuation of a check', async () => {
  await runs(`${limiter(redis.url)} limiter.check('c').then(() => process.exit(5))`, '', 5);
});

test('an exception in a continuation is the application’s own', async () => {
  const source = `
    ${limiter(redis.url)}
    process.on('uncaughtException', (error) => console.log(error.message));
    limiter.check('d').then(() => process.nextTick(() => { throw new Error('mine') }));
    limiter.check('d').then(() => setTimeout(() => limiter.check('d').then(({ allowed }) =>
      console.log(allowed)), 20));
  `;
  await runs(source, 'mine\ntrue\n');
});

test('a store that is away: no unhandled rejection, and the process ends', async () => {
  const source = `
    ${limiter(`redis://127.0.0.1:${await freePort()}`)}
    process.on('unhandledRejection', () => process.exit(9));
    limiter.check('k');
    limiter.acquire('k').then(({ reason }) => console.log(reason));
  `;
  await runs(source, 'connect\n');
});

test('a store that is away is looked for without keeping the process alive', async () => {
  const source = `
    ${limiter(`redis://127.0.0.1:${await freePort()}`)}
    store.on('outage', ({ reason }) => console.log('outage', reason));
    limiter.check('k').then(({ source }) => console.log(source));
    setTimeout(() => {
      const handles = process.getActiveResourcesInfo().filter((name) => name !== 'Timeout');
      console.log(handles.length <= 2, store.stats().degraded);
    }, 100);
  `;
  const { code, stdout, stderr } = await run(source);
  assert.deepEqual([code, stderr], [0, '']);
  assert.deepEqual(stdout.split('\n').sort(), ['', 'local', 'outage connect', 'true 1']);
});

test('a store that is silent is looked for without keeping the process alive', async (t) => {
  const { url } = await silentServer(t);
  const source = `
    const store = new saqiya.Store(${JSON.stringify(url)}, { deadline: 50 });
    const limiter = new saqiya.Limiter('5/s', { store });
    limiter.check('k').then(({ source }) => console.log(source));
  `;
  await runs(source, 'local\n');
});

// use: what a function does that leaves a store behind.
async function collected(use) {
  const source = `
    const { setImmediate: turn } = require('node:timers/promises');
    async function use() {
      ${use}
      return new WeakRef(store);
    }
    async function main() {
      const references = [];
      for (let i = 0; i < 20; i++) references.push(await use());
      for (let i = 0; i < 50 && references.some((r) => r.deref()); i++) {
        global.gc();
        await turn();
      }
      console.log(references.filter((r) => r.deref()).length <= 1);
    }
    main();
  `;
  const result = await run(source, { execArgv: ['--expose-gc'] });
  assert.deepEqual(result, { code: 0, signal: null, stdout: 'true\n', stderr: '' });
}

test('a store that is away and not referred to any more is collected', async () => {
  await collected(`
    ${limiter(`redis://127.0.0.1:${await freePort()}`)}
    store.on('recovered', () => console.log(store));
    await limiter.check('e');
  `);
});

test('an idle store that is not referred to any more is collected', async () => {
  await collected(`
    ${limiter(redis.url)}
    await limiter.check('e');
  `);
});

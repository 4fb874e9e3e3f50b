// Concurrency: leases that are held, renewed, released, and those whose holder dies.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Lease, Limiter, ManualClock, SaqiyaError, Store } from './support/saqiya.mjs';
import { RedisServer } from './support/redis.mjs';
import { run } from './support/processes.mjs';

const SLOW = 30_000;
const holder = fileURLToPath(new URL('./support/holder.mjs', import.meta.url));

let redis;
let count = 0;
const stores = [];

before(async () => (redis = await RedisServer.start()));
after(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await redis.stop();
});

function open(kind, options) {
  const store =
    kind === 'memory'
      ? new Store('memory://', options)
      : new Store(redis.url, { deadline: SLOW, testing: options !== undefined, ...options });
  stores.push(store);
  return store;
}

const named = (store, policy) => new Limiter(policy, { store, name: `leases-${count++}` });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const held = async (limiter) => {
  const { limit, remaining } = await limiter.peek('k', 0);
  return limit - remaining;
};

for (const kind of ['memory', 'redis']) {
  describe(kind, () => {
    test('acquire, renew, release; a slot comes back when its lease ends', async () => {
      const clock = new ManualClock(1_000_000);
      const limiter = named(open(kind, { clock }), 'concurrency: 2 ttl 10s');
      const [one, two] = [await limiter.check('k'), await limiter.check('k')];
      assert.deepEqual([one.remaining, two.remaining], [1, 0]);
      const third = await limiter.check('k');
      assert.deepEqual([third.outcome, third.retryAfter], ['denied', 10_000]);
      clock.advance(9_999);
      assert.equal((await limiter.renew('k', two)).outcome, 'allowed');
      clock.advance(1);
      assert.equal(await held(limiter), 1);
      assert.equal((await limiter.renew('k', one)).outcome, 'denied');
      assert.equal((await limiter.release('k', one)).outcome, 'denied');
      assert.equal(await held(limiter), 1);
      clock.advance(9_998);
      assert.equal((await limiter.renew('k', two)).outcome, 'allowed');
      assert.equal((await limiter.release('k', two)).outcome, 'allowed');
      assert.equal((await limiter.release('k', two)).outcome, 'denied');
      assert.equal((await limiter.renew('k', two)).outcome, 'denied');
      assert.equal((await limiter.renew('k', third)).outcome, 'denied');
      assert.equal(await held(limiter), 0);
    });

    test('release gives back the slot alone, refund what all rules charged', async () => {
      const limiter = named(open(kind), 'concurrency: 2 ttl 1h; sliding-log: 9/h');
      const used = async () =>
        (await limiter.peek('k', 0)).rules.map(({ limit, remaining }) => limit - remaining);
      const [one, two] = [await limiter.check('k'), await limiter.check('k')];
      assert.equal((await limiter.release('k', one)).outcome, 'allowed');
      assert.deepEqual(await used(), [1, 2]);
      assert.equal((await limiter.release('k', one)).outcome, 'denied');
      assert.equal((await limiter.refund('k', one)).outcome, 'allowed');
      assert.deepEqual(await used(), [1, 1]);
      assert.equal((await limiter.refund('k', two)).outcome, 'allowed');
      assert.deepEqual(await used(), [0, 0]);
      const bucket = named(open(kind), '5/h');
      const charged = await bucket.check('k');
      assert.equal((await bucket.release('k', charged)).outcome, 'denied');
      assert.equal(await held(bucket), 1);
    });

    test('hold: the lease is held while the function runs, whatever comes of it', async () => {
      const limiter = named(open(kind), 'concurrency: 2 ttl 1h');
      const result = await limiter.hold('k', async (lease) => {
        assert.ok(lease instanceof Lease);
        assert.equal(lease.decision.outcome, 'allowed');
        assert.equal(lease.signal.aborted, false);
        assert.equal((await lease.renew()).outcome, 'allowed');
        assert.equal(await held(limiter), 1);
        return 'done';
      });
      assert.equal(result, 'done');
      assert.equal(await held(limiter), 0);
      const failure = limiter.hold('k', { cost: 2 }, () => {
        throw new Error('mine');
      });
      await assert.rejects(failure, /^Error: mine$/);
      assert.equal(await held(limiter), 0);
    });

    test('hold and settle: the true cost is charged, the lease goes on until its end', async () => {
      const limiter = named(open(kind), 'concurrency: 2 ttl 1h; sliding-log: 9/h');
      const used = async () =>
        (await limiter.peek('k', 0)).rules.map(({ limit, remaining }) => limit - remaining);
      await limiter.hold('k', async (lease) => {
        assert.equal((await limiter.settle('k', lease.decision, 4)).outcome, 'allowed');
        assert.deepEqual(await used(), [1, 4]);
        assert.equal((await lease.renew()).outcome, 'allowed');
      });
      assert.deepEqual(await used(), [0, 4]);
    });

    test('hold: never more than the limit at once, each comes to its turn', async () => {
      const limiter = named(open(kind), 'concurrency: 3 ttl 1h');
      let now = 0;
      let most = 0;
      const job = () =>
        limiter.hold('k', { timeout: Infinity }, async () => {
          most = Math.max(most, ++now);
          await pause(5);
          now--;
        });
      await Promise.all(Array.from({ length: 20 }, job));
      assert.deepEqual([now, most], [0, 3]);
      assert.equal(await held(limiter), 0);
    });

    test('hold: what cannot be had in time is an error with the decision', async () => {
      const limiter = named(open(kind), 'concurrency: 1 ttl 1h');
      const lease = await limiter.hold('k');
      const never = () => assert.fail('it is not held');
      for (const [options, outcome] of [
        [{}, 'denied'],
        [{ timeout: 0 }, 'denied'],
        [{ timeout: 15 }, 'denied'],
        [{ cost: 2 }, 'never'],
      ]) {
        const isRight = (error) => {
          assert.ok(error instanceof SaqiyaError);
          assert.deepEqual([error.code, error.decision.outcome], ['refused', outcome]);
          return true;
        };
        await assert.rejects(limiter.hold('k', options, never), isRight);
      }
      const signal = AbortSignal.timeout(15);
      await assert.rejects(limiter.hold('k', { signal, timeout: SLOW }, never), {
        name: 'TimeoutError',
      });
      for (const wrong of [
        [{ ttl: 5 }, never],
        [{ renew: 'no' }, never],
        [{ signal: new AbortController() }, never],
        [{}, 'function'],
        [{}, undefined],
        [{}, never, {}],
        [never, {}],
        [null],
        [[]],
        [5, never],
      ]) {
        await assert.rejects(limiter.hold('k', ...wrong), TypeError);
      }
      await assert.rejects(named(open(kind), '5/s').hold('k', never), TypeError);
      const [one, two] = await Promise.all([lease.release(), lease.release()]);
      assert.ok(one === two && one.outcome === 'allowed');
      assert.equal(await held(limiter), 0);
    });

    test('a lease is renewed for as long as it is held, unless it is not to be', async () => {
      const limiter = named(open(kind), 'concurrency: 2 ttl 1500ms');
      const [renewed, other] = [await limiter.hold('k'), await limiter.hold('k', { renew: false })];
      const end = performance.now() + 2500;
      while (performance.now() < end || (await held(limiter)) > 1) await pause(20);
      assert.equal(await held(limiter), 1);
      assert.equal((await other.renew()).outcome, 'denied');
      assert.equal(other.signal.aborted, true);
      assert.equal(other.signal.reason.code, 'lease_lost');
      assert.equal(renewed.signal.aborted, false);
      assert.equal((await renewed.release()).outcome, 'allowed');
      assert.equal((await renewed.renew()).outcome, 'denied');
      assert.equal(renewed.signal.aborted, false);
    });

    test('a lease is released at the end of an `await using` block', async () => {
      const limiter = named(open(kind), 'concurrency: 1 ttl 1h');
      const lease = await limiter.hold('k');
      assert.equal(await lease[Symbol.asyncDispose](), undefined);
      assert.equal(await held(limiter), 0);
    });
  });
}

test('a lease that cannot be renewed is told to be lost', async () => {
  const server = await RedisServer.start();
  const store = new Store(server.url, { deadline: 1000 });
  stores.push(store);
  const lease = await named(store, 'concurrency: 1 ttl 500ms').hold('k');
  await server.stop();
  if (!lease.signal.aborted) await once(lease.signal, 'abort');
  assert.equal(lease.signal.reason.code, 'lease_lost');
  assert.equal((await lease.release()).outcome, 'unavailable');

  const limiter = named(open('memory'), 'concurrency: 1 ttl 1h');
  const closing = limiter.hold('k', async () => {
    await limiter.close();
    return 'done';
  });
  assert.equal(await closing, 'done');
});

test('a lease that is not renewed aborts its signal when its time is over', async () => {
  const limiter = named(open('memory'), 'concurrency: 2 ttl 1s');
  const options = { renew: false };
  const [released, ended] = [await limiter.hold('k', options), await limiter.hold('k', options)];
  await released.release();
  await pause(100);
  const renewal = performance.now();
  assert.equal((await ended.renew()).outcome, 'allowed');
  if (!ended.signal.aborted) await once(ended.signal, 'abort');
  assert.ok(performance.now() - renewal >= 1000);
  assert.equal(ended.signal.reason.code, 'lease_lost');
  assert.equal(released.signal.aborted, false);
});

test('a lease that is held keeps no process alive', async () => {
  const source = `
    const limiter = new saqiya.Limiter('concurrency: 1 ttl 300ms');
    limiter.hold('k').then((lease) => console.log(lease.decision.outcome));
  `;
  const result = await run(source);
  assert.deepEqual(result, { code: 0, signal: null, stdout: 'allowed\n', stderr: '' });
});

describe('holders in processes of their own', () => {
  const policy = 'concurrency: 3 ttl 2s';

  async function start(name) {
    const process_ = spawn(process.execPath, [holder, redis.url, name, policy, 'k']);
    process_.stderr.pipe(process.stderr);
    process_.stdout.setEncoding('utf8');
    return process_;
  }
  const line = async (child) => (await once(child.stdout, 'data'))[0];

  test('8 processes, 3 slots: a killed holder’s slot comes back after its time', async (t) => {
    const name = `killed-${count++}`;
    const limiter = new Limiter(policy, { store: open('redis'), name });
    const children = await Promise.all(Array.from({ length: 8 }, () => start(name)));
    t.after(() => children.forEach((child) => child.kill('SIGKILL')));
    const holding = [];
    for (const child of children) line(child).then(() => holding.push(child));
    const until = async (condition) => {
      const end = Date.now() + SLOW;
      while (!condition()) {
        assert.ok(Date.now() < end, 'the condition did not come true');
        assert.ok((await held(limiter)) <= 3);
        await pause(5);
      }
    };
    await until(() => holding.length === 3);
    // Renewals go on: nobody else gets in, though the leases' time has passed.
    const later = performance.now() + 3000;
    await until(() => performance.now() > later);
    assert.equal(holding.length, 3);

    // The leases of the dead live on for their time, then others get the slots.
    const dead = holding.slice(0, 2);
    for (const child of dead) child.kill('SIGKILL');
    await until(() => holding.length === 5);
    // One that lets go does so at once.
    const [, , polite] = holding;
    const released = line(polite);
    polite.stdin.write('go\n');
    assert.equal(await released, 'released\n');
    await until(() => holding.length === 6);
    assert.equal(await held(limiter), 3);
  });
});

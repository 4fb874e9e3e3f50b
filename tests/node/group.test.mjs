// Several limiters in one decision, on both kinds of store.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import * as saqiya from './support/saqiya.mjs';
import { Limiter, ManualClock, Store, checkAll, checkAllSync, peekAll } from './support/saqiya.mjs';
import { acquireAll, refundAll, refundAllSync, reserveAll } from './support/saqiya.mjs';
import { RedisServer, freePort, silentServer } from './support/redis.mjs';

const SLOW = 30_000; // ms: a deadline that does not pass on a busy machine
const HOUR = 3_600_000;

let redis;
let count = 0;
const stores = [];

before(async () => (redis = await RedisServer.start()));
after(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await redis.stop();
});

function open(url, options) {
  const store = new Store(url, url.startsWith('memory') ? options : { deadline: SLOW, ...options });
  stores.push(store);
  return store;
}

const named = (store, policy) => new Limiter(policy, { store, name: `group-${count++}` });

async function used(limiter, key = 'k') {
  const { limit, remaining } = await limiter.peek(key, 0);
  return limit - remaining;
}

for (const kind of ['memory', 'redis']) {
  const openStore = (options) => open(kind === 'memory' ? 'memory://' : redis.url, options);

  describe(kind, () => {
    test('C9: 20 calls under user = 1 and global = 100 leave 1 used in global', async () => {
      const store = openStore();
      const [user, global] = [named(store, '1/h'), named(store, '100/h')];
      const items = [
        { limiter: user, key: 'user:1' },
        { limiter: global, key: 'all' },
      ];
      const decisions = [];
      for (let i = 0; i < 20; i++) decisions.push(await checkAll(items));
      assert.equal(decisions.filter(({ allowed }) => allowed).length, 1);
      assert.equal(await used(global, 'all'), 1);
      const last = decisions.at(-1);
      assert.deepEqual([last.outcome, last.item, last.rule, last.limit], ['denied', 0, 0, 1]);
      assert.deepEqual(
        last.items.map(({ outcome, item }) => [outcome, item]),
        [
          ['denied', 0],
          ['allowed', 1],
        ],
      );
    });

    test('C9: 64 concurrent callers over 3 shared rules never break one', async () => {
      const store = openStore();
      const limits = [23, 41, 57];
      const policies = ['fixed-window: 23/d', 'sliding-log: 41/d', 'concurrency: 57 ttl 1h'];
      const limiters = policies.map((policy) => named(store, policy));
      // Each caller asks for two of the three, so that each limiter is at its end at another time.
      const caller = async (i) => {
        const chosen = limiters.filter((_, n) => n !== i % 3);
        const found = [];
        for (let n = 0; n < 5; n++) {
          found.push(await checkAll(chosen.map((limiter) => ({ limiter, key: 'k' }))));
        }
        return found.map(({ allowed }) => [allowed, i % 3]);
      };
      const all = (await Promise.all(Array.from({ length: 64 }, (_, i) => caller(i)))).flat();
      for (const [n, limiter] of limiters.entries()) {
        const charged = all.filter(([allowed, left]) => allowed && left !== n).length;
        assert.ok(charged <= limits[n], `${charged} under ${limits[n]}`);
        assert.equal(await used(limiter), charged, policies[n]);
      }
      assert.ok(all.some(([allowed]) => allowed) && all.some(([allowed]) => !allowed));
    });

    test('any mixture of algorithms; each item can be changed alone, and all given back', async () => {
      const store = openStore();
      const [bucket, slots, day] = [
        named(store, '1/h burst 10; fixed-window: 20/d'),
        named(store, 'concurrency: 2 ttl 1h'),
        named(store, 'calendar: 30/day'),
      ];
      const items = [
        { limiter: bucket, key: 'a', cost: 4 },
        { limiter: slots, key: 'b' },
        { limiter: day, key: Buffer.from('c'), cost: 9 },
      ];
      const all = async () => [
        await used(bucket, 'a'),
        await used(slots, 'b'),
        await used(day, 'c'),
      ];
      const first = await checkAll(items);
      assert.deepEqual([first.rules.length, first.items.length], [4, 3]);
      assert.deepEqual(await all(), [4, 1, 9]);
      assert.equal((await slots.renew('b', first.items[1])).outcome, 'allowed');
      assert.equal((await slots.release('b', first.items[1])).outcome, 'allowed');
      assert.equal((await slots.release('b', first.items[1])).outcome, 'denied');
      assert.equal((await day.settle('c', first.items[2], 5)).outcome, 'allowed');
      assert.equal((await bucket.settle('a', first.items[0], 6)).outcome, 'allowed');
      assert.deepEqual(await all(), [6, 0, 5]);
      assert.equal((await refundAll(items, first)).outcome, 'denied');
      const second = await checkAll(items);
      assert.equal((await refundAll(items, second)).outcome, 'allowed');
      assert.equal((await refundAll(items, second)).outcome, 'denied');
      assert.deepEqual(await all(), [6, 0, 5]);
    });

    test('items of one limiter and key are added up; peekAll charges nothing', async () => {
      const store = openStore();
      const limiter = named(store, '1/h burst 5');
      const twice = [3, 2].map((cost) => ({ limiter, key: 'k', cost }));
      const thrice = [...twice, { limiter, key: 'k' }];
      assert.equal((await checkAll(thrice)).outcome, 'never');
      assert.equal((await peekAll(twice)).outcome, 'allowed');
      assert.equal(await used(limiter), 0);
      const decision = await checkAll(twice);
      assert.deepEqual([decision.outcome, decision.remaining], ['allowed', 0]);
      assert.equal((await peekAll(twice)).outcome, 'denied');
      assert.equal((await refundAll(twice, decision)).outcome, 'allowed');
      assert.equal(await used(limiter), 0);
    });

    test('unlimited limiters are passed over', async () => {
      const store = openStore();
      const [free, paid] = [named(store, 'unlimited'), named(store, '1/h')];
      const items = [free, paid].map((limiter) => ({ limiter, key: 'k' }));
      const decision = await checkAll(items);
      assert.deepEqual([decision.outcome, decision.item], ['allowed', 1]);
      assert.equal(decision.items[0].limit, Number.MAX_SAFE_INTEGER);
      assert.equal((await checkAll(items)).outcome, 'denied');
      const before = store.stats().requests;
      assert.equal((await checkAll([items[0], items[0]])).outcome, 'allowed');
      assert.equal(checkAllSync([items[0]]).outcome, 'allowed');
      assert.equal(store.stats().requests, before);
    });

    test('long keys, 16 items, and rules of the same name', async () => {
      const store = openStore();
      const many = Array.from({ length: 16 }, (_, i) => ({
        limiter: named(store, `fixed-window: ${10 + i}/d; 1/h burst ${20 - i}`),
        key: String.fromCodePoint(0x100 + i).repeat(200 + i),
      }));
      const decision = await checkAll(many);
      assert.deepEqual([decision.items.length, decision.rules.length], [16, 32]);
      // 4 of 5 and 9 of 10: the last one's bucket of 5 has the least left.
      assert.deepEqual([decision.item, decision.rule, decision.limit], [15, 1, 5]);
      for (const { limiter, key } of many) assert.equal(await used(limiter, key), 1);

      const same = ['fixed-window: 5/d', 'fixed-window: 6/d'].map(
        (policy) => new Limiter(policy, { store, name: `same-${kind}` }),
      );
      const clash = same.map((limiter) => ({ limiter, key: 'k' }));
      await assert.rejects(checkAll(clash), { name: 'SaqiyaError', code: 'invalid' });
      const apart = same.map((limiter, i) => ({ limiter, key: `k${i}` }));
      assert.equal((await checkAll(apart)).allowed, true);
    });

    test('misuse charges nothing', async () => {
      const store = openStore();
      const limiter = named(store, '1/h burst 5');
      const item = { limiter, key: 'k' };
      const other = { limiter: named(openStore(), '5/h'), key: 'k' };
      for (const wrong of [
        undefined,
        {},
        'items',
        [null],
        [{ key: 'k' }],
        [{ limiter: {}, key: 'k' }],
        [{ limiter, key: 5 }],
        [{ limiter, key: '\ud800' }],
        [{ ...item, cost: '1' }],
        [{ ...item, costs: 1 }],
        [item, other],
      ]) {
        await assert.rejects(checkAll(wrong), TypeError);
        await assert.rejects(acquireAll(wrong), TypeError);
      }
      for (const wrong of [[], new Array(17).fill(item), [{ ...item, cost: 0.5 }]]) {
        await assert.rejects(checkAll(wrong), RangeError);
        await assert.rejects(peekAll(wrong), RangeError);
      }
      await assert.rejects(reserveAll([item], { wait: 5 }), TypeError);
      await assert.rejects(acquireAll([item], { cost: 5 }), TypeError);
      const decision = await checkAll([item]);
      for (const wrong of [undefined, {}, await limiter.peek('k')]) {
        await assert.rejects(refundAll([item], wrong), TypeError);
      }
      await assert.rejects(refundAll([item, { limiter, key: 'b' }], decision), TypeError);
      assert.equal(await used(limiter), 1);
      assert.equal((await refundAll([item], decision)).outcome, 'allowed');
      await limiter.close();
      await assert.rejects(checkAll([item]), { code: 'closed' });
    });

    test('reserveAll reserves where every rule is a token bucket', async () => {
      const store = openStore({ clock: new ManualClock(HOUR), testing: kind === 'redis' });
      const [slow, fast] = [named(store, '1/h'), named(store, '1/min')];
      const items = [slow, fast].map((limiter) => ({ limiter, key: 'k' }));
      await checkAll(items);
      const { outcome, delay, item } = await reserveAll(items, { timeout: HOUR });
      assert.deepEqual([outcome, delay, item], ['allowed', HOUR, 0]);
      assert.equal((await reserveAll(items, { timeout: HOUR })).outcome, 'denied');
      const window = { limiter: named(store, 'fixed-window: 9/h'), key: 'k' };
      const mixed = await reserveAll([...items, window], { timeout: 9 * HOUR });
      assert.deepEqual([mixed.outcome, mixed.item], ['denied', 0]);
    });
  });
}

test('on Redis the synchronous forms say so', () => {
  const store = open(redis.url);
  const items = [{ limiter: named(store, '1/h'), key: 'k' }];
  for (const name of ['checkAllSync', 'peekAllSync', 'reserveAllSync', 'refundAllSync']) {
    assert.throws(() => saqiya[name](items, undefined), { code: 'not_local' }, name);
  }
});

test('in the process the synchronous forms decide', () => {
  const store = open('memory://');
  const items = ['1/h burst 3', '9/h'].map((policy) => ({
    limiter: named(store, policy),
    key: 'k',
  }));
  const decision = saqiya.checkAllSync(items);
  assert.equal(saqiya.peekAllSync(items).remaining, 2);
  assert.equal(refundAllSync(items, decision).outcome, 'allowed');
  assert.equal(saqiya.reserveAllSync(items, { timeout: 0 }).allowed, true);
});

test('C149: each checkAll is one EVALSHA, and a refusal writes nothing', async () => {
  const store = open(redis.url);
  const items = [
    '1/h',
    'sliding-window: 9/h; 5/h',
    'sliding-log: 9/h',
    'concurrency: 9 ttl 1h',
  ].map((policy) => ({ limiter: named(store, policy), key: 'k' }));
  assert.equal((await checkAll([{ limiter: named(store, '1/h'), key: 'warm' }])).allowed, true);
  const decisions = [];
  const lines = await redis.monitor(async () => {
    for (let i = 0; i < 5; i++) decisions.push(await checkAll(items));
  });
  assert.deepEqual(
    decisions.map(({ allowed }) => allowed),
    [true, false, false, false, false],
  );
  assert.equal(lines.filter((line) => /"evalsha"/i.test(line)).length, 5, lines.join('\n'));
  assert.equal(lines.length, 5, lines.join('\n'));

  const keys = await redis.command('DBSIZE');
  const changes = async () =>
    /rdb_changes_since_last_save:\d+/.exec(await redis.command('INFO'))[0];
  const before = await changes();
  for (let i = 0; i < 20; i++) decisions.push(await checkAll(items));
  assert.deepEqual([await redis.command('DBSIZE'), await changes()], [keys, before]);
});

test('many groups at once: every promise gets its own answer', async () => {
  const store = open(redis.url);
  const [shared, own] = [named(store, '1/h burst 300; fixed-window: 400/d'), named(store, '9/h')];
  const decisions = await Promise.all(
    Array.from({ length: 3000 }, (_, i) =>
      checkAll([
        { limiter: shared, key: 'k' },
        { limiter: own, key: `u${i}`, cost: 1 + (i % 9) },
      ]),
    ),
  );
  const allowed = decisions.filter((decision) => decision.allowed);
  assert.equal(allowed.length, 300);
  for (const [i, { rules, items }] of decisions.entries()) {
    assert.deepEqual([rules[0].limit, rules[1].limit, rules[2].limit], [300, 400, 9]);
    const left = allowed.includes(decisions[i]) ? 8 - (i % 9) : 9;
    assert.equal(items[1].remaining, left, `${i}`);
  }
  assert.equal(await used(shared), 300);
});

test('a full queue, a store that is away, and one that is closed', async (t) => {
  const away = open(`redis://127.0.0.1:${await freePort()}`);
  const gone = ['5/h; 9/d', 'concurrency: 5 ttl 1h'].map(
    (policy) => new Limiter(policy, { store: away, failure: 'error' }),
  );
  const items = gone.map((limiter) => ({ limiter, key: 'k' }));
  const decision = await checkAll(items);
  assert.deepEqual([decision.outcome, decision.reason], ['unavailable', 'connect']);
  assert.deepEqual(
    decision.items.map(({ outcome }) => outcome),
    ['unavailable', 'unavailable'],
  );
  assert.equal((await gone[0].check('k')).outcome, 'unavailable');
  assert.equal((await acquireAll(items)).outcome, 'unavailable');
  assert.equal((await refundAll(items, decision)).outcome, 'unavailable');

  const { url, connections } = await silentServer(t);
  const silent = open(url, { deadline: HOUR });
  const limiter = named(silent, 'concurrency: 5 ttl 1h; 9/h');
  const pending = Array.from({ length: 65_536 }, (_, i) => limiter.check(`k${i}`));
  const busy = await checkAll([{ limiter, key: 'k' }]);
  assert.deepEqual([busy.outcome, busy.reason], ['unavailable', 'busy']);
  while (connections.size === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  await silent.close();
  for (const { reason, rules } of await Promise.all(pending)) {
    assert.equal(reason, 'cancelled');
    assert.equal(rules.length, 2);
  }
});

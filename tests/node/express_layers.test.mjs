// Middleware with policies of several rules, limits by plan, and several layers in one decision.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Limiter, ManualClock, Store, rateLimit, requireDev } from './support/saqiya.mjs';
import { RedisServer, freePort } from './support/redis.mjs';
import { listen, statuses } from './support/http.mjs';

const express = requireDev('express');

let redis;
let count = 0;
const stores = [];

before(async () => (redis = await RedisServer.start()));
after(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await redis.stop();
});

async function serve(t, options) {
  const app = express();
  const errors = [];
  const limits = [];
  app.use(rateLimit(options));
  app.use((req, res) => {
    limits.push(req.rateLimit);
    res.end('ok');
  });
  app.use((error, req, res, _next) => {
    errors.push(error);
    res.status(500).end();
  });
  return { get: await listen(t, app), errors, limits };
}

const rates = ({ headers }) =>
  ['ratelimit', 'ratelimit-policy', 'x-ratelimit-limit', 'x-ratelimit-remaining'].map((name) =>
    headers.get(name),
  );

for (const kind of ['memory', 'redis']) {
  const open = (options) => {
    const store =
      kind === 'memory'
        ? new Store('memory://', options)
        : new Store(redis.url, { deadline: 30_000, testing: options !== undefined, ...options });
    stores.push(store);
    return store;
  };
  const name = (base) => `${base}${count++}`;

  describe(kind, () => {
    test('several rules: the policy field lists all, the other fields tell of the one that bound', async (t) => {
      const clock = new ManualClock(86_400_000);
      const called = name('api');
      const limit = '1/s burst 2; fixed-window: 3/min';
      const { get, limits } = await serve(t, { limit, name: called, store: open({ clock }) });
      const policy = `"${called}-1";q=2;w=2,"${called}-2";q=3;w=60`;
      const listed = (text) => text.replaceAll(', ', ',');
      const first = rates(await get());
      assert.equal(first[0], `"${called}-1";r=1;t=1`);
      assert.equal(listed(first[1]), policy);
      assert.deepEqual(first.slice(2), ['2', '1']);
      await get();
      const third = await get();
      assert.equal(third.status, 429);
      assert.equal(third.headers.get('retry-after'), '1');
      assert.equal(JSON.parse(third.text).limit, 2);
      clock.advance(2000);
      await get();
      const fifth = await get();
      assert.equal(fifth.status, 429);
      assert.equal(fifth.headers.get('ratelimit'), `"${called}-2";r=0;t=58`);
      assert.equal(fifth.headers.get('retry-after'), '58');
      assert.deepEqual(fifth.headers.get('x-ratelimit-limit'), '3');
      assert.equal(limits.length, 3);
      assert.deepEqual([limits[2].rule, limits[2].rules.length], [1, 2]);
    });

    test('C161: a plan by request, at once or by a promise; two users on one plan', async (t) => {
      const plans = { free: '1/h burst 2', pro: ['1/h burst 4', 'fixed-window: 9/d'], root: null };
      for (const later of [false, true]) {
        const { get, limits } = await serve(t, {
          limit: (req) => {
            const plan = plans[req.query.plan];
            return later ? Promise.resolve(plan) : plan;
          },
          key: (req) => req.query.user,
          name: name('plan'),
          store: open(),
        });
        assert.deepEqual(await statuses(get, 3, '/?plan=free&user=a'), [200, 200, 429]);
        assert.deepEqual(await statuses(get, 3, '/?plan=free&user=b'), [200, 200, 429]);
        assert.deepEqual(await statuses(get, 5, '/?plan=pro&user=c'), [200, 200, 200, 200, 429]);
        assert.deepEqual(await statuses(get, 3, '/?plan=root&user=a'), [200, 200, 200]);
        assert.equal(limits.at(-1), undefined);
        const free = await get('/?plan=root&user=a');
        assert.equal(free.headers.get('ratelimit-policy'), null);
      }
    });

    test('C161: a user who changes plans keeps what was used, under one name', async (t) => {
      const clock = new ManualClock(86_400_000);
      let plan = 'fixed-window: 2/min';
      const { get } = await serve(t, {
        limit: () => plan,
        key: () => 'user',
        name: name('switch'),
        store: open({ clock }),
      });
      assert.deepEqual(await statuses(get, 3), [200, 200, 429]);
      plan = 'fixed-window: 5/min';
      assert.deepEqual(await statuses(get, 4), [200, 200, 200, 429]);
      plan = 'fixed-window: 2/min';
      assert.deepEqual(await statuses(get, 1), [429]);
    });

    test('a function may give limiters; anything else is an error', async (t) => {
      const limiter = new Limiter('1/h', { store: open(), name: name('given') });
      let limit = () => limiter;
      const { get, errors } = await serve(t, { limit: () => limit(), key: () => 'k' });
      assert.deepEqual(await statuses(get, 2), [200, 429]);
      for (const wrong of [undefined, 5, {}, Promise.resolve()]) {
        limit = () => wrong;
        assert.deepEqual(await statuses(get, 1), [500]);
        assert.ok(errors.at(-1) instanceof TypeError);
      }
      for (const wrong of ['5/x', new Error('no plan')]) {
        limit = async () => {
          if (typeof wrong === 'string') return wrong;
          throw wrong;
        };
        assert.deepEqual(await statuses(get, 1), [500]);
      }
      assert.deepEqual(
        errors.slice(-2).map(({ code, message }) => code ?? message),
        ['bad_policy', 'no plan'],
      );
    });

    test('layers: all are charged or none, and each has its key and cost', async (t) => {
      const store = open();
      const [address, user] = [name('address'), name('user')];
      const { get, limits } = await serve(t, {
        limits: [
          { limit: '1/h burst 5', name: address },
          { limit: '1/h', burst: 3, name: user, key: (req) => req.query.user, cost: async () => 2 },
        ],
        store,
      });
      const first = await get('/?user=a');
      assert.deepEqual(rates(first), [
        `"${user}";r=1;t=3600, "${address}";r=4;t=3600`,
        `"${user}";q=3;w=10800, "${address}";q=5;w=18000`,
        '3',
        '1',
      ]);
      const refused = await get('/?user=a');
      assert.equal(refused.status, 429);
      assert.equal(JSON.parse(refused.text).limit, 3);
      assert.deepEqual(await statuses(get, 2, '/?user=a'), [429, 429]);
      // Three refusals were not charged to the address: 4 of 5 are left.
      const others = ['b', 'c', 'd', 'e', 'f'].map((one) => `/?user=${one}`);
      const found = [];
      for (const path of others) found.push((await get(path)).status);
      assert.deepEqual(found, [200, 200, 200, 200, 429]);
      assert.deepEqual(
        limits[0].items.map(({ remaining }) => remaining),
        [4, 1],
      );
      assert.equal(limits[0].item, 1);
    });

    test('layers with plans; one that has no limit is left out', async (t) => {
      const { get, limits } = await serve(t, {
        limits: [
          { limit: (req) => (req.query.plan === 'root' ? null : '1/h burst 2'), name: name('a') },
          { limit: async () => 'unlimited', name: name('b') },
          { limit: { algorithm: 'sliding-log', limit: 3, period: 3_600_000 }, name: name('c') },
        ],
        store: open(),
      });
      assert.deepEqual(await statuses(get, 1, '/?plan=root'), [200]);
      assert.equal(limits[0].item, 1);
      assert.deepEqual(await statuses(get, 3), [200, 200, 429]);
      assert.deepEqual(await statuses(get, 2, '/?plan=root'), [429, 429]);
    });

    test('a handler is told of the decision; errors of any function go to next', async (t) => {
      const handler = (req, res, next, decision) => res.status(418).end(`${decision.item}`);
      const layers = [{ limit: '9/h' }, { limit: 'sliding-log: 0/h' }];
      const { get } = await serve(t, { limits: layers, handler, store: open() });
      assert.deepEqual([(await get()).status, (await get()).text], [418, '1']);
      const failure = () => {
        throw new Error('no');
      };
      for (const wrong of [{ limit: failure }, { limit: '5/h', key: failure }]) {
        for (const later of [false, true]) {
          const [[option]] = Object.entries(wrong).filter(([, value]) => value === failure);
          const layer = { ...wrong, [option]: later ? async () => failure() : failure };
          const { get: ask, errors } = await serve(t, { limits: [{ limit: '5/h' }, layer] });
          assert.equal((await ask()).status, 500);
          assert.equal(errors.length, 1);
        }
      }
    });
  });
}

test('layers are decided in one script call, and at once in the process', async (t) => {
  const store = new Store(redis.url, { deadline: 30_000 });
  stores.push(store);
  const limits = ['9/h', 'sliding-log: 9/h', 'fixed-window: 9/h'].map((limit) => ({ limit }));
  const { get } = await serve(t, { limits, store });
  await get();
  const lines = await redis.monitor(() => get());
  assert.equal(lines.length, 1, lines.join('\n'));

  const request = { socket: { remoteAddress: '127.0.0.1' } };
  let called = false;
  rateLimit({ limits })(request, { setHeader() {} }, () => (called = true));
  assert.ok(called && request.rateLimit.allowed);
});

test('layers on a store that is away: 503', async (t) => {
  const store = `redis://127.0.0.1:${await freePort()}`;
  const limits = [{ limit: '5/h' }, { limit: '9/d' }];
  const { get } = await serve(t, { limits, failure: 'error', store });
  const { status, headers, text } = await get();
  assert.deepEqual([status, headers.get('retry-after')], [503, '1']);
  assert.equal(headers.get('ratelimit-policy'), null);
  assert.equal(JSON.parse(text).error, 'rate_limiter_unavailable');
});

test('limiters of plans are kept: one for each text, up to a bound', async () => {
  const store = new Store();
  let text = '1/h burst 1';
  const limit = rateLimit({ limit: () => text, key: () => 'k', store });
  const ask = () => {
    const request = { socket: {} };
    limit(request, { setHeader() {}, end() {} }, () => {});
    return request.rateLimit;
  };
  assert.equal(ask().allowed, true);
  assert.equal(ask().allowed, false);
  for (let i = 2; i < 1500; i++) {
    text = `1/h burst ${i}`;
    assert.equal(ask().limit, i);
  }
  // The first was dropped and is made again; the state is the store's.
  text = '1/h burst 1';
  assert.equal(ask().allowed, false);
});

test('functions that fail together leave no rejection unhandled', async (t) => {
  const unhandled = [];
  const note = (reason) => unhandled.push(reason);
  process.on('unhandledRejection', note);
  t.after(() => process.off('unhandledRejection', note));
  const failure = () => {
    throw new Error('no');
  };
  const rejection = async () => failure();
  for (const options of [
    { limit: '5/h', key: rejection, cost: failure },
    { limit: '5/h', key: rejection, cost: rejection },
    { limit: rejection, key: failure, cost: rejection },
    { limits: [{ limit: rejection, key: rejection }, { limit: failure }] },
    { limits: [{ limit: rejection }, { limit: () => undefined }] },
  ]) {
    const { get, errors } = await serve(t, options);
    assert.equal((await get()).status, 500);
    assert.equal(errors.length, 1);
  }
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(unhandled, []);
});

test('wrong options throw when the middleware is made', () => {
  const layer = { limit: '5/s' };
  for (const wrong of [
    { limits: [] },
    { limits: {} },
    { limits: [null] },
    { limits: [{}] },
    { limits: [{ ...layer, skip: () => true }] },
    { limits: [{ ...layer, store: 'memory://' }] },
    { limits: [{ ...layer, key: 'ip' }] },
    { limits: [{ ...layer, cost: '1' }] },
    { limits: [layer], limit: '5/s' },
    { limits: [layer], key: () => 'k' },
    { limit: () => '5/s', burst: 5 },
    { limits: [{ limit: new Limiter('5/s'), burst: 5 }] },
    { limits: [layer], handler: 5 },
    { limits: [layer], fields: 'x' },
  ]) {
    assert.throws(() => rateLimit(wrong), TypeError, JSON.stringify(wrong));
  }
  assert.throws(() => rateLimit({ limits: [{ ...layer, cost: -1 }] }), RangeError);
  assert.throws(() => rateLimit({ limits: [{ limit: '5/x' }] }), { code: 'bad_policy' });
});

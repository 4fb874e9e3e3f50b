// Middleware on a Redis that does not answer: each failure policy has its answer, and none is a 500.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Limiter, rateLimit, requireDev } from './support/saqiya.mjs';
import { RedisServer } from './support/redis.mjs';
import { listen, statuses } from './support/http.mjs';
import { until } from './support/until.mjs';
import { open, urlOfNobody } from './support/away.mjs';

const HOUR_OF_3 = { limit: '1/h', burst: 3, key: () => 'k' };
const RATES = ['ratelimit', 'ratelimit-policy', 'x-ratelimit-limit', 'x-ratelimit-remaining'];

for (const [version, module] of Object.entries({ 4: 'express4', 5: 'express' })) {
  const express = requireDev(module);

  // calls: how often a request has reached the application.
  async function serve(t, ...options) {
    const app = express();
    const seen = { calls: 0, errors: [] };
    for (const one of options) app.use(rateLimit(one));
    app.use((req, res) => {
      seen.calls++;
      res.end('ok');
    });
    app.use((error, req, res, _next) => {
      seen.errors.push(error);
      res.status(500).end();
    });
    return { get: await listen(t, app), seen };
  }

  describe(`Express ${version}`, () => {
    test('open: 200, without rate fields', async (t) => {
      const { get, seen } = await serve(t, { ...HOUR_OF_3, store: open(), failure: 'open' });
      for (let i = 0; i < 5; i++) {
        const { status, headers } = await get();
        assert.equal(status, 200);
        for (const name of [...RATES, 'retry-after']) assert.equal(headers.get(name), null);
      }
      assert.equal(seen.calls, 5);
    });

    test('C49, C105: closed: 503 with Retry-After, without rate fields', async (t) => {
      const { get, seen } = await serve(t, { ...HOUR_OF_3, store: open(), failure: 'closed' });
      for (let i = 0; i < 5; i++) {
        const { status, headers, text } = await get();
        assert.equal(status, 503);
        const wait = Number(headers.get('retry-after'));
        assert.ok(wait >= 1 && wait <= 5, `${wait}`);
        for (const name of RATES) assert.equal(headers.get(name), null);
        assert.equal(JSON.parse(text).error, 'rate_limiter_unavailable');
      }
      assert.equal(seen.calls, 0);
    });

    test('local, the default: enforced here, by a share', async (t) => {
      const { get, seen } = await serve(t, { ...HOUR_OF_3, burst: 8, store: open(), share: 0.25 });
      const first = await get();
      assert.deepEqual([first.status, first.headers.get('x-ratelimit-limit')], [200, '2']);
      assert.equal(first.headers.get('x-ratelimit-remaining'), '1');
      assert.deepEqual(await statuses(get, 3), [200, 429, 429]);
      const { headers } = await get();
      assert.ok(Number(headers.get('retry-after')) > 3500);
      assert.equal(seen.calls, 2);
    });

    test('error: 503, or what the handler makes of it', async (t) => {
      const options = { ...HOUR_OF_3, store: open(), failure: 'error' };
      const { get, seen } = await serve(t, options);
      const { status, headers } = await get();
      assert.deepEqual([status, headers.get('retry-after')], [503, '1']);
      assert.equal(seen.calls, 0);
      const handler = (req, res, next, { outcome, reason }) => {
        res.setHeader('x-why', `${outcome} ${reason}`);
        next();
      };
      const handled = await serve(t, { ...options, handler });
      const response = await handled.get();
      assert.deepEqual(
        [response.status, response.headers.get('x-why')],
        [200, 'unavailable connect'],
      );
      assert.equal(handled.seen.calls, 1);
    });

    test('each layer and plan has its own policy, or that of all', async (t) => {
      const store = open();
      const layer = (name, options) => ({ ...HOUR_OF_3, name, ...options });
      const sent = async (limits, options) => {
        const { get } = await serve(t, { limits, store, ...options });
        return statuses(get, 4);
      };
      const local = layer('a');
      assert.deepEqual(
        await sent([local, layer('b', { failure: 'closed' })]),
        [503, 503, 503, 503],
      );
      assert.deepEqual(await sent([local, layer('c', { failure: 'open' })]), [200, 200, 200, 429]);
      const share = { failure: 'local', share: 0.4 };
      const open_ = layer('e', { failure: 'open' });
      assert.deepEqual(await sent([layer('d'), open_], share), [200, 429, 429, 429]);
      const all = { failure: 'closed' };
      assert.deepEqual(await sent([layer('f'), layer('g')], all), [503, 503, 503, 503]);
      const fallback = layer('h', { fallback: '1/h burst 2' });
      assert.deepEqual(await sent([fallback], all), [200, 200, 429, 429]);

      const careful = new Limiter('1/h', { store, failure: 'closed' });
      const limit = ({ query: { plan } }) => (plan === 'careful' ? careful : '1/h burst 2');
      const { get } = await serve(t, { limit, key: () => 'k', store, failure: 'open' });
      assert.deepEqual(await statuses(get, 3, '/?plan=careful'), [503, 503, 503]);
      assert.deepEqual(await statuses(get, 3), [200, 200, 200]);
    });

    test('C48: a route without a limit makes no call', async (t) => {
      const store = open();
      const skip = (req) => req.path === '/health';
      const { get } = await serve(t, { ...HOUR_OF_3, store, failure: 'closed', skip });
      assert.deepEqual(await statuses(get, 3, '/health'), [200, 200, 200]);
      assert.equal(store.stats().failures, 0);
    });

    test('a middleware after a closed one does not run; fields of the first stay', async (t) => {
      const memory = { ...HOUR_OF_3, name: 'here' };
      const closed = { ...HOUR_OF_3, store: open(), failure: 'closed' };
      const { get, seen } = await serve(t, memory, closed);
      const { status, headers } = await get();
      assert.deepEqual([status, headers.get('x-ratelimit-remaining')], [503, '2']);
      assert.ok(Number(headers.get('retry-after')) <= 5);
      assert.equal(seen.calls, 0);
    });

    test('C47: Redis killed under load, and started again', async (t) => {
      const redis = await RedisServer.start();
      const store = open(redis.url);
      const app = express();
      const errors = [];
      const calls = new Map();
      const modes = ['local', 'open', 'closed', 'error'];
      for (const failure of modes) {
        const options = { limit: '1/h burst 50', key: () => 'k', name: failure };
        app.use(`/${failure}`, rateLimit({ ...options, store, failure }));
      }
      app.use((req, res) => {
        calls.set(req.url, (calls.get(req.url) ?? 0) + 1);
        res.end(`${req.rateLimit.source} ${req.rateLimit.reason}`);
      });
      app.use((error, req, res, _next) => {
        errors.push(error);
        res.status(500).end();
      });
      const get = await listen(t, app);

      const found = Object.fromEntries(modes.map((mode) => [mode, new Map()]));
      let running = true;
      let answered = 0;
      async function client(mode) {
        while (running) {
          const { status, headers, text } = await get(`/${mode}`);
          const what = status === 200 ? `200 ${text.split(' ')[0]}` : `${status}`;
          found[mode].set(what, (found[mode].get(what) ?? 0) + 1);
          answered++;
          if (status === 503) {
            const wait = Number(headers.get('retry-after'));
            assert.ok(wait >= 1 && wait <= 5, `${mode}: ${wait}`);
          }
        }
      }
      const clients = [...modes, ...modes].map(client);
      const more = async (count) => {
        const goal = answered + count;
        await until(() => answered >= goal);
      };
      await more(120);
      await redis.kill();
      await more(500);
      const again = await RedisServer.start(redis.port);
      await until(() => store.stats().degraded === 0);
      await more(120);
      running = false;
      await Promise.all(clients);
      const { status, text } = await get('/open');
      assert.ok(status === 429 || text === 'store null', text);

      const kinds = (mode) => [...found[mode].keys()].sort();
      const only = (mode, ...expected) => {
        for (const kind of kinds(mode)) assert.ok(expected.includes(kind), `${mode}: ${kind}`);
      };
      only('local', '200 store', '200 local', '429');
      only('open', '200 store', '200 open', '429');
      only('closed', '200 store', '429', '503');
      only('error', '200 store', '429', '503');
      assert.ok(found.local.has('200 local') && found.open.has('200 open'));
      assert.ok(found.closed.has('503') && found.error.has('503'));
      assert.ok(found.local.get('200 local') <= 50);
      assert.deepEqual(errors, []);
      // What went on was answered once, and the rest did not reach the application.
      const passed = Object.values(found).flatMap((counts) => [...counts]);
      const ok = passed.filter(([kind]) => kind.startsWith('200'));
      const sum = (counts) => counts.reduce((total, count) => total + count, 0);
      const last = status === 200 ? 1 : 0;
      assert.equal(sum([...calls.values()]), sum(ok.map(([, count]) => count)) + last);
      await store.close();
      await again.stop();
      await redis.stop();
    });
  });
}

test('C125: next is called once under every policy', async () => {
  for (const failure of ['local', 'open', 'closed', 'error']) {
    const calls = [];
    const ended = [];
    const limit = rateLimit({ limit: '1/h', store: open(), failure });
    const response = { setHeader() {}, end: (body) => ended.push(body) };
    limit({ socket: {} }, response, (...args) => calls.push(args));
    await until(() => calls.length + ended.length > 0);
    await new Promise((resolve) => setImmediate(resolve));
    const passes = failure === 'local' || failure === 'open';
    assert.deepEqual([calls.length, ended.length], passes ? [1, 0] : [0, 1], failure);
    assert.deepEqual(calls.flat(), []);
  }
});

test('the store of a middleware tells its events', async () => {
  const limit = rateLimit({ limit: () => '1/h', store: urlOfNobody() });
  const events = [];
  limit.store.on('outage', (event) => events.push(event));
  await new Promise((resolve) => limit({ socket: {} }, { setHeader() {} }, resolve));
  assert.deepEqual(
    events.map(({ reason }) => reason),
    ['connect'],
  );
  const own = open('memory://');
  assert.equal(rateLimit({ limit: '1/h', store: own }).store, own);
  assert.equal(rateLimit({ limit: new Limiter('1/h', { store: own }) }).store, own);
});

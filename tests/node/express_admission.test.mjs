// What the middleware does for a request that it lets in, besides the charge: it waits for its turn, and
// gives its slot back when the response is done. And whom it takes the request to be from.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';
import { Limiter, ManualClock, Store, rateLimit, requireDev } from './support/saqiya.mjs';
import { RedisServer } from './support/redis.mjs';
import { client, statuses } from './support/http.mjs';

const SLOW = 30_000;
const HOUR = 3_600_000;
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

const named = (store, policy) => new Limiter(policy, { store, name: `admission-${count++}` });
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(condition) {
  const end = Date.now() + SLOW;
  while (!(await condition())) {
    assert.ok(Date.now() < end, 'the condition did not come true');
    await pause(2);
  }
}

// handler: what the application does; onRequest: before the limit. server.close() waits for responses.
async function serve(t, express, options, handler, { settings = {}, onRequest = () => {} } = {}) {
  const app = express();
  for (const [name, value] of Object.entries(settings)) app.set(name, value);
  app.use((req, res, next) => {
    onRequest(req, res);
    next();
  });
  app.use(rateLimit(options));
  app.use(handler);
  app.use((error, req, res, _next) => res.status(500).end());
  const server = http.createServer(app);
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${server.address().port}`;
  return { get: client(origin), origin };
}

// A request whose client goes away when it is told to.
function start(origin, path = '/') {
  const controller = new AbortController();
  const { signal } = controller;
  const gone = fetch(origin + path, { signal, headers: { connection: 'close' } }).catch(() => {});
  return async () => {
    controller.abort();
    await gone;
  };
}

for (const [version, module] of Object.entries({ 4: 'express4', 5: 'express' })) {
  const express = requireDev(module);

  describe(`Express ${version}: the default key`, () => {
    const forwarded = (address) => ({ headers: { 'x-forwarded-for': address } });
    const answers = async (get, ...addresses) => {
      const found = [];
      for (const address of addresses) found.push((await get('/', forwarded(address))).status);
      return found;
    };
    const ok = (req, res) => res.end('ok');

    test('the client behind a proxy that the application trusts', async (t) => {
      for (const trusted of [true, 1, 'loopback']) {
        const limiter = named(open('memory'), '1/h burst 2');
        const settings = { 'trust proxy': trusted };
        const { get } = await serve(t, express, { limit: limiter }, ok, { settings });
        const [one, two] = ['192.0.2.1', '::ffff:192.0.2.2'];
        assert.deepEqual(await answers(get, one, two, one, two, one), [200, 200, 200, 200, 429]);
        assert.equal(limiter.peekSync('192.0.2.2').remaining, 0);
        assert.equal(limiter.peekSync('127.0.0.1').remaining, 2);
        assert.deepEqual(await statuses(get, 1), [200]);
        assert.equal(limiter.peekSync('127.0.0.1').remaining, 1);
      }
    });

    test('the peer where none is trusted, whatever it says', async (t) => {
      for (const settings of [{}, { 'trust proxy': false }]) {
        const limits = [{ limit: '1/h burst 2' }, { limit: '9/h' }];
        for (const options of [{ limit: '1/h burst 2' }, { limits }]) {
          const { get } = await serve(t, express, options, ok, { settings });
          assert.deepEqual(
            await answers(get, '192.0.2.1', '192.0.2.2', '192.0.2.3'),
            [200, 200, 429],
          );
        }
      }
    });

    test('an application inside of another trusts whom that one trusts', async (t) => {
      const outer = express().set('trust proxy', true);
      const inner = express();
      inner.use(rateLimit({ limits: [{ limit: '1/h' }, { limit: '9/h' }] }));
      inner.use(ok);
      outer.use('/in', inner);
      const server = outer.listen(0, '127.0.0.1');
      t.after(() => server.close());
      await once(server, 'listening');
      const get = client(`http://127.0.0.1:${server.address().port}/in`);
      assert.deepEqual(await answers(get, '192.0.2.1', '192.0.2.2', '192.0.2.1'), [200, 200, 429]);
    });
  });
}

const express = requireDev('express');

for (const kind of ['memory', 'redis']) {
  describe(kind, () => {
    // The same with one limiter, and with layers that are decided together.
    for (const layered of [false, true]) {
      const what = layered ? 'layers' : 'one limiter';
      const optionsFor = (limiter, others = {}) => {
        if (!layered) return { limit: limiter, key: () => 'k', ...others };
        const wide = named(limiter.store, '1000/h');
        const limits = [{ limit: wide }, { limit: limiter, key: () => 'k' }];
        return { limits, ...others };
      };

      test(`${what}: a request is held back until its turn`, async (t) => {
        const limiter = named(
          open(kind, { clock: new ManualClock(HOUR) }),
          'leaky-bucket: 20/s queue 3',
        );
        const came = [];
        const seen = [];
        const begin = (req) => (req.came = performance.now());
        const { get } = await serve(
          t,
          express,
          optionsFor(limiter),
          (req, res) => {
            came.push(req.rateLimit.delay);
            seen.push(performance.now() - req.came - req.rateLimit.delay);
            res.end('ok');
          },
          { onRequest: begin },
        );
        const found = await Promise.all([1, 2, 3, 4, 5].map(() => get()));
        assert.deepEqual(found.map(({ status }) => status).sort(), [200, 200, 200, 200, 429]);
        assert.deepEqual(came, [0, 50, 100, 150]);
        for (const late of seen) assert.ok(late >= 0, `${late}`);
      });

      test(`${what}: a client that goes away before its turn gives it back`, async (t) => {
        const limiter = named(
          open(kind, { clock: new ManualClock(HOUR) }),
          'leaky-bucket: 1/h queue 3',
        );
        let handled = 0;
        const { get, origin } = await serve(t, express, optionsFor(limiter), (req, res) => {
          handled++;
          res.end('ok');
        });
        assert.deepEqual(await statuses(get, 1), [200]);
        const turn = async () => (await limiter.peek('k')).delay;
        assert.equal(await turn(), HOUR);
        const leave = start(origin);
        await until(async () => (await turn()) === 2 * HOUR);
        await leave();
        await until(async () => (await turn()) === HOUR);
        assert.equal(handled, 1);
      });

      test(`${what}: a slot is free again when the response is done`, async (t) => {
        const limiter = named(open(kind), 'concurrency: 1 ttl 1h; 100/h');
        let finish;
        const { get } = await serve(t, express, optionsFor(limiter), (req, res, next) => {
          if (req.path === '/slow') finish = () => res.end('ok');
          else if (req.path === '/error') next(new Error('mine'));
          else res.end('ok');
        });
        assert.deepEqual(await statuses(get, 3), [200, 200, 200]);
        assert.deepEqual(await statuses(get, 2, '/error'), [500, 500]);
        const slow = get('/slow');
        await until(() => finish !== undefined);
        const refused = await get();
        assert.equal(refused.status, 429);
        finish();
        assert.equal((await slow).status, 200);
        assert.deepEqual(await statuses(get, 2), [200, 200]);
        // What the other rule counted stays counted.
        const { rules } = await limiter.peek('k', 0);
        assert.deepEqual(
          rules.map(({ limit, remaining }) => limit - remaining),
          [0, 8],
        );
      });

      test(`${what}: a slot is free again when the client has gone`, async (t) => {
        const limiter = named(open(kind), 'concurrency: 1 ttl 1h');
        let handled = 0;
        const { get, origin } = await serve(t, express, optionsFor(limiter), (req, res) => {
          handled++;
          if (req.path !== '/never') res.end('ok');
        });
        const leave = start(origin, '/never');
        await until(() => handled === 1);
        assert.deepEqual(await statuses(get, 1), [429]);
        await leave();
        await until(async () => (await limiter.peek('k')).allowed);
        assert.deepEqual(await statuses(get, 2), [200, 200]);
      });
    }

    test('a client that has gone before it was decided takes nothing', async (t) => {
      for (const policy of ['concurrency: 1 ttl 1h', 'leaky-bucket: 1/h queue 3']) {
        const limiter = named(open(kind, { clock: new ManualClock(HOUR) }), policy);
        let go;
        let closed = false;
        let handled = 0;
        const key = () => new Promise((resolve) => (go = () => resolve('k')));
        const handler = (req, res) => {
          handled++;
          res.end('ok');
        };
        const onRequest = (req, res) => res.on('close', () => (closed = true));
        const { origin } = await serve(t, express, { limit: limiter, key }, handler, { onRequest });
        const leave = start(origin);
        await until(() => go !== undefined);
        await leave();
        await until(() => closed);
        const before_ = (await limiter.peek('k', 0)).resetAfter;
        go();
        await pause(20);
        await until(async () => (await limiter.peek('k', 0)).resetAfter === before_);
        assert.equal(handled, 0);
      }
    });
  });
}

test('two layers of one limiter and key hold two slots, and release both', async (t) => {
  const limiter = named(open('memory'), 'concurrency: 2 ttl 1h');
  const layer = { limit: limiter, key: () => 'k' };
  const { get } = await serve(t, express, { limits: [layer, layer] }, (req, res) => res.end('ok'));
  assert.deepEqual(await statuses(get, 3), [200, 200, 200]);
  await until(() => limiter.peekSync('k').remaining === 2);
});

test('a limiter that was closed while a response went on is no error', async (t) => {
  const limiter = named(open('memory'), 'concurrency: 1 ttl 1h');
  const { get } = await serve(t, express, { limit: limiter }, async (req, res) => {
    await limiter.close();
    res.end('ok');
  });
  assert.equal((await get()).status, 200);
  await pause(5);
});

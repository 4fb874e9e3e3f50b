// The middleware in real Express applications, over real sockets.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { after, describe, test } from 'node:test';
import { Limiter, Store, rateLimit, requireDev } from './support/saqiya.mjs';
import { freePort } from './support/redis.mjs';

const servers = [];
after(() => servers.forEach((server) => server.close()));

async function listen(handler) {
  const server = http.createServer(handler);
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return async (path = '/', options = {}) => {
    const url = `http://127.0.0.1:${server.address().port}${path}`;
    const response = await fetch(url, { ...options, headers: { connection: 'close' } });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text };
  };
}

async function statuses(get, count, path) {
  const found = [];
  for (let i = 0; i < count; i++) found.push((await get(path)).status);
  return found;
}

for (const [version, name] of Object.entries({ 4: 'express4', 5: 'express' })) {
  const express = requireDev(name);

  async function serve(options, routes = () => {}) {
    const app = express();
    const errors = [];
    app.use(rateLimit(options));
    routes(app);
    app.get('/', (req, res) => res.json({ remaining: req.rateLimit?.remaining }));
    app.use((error, req, res, _next) => {
      errors.push(error);
      res.status(500).end();
    });
    return { get: await listen(app), errors };
  }

  describe(`Express ${version}`, () => {
    test('it is the version it says', () => {
      assert.equal(requireDev(`${name}/package.json`).version.split('.')[0], version);
    });

    test('the burst passes, the rest is 429 with fields and a JSON body', async () => {
      const { get } = await serve({ limit: '1/h', burst: 3 });
      const first = await get();
      assert.equal(first.status, 200);
      assert.deepEqual(JSON.parse(first.text), { remaining: 2 });
      assert.equal(first.headers.get('x-ratelimit-limit'), '3');
      assert.equal(first.headers.get('x-ratelimit-remaining'), '2');
      assert.equal(first.headers.get('x-ratelimit-reset'), '3600');
      assert.equal(first.headers.get('ratelimit'), '"default";r=2;t=3600');
      assert.equal(first.headers.get('ratelimit-policy'), '"default";q=3;w=10800');
      assert.equal(first.headers.get('retry-after'), null);
      assert.deepEqual(await statuses(get, 3), [200, 200, 429]);
      const refused = await get();
      assert.match(refused.headers.get('content-type'), /^application\/json/);
      assert.equal(refused.headers.get('retry-after'), '3600');
      const body = { error: 'rate_limited', retry_after: 3600, limit: 3, remaining: 0 };
      assert.deepEqual(JSON.parse(refused.text), body);
      const head = await get('/', { method: 'HEAD' });
      assert.deepEqual([head.status, head.text], [429, '']);
    });

    test('key, cost and skip, at once or by promises', async () => {
      const { get } = await serve({
        limit: '1/h burst 4',
        key: async (req) => req.query.user,
        cost: (req) => Number(req.query.cost ?? 1),
        skip: async (req) => req.path === '/health',
        handler: (req, res) => res.status(418).end(),
      });
      assert.deepEqual(await statuses(get, 2, '/?user=a&cost=2'), [200, 200]);
      assert.deepEqual(await statuses(get, 1, '/?user=a'), [418]);
      assert.deepEqual(await statuses(get, 1, '/?user=b'), [200]);
      assert.deepEqual(await statuses(get, 3, '/health'), [404, 404, 404]);
      const bytes = await serve({
        limit: '1/h',
        key: (req) => Buffer.from(req.path),
        skip: () => 0,
      });
      assert.deepEqual(await statuses(bytes.get, 2), [200, 429]);
    });

    test('errors of the functions go to next', async () => {
      const failure = () => {
        throw new Error('no');
      };
      const rejection = async () => failure();
      const wrong = [{ key: failure }, { key: rejection }, { cost: failure }, { cost: rejection }];
      wrong.push(
        { skip: failure },
        { skip: rejection },
        { key: () => undefined },
        { cost: () => 0.5 },
      );
      wrong.push({ limit: '0/s', handler: failure }, { limit: '0/s', handler: rejection });
      for (const options of wrong) {
        const { get, errors } = await serve({ limit: '5/s', ...options });
        assert.equal((await get()).status, 500);
        assert.equal(errors.length, 1);
      }
    });

    test('a constant cost is checked at once', () => {
      for (const cost of [-1, 0.5, NaN, 2 ** 53]) {
        assert.throws(() => rateLimit({ limit: '5/s', cost }), RangeError);
      }
      for (const cost of ['3', null, true]) {
        assert.throws(() => rateLimit({ limit: '5/s', cost }), TypeError);
      }
    });

    test('an IPv4 client of a server on IPv6 is the IPv4 client', async () => {
      const keys = [];
      const limiter = new Limiter('5/h', { name: 'peer' });
      const app = express();
      app.use((req, res, next) => {
        keys.push(req.socket.remoteAddress);
        next();
      });
      app.use(rateLimit({ limit: limiter }));
      app.get('/', (req, res) => res.end());
      const server = app.listen(0, '::');
      await once(server, 'listening');
      const headers = { connection: 'close' };
      await (await fetch(`http://127.0.0.1:${server.address().port}/`, { headers })).text();
      server.close();
      assert.deepEqual(keys, ['::ffff:127.0.0.1']);
      assert.equal(limiter.peekSync('127.0.0.1').remaining, 4);
    });

    test('the handler may let a refused request through', async () => {
      const handler = (req, res, next, decision) => {
        res.setHeader('x-outcome', decision.outcome);
        next();
      };
      const { get } = await serve({ limit: '0/s', handler });
      const response = await get();
      assert.equal(response.status, 200);
      assert.equal(response.headers.get('x-outcome'), 'never');
    });

    test('a limiter made elsewhere, on a route of its own', async () => {
      const limiter = new Limiter('1/h', { name: 'login' });
      const { get } = await serve({ limit: '1/h burst 9', fields: 'none' }, (app) => {
        app.get('/login', rateLimit({ limit: limiter }), (req, res) => res.end('in'));
      });
      assert.deepEqual(await statuses(get, 2, '/login'), [200, 429]);
      assert.deepEqual(await statuses(get, 2), [200, 200]);
      const { headers } = await get('/login');
      assert.equal(headers.get('ratelimit-policy'), '"login";q=1;w=3600');
    });

    test('C125: store down: 503, and next is not called', async () => {
      const url = `redis://127.0.0.1:${await freePort()}`;
      let calls = 0;
      const options = { limit: '5/s', store: url, failure: 'error' };
      const { get } = await serve(options, (app) =>
        app.use((req, res, next) => {
          calls++;
          next();
        }),
      );
      const { status, headers, text } = await get();
      assert.equal(status, 503);
      assert.equal(JSON.parse(text).error, 'rate_limiter_unavailable');
      assert.equal(headers.get('retry-after'), '1');
      assert.equal(headers.get('x-ratelimit-limit'), null);
      assert.equal(calls, 0);
      const open = await serve({ ...options, handler: (req, res, next) => next() });
      assert.equal((await open.get()).status, 200);
    });
  });
}

test('C125: next is called once, and what it throws is not caught', async () => {
  const request = { socket: {} };
  const response = { setHeader() {} };
  const unreachable = `redis://127.0.0.1:${await freePort()}`;
  const next = (...args) => {
    calls.push(args);
    throw new Error('downstream');
  };
  let calls = [];
  const local = rateLimit({ limit: '1/h' });
  assert.throws(() => local(request, response, next), /downstream/);
  assert.deepEqual(calls, [[]]);

  calls = [];
  const skipping = rateLimit({ limit: '0/s', skip: () => true });
  assert.throws(() => skipping(request, response, next), /downstream/);
  assert.deepEqual(calls, [[]]);

  calls = [];
  const options = { limit: '1/h', store: unreachable, failure: 'error' };
  options.handler = (req, res, go) => go();
  await new Promise((resolve) => {
    rateLimit(options)(request, response, (...args) => resolve(calls.push(args)));
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(calls, [[]]);
});

test('decisions in the process are made synchronously', () => {
  const request = { socket: { remoteAddress: '127.0.0.1' } };
  let called = false;
  rateLimit({ limit: '1/h' })(request, { setHeader() {} }, () => (called = true));
  assert.equal(called, true);
  assert.equal(request.rateLimit.allowed, true);
});

test('it serves node:http alone', async () => {
  const limit = rateLimit({ limit: '1/h burst 2' });
  const get = await listen((req, res) => limit(req, res, () => res.end('ok')));
  assert.deepEqual(await statuses(get, 3), [200, 200, 429]);
});

test('two applications with one store share the limit', async () => {
  const store = new Store();
  const [one, two] = await Promise.all(
    [1, 2].map(() => {
      const limit = rateLimit({ limit: '1/h burst 3', name: 'both', store });
      return listen((req, res) => limit(req, res, () => res.end('ok')));
    }),
  );
  assert.deepEqual(await statuses(one, 2), [200, 200]);
  assert.deepEqual(await statuses(two, 2), [200, 429]);
});

test('wrong options throw when the middleware is made', () => {
  assert.throws(() => rateLimit(), TypeError);
  assert.throws(() => rateLimit({}), TypeError);
  assert.throws(() => rateLimit({ limit: '5/s', max: 5 }), TypeError);
  assert.throws(() => rateLimit({ limit: '5/s', burst: '5' }), TypeError);
  assert.throws(() => rateLimit({ limit: '5/s', key: 'ip' }), TypeError);
  assert.throws(() => rateLimit({ limit: '5/s', fields: 'x' }), TypeError);
  assert.throws(() => rateLimit({ limit: new Limiter('5/s'), burst: 5 }), TypeError);
  assert.throws(() => rateLimit({ limit: '5/x' }), { code: 'bad_policy', position: 2 });
});

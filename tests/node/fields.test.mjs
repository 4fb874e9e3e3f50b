// C84: several middlewares on one route say together what each of them found.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Limiter, ManualClock, Store, rateLimit, requireDev } from './support/saqiya.mjs';
import { listen } from './support/http.mjs';

const express = requireDev('express');
const NAMES = ['ratelimit', 'ratelimit-policy', 'x-ratelimit-limit', 'x-ratelimit-remaining'];
NAMES.push('x-ratelimit-reset', 'retry-after');
const goOn = (req, res, next) => next();

// Gives, for each request in turn, [status, the rate fields that came].
async function ask(t, options, count) {
  const app = express();
  const clock = new ManualClock(3_600_000);
  const store = new Store('memory://', { clock });
  for (const one of options) app.use(rateLimit({ store, ...one }));
  app.use((req, res) => res.end('ok'));
  const get = await listen(t, app);
  const found = [];
  for (let i = 0; i < count; i++) {
    const { status, headers } = await get();
    const fields = NAMES.filter((name) => headers.has(name));
    found.push([status, Object.fromEntries(fields.map((name) => [name, headers.get(name)]))]);
  }
  return found;
}

async function same(t, options, count) {
  const found = await ask(t, options, count);
  assert.deepEqual(await ask(t, [...options].reverse(), count), found);
  return found;
}

test('two middlewares in any order: the tighter in the legacy fields, both in the draft’s', async (t) => {
  const found = await same(
    t,
    [
      { limit: 'fixed-window: 3/min', name: 'minute' },
      { limit: 'fixed-window: 100/h', name: 'hour' },
    ],
    3,
  );
  const [status, first] = found[0];
  assert.equal(status, 200);
  assert.deepEqual(first, {
    ratelimit: '"minute";r=2;t=60, "hour";r=99;t=3600',
    'ratelimit-policy': '"minute";q=3;w=60, "hour";q=100;w=3600',
    'x-ratelimit-limit': '3',
    'x-ratelimit-remaining': '2',
    'x-ratelimit-reset': '60',
  });
});

// The middlewares after the one that refuses are not asked.
test('a refusal is told by the policy that refuses', async (t) => {
  const options = [
    { limit: 'fixed-window: 2/min', name: 'tight' },
    { limit: 'fixed-window: 50/h', name: 'wide', cost: 48 },
  ];
  for (const order of [options, [...options].reverse()]) {
    const [, [status, fields]] = await ask(t, order, 2);
    assert.equal(status, 429);
    assert.equal(fields['x-ratelimit-limit'], '50');
    assert.match(fields.ratelimit, /^"wide";r=2;t=3600/);
    assert.equal(fields['retry-after'], '3600');
  }
});

test('equal shares, and three middlewares, in any order', async (t) => {
  const one = { limit: 'fixed-window: 10/min', name: 'one' };
  const two = { limit: 'fixed-window: 10/h', name: 'two' };
  const three = { limit: '20/h; fixed-window: 9/d', name: 'three' };
  const [[, fields]] = await same(t, [one, two, three], 3);
  assert.match(fields.ratelimit, /^"three-2";r=8;t=\d+, "one";r=9;t=60, "two";r=9;t=3600$/);
  assert.match(fields['ratelimit-policy'], /^"three-1".*"three-2".*, "one".*, "two"/);
  const again = await ask(t, [two, three, one], 3);
  assert.deepEqual(again[0][1], fields);
});

test('refusals that are let through: the longest Retry-After', async (t) => {
  const handler = goOn;
  const found = await same(
    t,
    [
      { limit: 'fixed-window: 1/h', name: 'hour', handler },
      { limit: 'fixed-window: 1/min', name: 'minute', handler },
    ],
    2,
  );
  const [status, fields] = found[1];
  assert.equal(status, 200);
  assert.equal(fields['retry-after'], '3600');
  assert.equal(fields['x-ratelimit-reset'], '3600');
  assert.equal(fields.ratelimit, '"hour";r=0;t=3600, "minute";r=0;t=60');
});

test('each middleware sends the fields that it is told to', async (t) => {
  const found = await same(
    t,
    [
      { limit: 'fixed-window: 5/min', name: 'legacy', fields: 'legacy' },
      { limit: 'fixed-window: 3/min', name: 'draft', fields: 'draft' },
      { limit: 'fixed-window: 2/min', name: 'none', fields: 'none' },
      { limit: 'unlimited' },
    ],
    1,
  );
  assert.deepEqual(found[0][1], {
    ratelimit: '"draft";r=2;t=60',
    'ratelimit-policy': '"draft";q=3;w=60',
    'x-ratelimit-limit': '5',
    'x-ratelimit-remaining': '4',
    'x-ratelimit-reset': '60',
  });
});

test('layers beside a middleware of their own; one limiter twice is listed once', async (t) => {
  const layers = ['fixed-window: 5/min', 'fixed-window: 9/h'].map((limit, i) => ({
    limit,
    name: `layer${i}`,
  }));
  const found = await same(t, [{ limits: layers }, { limit: '1/h burst 3', name: 'own' }], 1);
  assert.equal(found[0][1].ratelimit, '"own";r=2;t=3600, "layer0";r=4;t=60, "layer1";r=8;t=3600');
  assert.equal(found[0][1]['x-ratelimit-limit'], '3');

  const limiter = new Limiter('1/h burst 9', { name: 'shared' });
  const app = express();
  for (const key of ['a', 'a', 'b']) app.use(rateLimit({ limit: limiter, key: () => key }));
  app.use((req, res) => res.end('ok'));
  const { headers } = await (await listen(t, app))();
  assert.equal(headers.get('ratelimit'), '"shared";r=7;t=3600');
  assert.equal(headers.get('ratelimit-policy'), '"shared";q=9;w=32400');
});

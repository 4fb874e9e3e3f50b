// Arguments, decisions, errors and life cycle, on stores in the process.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import * as esm from './support/saqiya.mjs';
import { Decision, Limiter, ManualClock, SaqiyaError, Store } from './support/saqiya.mjs';
import { requireDev } from './support/saqiya.mjs';

function fixture(policy = '1/s burst 10') {
  const clock = new ManualClock(1000);
  const store = new Store('memory://', { clock });
  return { clock, store, limiter: new Limiter(policy, { store, name: 'test' }) };
}

const hasCode = (code) => (error) => error instanceof SaqiyaError && error.code === code;

test('both module systems give the same classes', () => {
  const cjs = requireDev('./lib/index.js');
  for (const name of ['Limiter', 'Store', 'ManualClock', 'Decision', 'SaqiyaError', 'version']) {
    assert.equal(cjs[name], esm[name], name);
  }
  assert.equal(requireDev('./lib/express.js').rateLimit, esm.rateLimit);
  assert.equal(cjs.version, requireDev('./package.json').version);
});

test('a decision says everything about a check', async () => {
  const { limiter } = fixture('5/s burst 2');
  const allowed = await limiter.check('k');
  assert.ok(allowed instanceof Decision);
  const expected = { allowed: true, outcome: 'allowed', reason: null, limit: 2, remaining: 1 };
  Object.assign(expected, {
    retryAfter: 0,
    resetAfter: 200,
    delay: 0,
    rule: 0,
    item: 0,
    source: 'store',
  });
  assert.deepEqual(allowed.toJSON(), expected);
  limiter.checkSync('k');
  const denied = limiter.checkSync('k');
  Object.assign(expected, { allowed: false, outcome: 'denied', remaining: 0 });
  Object.assign(expected, { retryAfter: 200, resetAfter: 400 });
  assert.deepEqual(denied.toJSON(), expected);
  assert.match(inspect(denied), /^Decision \{.*outcome: 'denied'/s);
  const never = limiter.checkSync('k', 3);
  assert.equal(never.outcome, 'never');
  assert.equal(never.retryAfter, Infinity);
  assert.equal(JSON.parse(JSON.stringify(never)).retryAfter, null);
  assert.deepEqual(Object.keys(never), []);
});

test('check is resolved at once in the process', async () => {
  const { limiter } = fixture();
  const order = [];
  const done = limiter.check('k').then(() => order.push('check'));
  const other = Promise.resolve().then(() => order.push('other'));
  await Promise.all([done, other]);
  assert.deepEqual(order, ['check', 'other']);
});

test('C40: costs that are not whole numbers change nothing', async () => {
  const { limiter } = fixture();
  const cases = [-1, 0.5, NaN, Infinity, 2 ** 64, 2 ** 53, '3', null, true, 3n, {}, []];
  for (const cost of cases) {
    const expected = typeof cost === 'number' ? RangeError : TypeError;
    assert.throws(() => limiter.checkSync('k', cost), expected);
    assert.throws(() => limiter.peekSync('k', cost), expected);
    assert.throws(() => limiter.reserveSync('k', { cost }), expected);
    await assert.rejects(limiter.check('k', cost), expected);
    await assert.rejects(limiter.peek('k', cost), expected);
    await assert.rejects(limiter.acquire('k', { cost }), expected);
    await assert.rejects(limiter.checkMany(['k'], cost), expected);
  }
  assert.equal(limiter.peekSync('k').remaining, 10);
  assert.equal(limiter.checkSync('k', 0).remaining, 10);
  assert.equal(limiter.checkSync('k', undefined).remaining, 9);
});

test('keys are well-formed strings or bytes', async () => {
  const { limiter } = fixture();
  for (const key of ['\ud800', 'a\udc00b', '\udc00\ud800', 'x'.repeat(300) + '\ud83d']) {
    assert.throws(() => limiter.checkSync(key), TypeError);
    await assert.rejects(limiter.check(key), TypeError);
  }
  for (const key of [1, undefined, null, {}, Symbol('k'), new Uint16Array(2), new ArrayBuffer(2)]) {
    assert.throws(() => limiter.checkSync(key), TypeError);
  }
  assert.throws(() => limiter.checkSync('x'.repeat(65537)), RangeError);
  assert.throws(() => limiter.checkSync('é'.repeat(32769)), RangeError);
  assert.throws(() => limiter.checkSync(new Uint8Array(65537)), RangeError);
  assert.equal(limiter.checkSync('x'.repeat(65536)).remaining, 9);
});

test('a string and its UTF-8 bytes are one key, whatever the length', () => {
  const { limiter } = fixture();
  const samples = ['', 'user:42', '\0', 'a\0b', 'é', 'كلمة', '€', '😀', '\ufffd', '\u007f\u0080'];
  const units = ['x', 'é', '€', '😀'];
  for (const length of [7, 8, 9, 62, 63, 64, 125, 126, 127, 128, 129, 500]) {
    for (const unit of units) samples.push(unit.repeat(length), 'a'.repeat(length) + unit);
  }
  for (const sample of new Set(samples)) {
    assert.equal(limiter.checkSync(sample).remaining, 9, sample);
    assert.equal(limiter.checkSync(Buffer.from(sample)).remaining, 8, sample);
    const shifted = Buffer.concat([Buffer.from('12'), Buffer.from(sample)]).subarray(2);
    assert.equal(limiter.checkSync(new Uint8Array(shifted)).remaining, 7, sample);
  }
  assert.equal(limiter.checkSync(Buffer.from([0xff, 0xfe])).remaining, 9);
});

test('peek tells, reset forgets, checkMany decides in order', async () => {
  const { limiter } = fixture('1/s burst 2');
  assert.equal((await limiter.peek('k', 2)).outcome, 'allowed');
  assert.equal(limiter.peekSync('k').remaining, 2);
  const decisions = await limiter.checkMany(['k', 'other', 'k', Buffer.from('k')]);
  assert.deepEqual(
    decisions.map((decision) => decision.outcome),
    ['allowed', 'allowed', 'allowed', 'denied'],
  );
  assert.equal((await limiter.peek('k')).retryAfter, 1000);
  assert.equal((await limiter.reset('k')).remaining, 2);
  assert.equal(limiter.resetSync('k').outcome, 'allowed');
  assert.deepEqual(await limiter.checkMany([]), []);
  for (const keys of ['abc', new Uint8Array(2), undefined, { length: 1 }]) {
    await assert.rejects(limiter.checkMany(keys), TypeError);
  }
});

test('a decision is refunded once', async () => {
  const { limiter } = fixture();
  const decision = limiter.checkSync('k', 4);
  const refunded = await limiter.refund('k', decision);
  assert.equal(refunded.outcome, 'allowed');
  assert.equal(refunded.remaining, 10);
  assert.equal(limiter.refundSync('k', decision).outcome, 'denied');
  assert.equal(limiter.refundSync('k', limiter.peekSync('k')).outcome, 'denied');
  for (const wrong of [undefined, null, {}, decision.toJSON()]) {
    assert.throws(() => limiter.refundSync('k', wrong), TypeError);
    await assert.rejects(limiter.refund('k', wrong), TypeError);
  }
});

test('a refund that is misuse leaves the decision as it was', async () => {
  const { limiter } = fixture();
  const decision = limiter.checkSync('k', 4);
  assert.throws(() => limiter.refundSync('\ud800', decision), TypeError);
  await assert.rejects(limiter.refund(42, decision), TypeError);
  assert.equal(limiter.refundSync('k', decision).remaining, 10);
});

test('a decision of another store refunds nothing', () => {
  const [one, two] = [fixture(), fixture()];
  const decision = one.limiter.checkSync('k', 4);
  two.limiter.checkSync('k', 5);
  assert.equal(two.limiter.refundSync('k', decision).outcome, 'denied');
  assert.equal(two.limiter.peekSync('k').remaining, 5);
});

test('tickets of several rules are told apart', () => {
  const { clock, store } = fixture();
  const limiters = ['3/s burst 9', '7/min burst 9', '1/s burst 9'].map(
    (policy) => new Limiter(policy, { store, name: policy[0] }),
  );
  clock.advanceMicroseconds(123457);
  const decisions = limiters.map((limiter) => limiter.checkSync('k', 5));
  for (const [i, limiter] of limiters.entries()) {
    const refunded = limiter.refundSync('k', decisions[i]);
    assert.equal(refunded.remaining, 9);
    assert.equal(refunded.resetAfter, 0);
  }
});

test('policies and options that are wrong', () => {
  assert.throws(
    () => new Limiter('5/x'),
    (error) => {
      assert.ok(error instanceof SaqiyaError && error instanceof Error);
      assert.equal(error.name, 'SaqiyaError');
      assert.equal(error.code, 'bad_policy');
      assert.equal(error.position, 2);
      return true;
    },
  );
  for (const policy of [
    undefined,
    null,
    5,
    Symbol('5/s'),
    { capacity: '1', tokens: 1, period: 1 },
  ]) {
    assert.throws(() => new Limiter(policy), TypeError);
  }
  assert.throws(() => new Limiter({ capacity: 1, tokens: 1, period: 1, burst: 2 }), TypeError);
  assert.throws(() => new Limiter('5/s', { stores: 'memory://' }), TypeError);
  assert.throws(() => new Limiter('5/s', null), TypeError);
  assert.throws(() => new Limiter('5/s', { name: 5 }), /^TypeError: name must be a string$/);
  assert.throws(() => new Store('redis://h', { prefix: '\ud800' }), /^TypeError: prefix must/);
  assert.throws(() => new Store('redis://h', { secret: 5 }), /^TypeError: secret must/);
  assert.throws(() => new Limiter('5/s', { name: 'schön' }), hasCode('invalid'));
  assert.throws(() => new Limiter('5/s', { deadline: 0 }), RangeError);
  assert.throws(() => new Limiter('5/s', { deadline: '1' }), TypeError);
  assert.throws(() => new Limiter('5/s', { store: 'http://x' }), hasCode('bad_url'));
  assert.throws(() => new Store('redis://h:99999'), hasCode('bad_url'));
  assert.throws(() => new Store(5), TypeError);
  assert.throws(() => new Store('memory://', { maxKeys: 0 }), RangeError);
  assert.throws(() => new Store('memory://', { connections: 65 }), RangeError);
  assert.throws(() => new Store('memory://', { clock: {} }), TypeError);
  const clock = new ManualClock();
  const refused = (error) => error instanceof SaqiyaError;
  assert.throws(() => new Store('redis://localhost', { clock }), refused);
});

test('a password does not show in an error', () => {
  assert.throws(
    () => new Store('redis://user:s3cret@host:port'),
    (error) => error instanceof SaqiyaError && !inspect(error).includes('s3cret'),
  );
});

test('stores: own by default, shared by URL, or given', async () => {
  const [a, b] = [new Limiter('1/h'), new Limiter('1/h')];
  assert.notEqual(a.store, b.store);
  assert.equal(a.checkSync('k').allowed && b.checkSync('k').allowed, true);
  const [c, d] = ['c', 'd'].map((name) => new Limiter('1/h', { store: 'memory://', name }));
  assert.equal(c.store, d.store);
  await c.close();
  assert.equal(d.checkSync('k').allowed, true);
  await d.close();
  const e = new Limiter('1/h', { store: 'memory://', name: 'd' });
  assert.notEqual(e.store, d.store);
  assert.equal(e.checkSync('k').allowed, true);
  const store = new Store();
  const f = new Limiter('1/h', { store, name: 'f' });
  await f.close();
  assert.equal(new Limiter('1/h', { store, name: 'f' }).checkSync('k').allowed, true);
  await Promise.all([a, b, e].map((limiter) => limiter.close()));
});

test('C140: close may be called again; then check is a defined error', async () => {
  for (const close of [({ limiter }) => limiter.close(), ({ store }) => store.close()]) {
    const { store, limiter } = fixture();
    const decision = limiter.checkSync('k');
    await Promise.all([close({ store, limiter }), close({ store, limiter })]);
    await close({ store, limiter });
    const closed = hasCode('closed');
    assert.throws(() => limiter.checkSync('k'), closed);
    assert.throws(() => limiter.peekSync('k'), closed);
    assert.throws(() => limiter.reserveSync('k'), closed);
    assert.throws(() => limiter.resetSync('k'), closed);
    assert.throws(() => limiter.refundSync('k', decision), closed);
    await assert.rejects(limiter.check('k'), closed);
    await assert.rejects(limiter.peek('k'), closed);
    await assert.rejects(limiter.acquire('k'), closed);
    await assert.rejects(limiter.checkMany(['k']), closed);
  }
  const { store } = fixture();
  await store.close();
  assert.throws(() => store.stats(), hasCode('closed'));
  assert.throws(() => new Limiter('5/s', { store }), hasCode('closed'));
});

test('statistics and the bound on keys', () => {
  const store = new Store('memory://', { maxKeys: 1000 });
  const limiter = new Limiter('1/h', { store });
  for (let i = 0; i < 5000; i++) limiter.checkSync(`user:${i}`);
  const stats = store.stats();
  assert.ok(stats.keys <= 1000 && stats.keys > 500, inspect(stats));
  assert.ok(stats.evictions >= 4000, inspect(stats));
});

test('policy and name are readable', () => {
  assert.equal(new Limiter('3/s', { name: 'login' }).name, 'login');
  assert.equal(new Limiter('3/s').name, '');
  assert.equal(new Limiter({ capacity: 3, tokens: 3, period: 1000 }).policy, '3/s burst 3');
});

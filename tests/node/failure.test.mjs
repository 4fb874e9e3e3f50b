// What limiters decide while Redis does not answer, by their failure policies.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Limiter, checkAll, peekAll, refundAll, reserveAll } from './support/saqiya.mjs';
import { FAULTS, faultyServer } from './support/faults.mjs';
import { open } from './support/away.mjs';

const MODES = ['local', 'open', 'closed', 'error'];

const numbers = ({ limit, remaining, resetAfter, delay }) => [limit, remaining, resetAfter, delay];

test('local is the default: the same rules, in this process', async () => {
  const limiter = new Limiter('1/h burst 3', { store: open() });
  const found = await limiter.checkMany(new Array(5).fill('k'));
  assert.deepEqual(
    found.map(({ outcome, source, reason, limit, remaining }) =>
      [outcome, source, reason, limit, remaining].join(),
    ),
    ['allowed', 'allowed', 'allowed', 'denied', 'denied'].map(
      (outcome, i) => `${outcome},local,connect,3,${Math.max(2 - i, 0)}`,
    ),
  );
  assert.ok(found[4].retryAfter > 3_500_000);
  assert.equal((await limiter.check('other')).remaining, 2);
  assert.equal((await limiter.peek('k')).outcome, 'denied');
  assert.equal((await limiter.reset('k')).outcome, 'unavailable');
  assert.equal((await limiter.check('k')).allowed, true);
});

test('C52: a share of the limit, or a policy of its own', async () => {
  const store = open();
  const limitOf = async (policy, options) => {
    const limiter = new Limiter(policy, { store, ...options });
    const { rules } = await limiter.check('k');
    return rules.map(({ limit }) => limit).join();
  };
  assert.equal(await limitOf('100/min', { share: 0.25 }), '25');
  assert.equal(await limitOf('10/min burst 10', { share: 0.29, name: 'floor' }), '2');
  assert.equal(await limitOf('3/min', { share: 0.1, name: 'least' }), '1');
  assert.equal(await limitOf('7/min', { share: 1 / 7, name: 'seventh' }), '1');
  assert.equal(await limitOf('fixed-window: 40/h; 20/s', { share: 0.5 }), '20,10');
  assert.equal(await limitOf('100/s', { fallback: '7/min', name: 'text' }), '7');
  const rule = { capacity: 6, tokens: 1, period: 1000 };
  assert.equal(await limitOf('100/s', { fallback: rule, name: 'rule' }), '6');
  const several = { fallback: ['sliding-log: 4/h', rule], name: 'rules' };
  assert.equal(await limitOf('100/s; 1000/h', several), '4,6');
});

test('open lets through, unseen', async () => {
  const limiter = new Limiter('1/h', { store: open(), failure: 'open' });
  for (const decision of await limiter.checkMany(new Array(5).fill('k'))) {
    const { allowed, source, reason, retryAfter } = decision;
    assert.deepEqual([allowed, source, reason, retryAfter], [true, 'open', 'connect', 0]);
    assert.deepEqual(numbers(decision), [0, 0, 0, 0]);
    assert.notEqual((await limiter.refund('k', decision)).outcome, 'allowed');
  }
  assert.equal((await limiter.acquire('k', { timeout: 5 })).source, 'open');
});

test('closed refuses, and says when to ask again', async () => {
  const limiter = new Limiter('1/h', { store: open(), failure: 'closed' });
  for (const decision of await limiter.checkMany(new Array(5).fill('k'))) {
    const { outcome, source, reason, retryAfter } = decision;
    assert.deepEqual([outcome, source, reason], ['denied', 'closed', 'connect']);
    assert.ok(retryAfter >= 1000 && retryAfter <= 5000, `${retryAfter}`);
    assert.deepEqual(numbers(decision), [0, 0, 0, 0]);
  }
  assert.equal((await limiter.acquire('k', { timeout: 60_000 })).source, 'closed');
});

test('error leaves it to the caller', async () => {
  const limiter = new Limiter('1/h', { store: open(), failure: 'error' });
  for (const decision of await limiter.checkMany(new Array(5).fill('k'))) {
    const { outcome, source, reason, retryAfter } = decision;
    assert.deepEqual([outcome, source, reason], ['unavailable', 'store', 'connect']);
    assert.deepEqual([...numbers(decision), retryAfter], [0, 0, 0, 0, 0]);
  }
});

test('what can never pass is never, under every policy', async () => {
  for (const failure of MODES) {
    const limiter = new Limiter('5/s', { store: open(), failure });
    for (const name of ['check', 'peek']) {
      const { outcome, retryAfter } = await limiter[name]('k', 6);
      assert.deepEqual([outcome, retryAfter], ['never', Infinity], `${failure} ${name}`);
    }
  }
});

test('several limiters with failure policies of their own', async () => {
  const store = open();
  const items = (name, ...modes) =>
    modes.map((failure) => ({
      limiter: new Limiter('1/h burst 2', { store, failure, name }),
      key: failure,
    }));
  const expected = {
    'local error open': ['unavailable', 'store'],
    'closed error local': ['unavailable', 'store'],
    'open local closed': ['denied', 'closed'],
    'open local': ['allowed', 'local'],
    'open open': ['allowed', 'open'],
  };
  for (const [modes, [outcome, source]] of Object.entries(expected)) {
    const asked = items('modes', ...modes.split(' '));
    for (const ask of [checkAll, peekAll, reserveAll]) {
      await asked.at(-1).limiter.reset('local');
      const decision = await ask(asked);
      assert.deepEqual([decision.outcome, decision.source], [outcome, source], modes);
      assert.equal(decision.reason, 'connect');
      assert.equal(decision.items.length, asked.length);
    }
  }
  // Local ones are charged together or not at all, and a refusal tells whose it is.
  const asked = items('together', 'open', 'local');
  asked.push({ limiter: new Limiter('1/h burst 3', { store, name: 'wide' }), key: 'wide' });
  const [first, , third] = [await checkAll(asked), await checkAll(asked), await checkAll(asked)];
  assert.deepEqual([first.outcome, third.outcome, third.item], ['allowed', 'denied', 1]);
  assert.equal((await asked[2].limiter.peek('wide')).remaining, 1);
  assert.equal((await refundAll(asked, first)).outcome, 'allowed');
  assert.equal((await asked[2].limiter.peek('wide')).remaining, 2);
});

test('what was decided locally is settled, renewed and given back locally', async () => {
  const store = open();
  const limiter = new Limiter('1/h burst 5; concurrency: 5 ttl 1h', { store });
  const first = await limiter.check('k', 3);
  assert.equal(first.source, 'local');
  assert.equal((await limiter.settle('k', first, 1)).outcome, 'allowed');
  assert.equal((await limiter.renew('k', first)).outcome, 'allowed');
  assert.equal((await limiter.release('k', first)).outcome, 'allowed');
  assert.equal((await limiter.release('k', first)).outcome, 'denied');
  const { rules } = await limiter.peek('k', 0);
  assert.deepEqual(
    rules.map(({ remaining }) => remaining),
    [4, 5],
  );
  const held = new Limiter('concurrency: 1 ttl 1h', { store, name: 'held' });
  await held.hold('k', async ({ decision, signal }) => {
    assert.deepEqual([decision.source, signal.aborted], ['local', false]);
    assert.equal((await held.check('k')).outcome, 'denied');
  });
  assert.equal((await held.peek('k')).outcome, 'allowed');
});

test('a lease that was given unseen is never lost', async (t) => {
  const limiter = new Limiter('concurrency: 1 ttl 20ms', { store: open(), failure: 'open' });
  const lease = await limiter.hold('k');
  t.after(() => lease.release());
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.equal(lease.signal.aborted, false);
  assert.equal((await lease.renew()).source, 'open');
  assert.equal((await lease.release()).source, 'open');
  const refused = new Limiter('concurrency: 1 ttl 1h', { store: open(), failure: 'closed' });
  await assert.rejects(refused.hold('k'), (error) => {
    assert.equal(error.decision.source, 'closed');
    return error.code === 'refused' && error.message.includes('connect');
  });
});

test('in this process the failure policy is of no consequence', async () => {
  for (const failure of MODES) {
    const options = failure === 'local' ? { share: 0.1 } : {};
    const limiter = new Limiter('1/h burst 20', { failure, denyCache: false, ...options });
    const { limit, source } = limiter.checkSync('k');
    assert.deepEqual([limit, source], [20, 'store']);
  }
});

test('wrong options throw', () => {
  for (const wrong of [{ failure: 'retry' }, { failure: '' }, { failure: 1 }, { failure: null }]) {
    assert.throws(() => new Limiter('5/s', wrong), TypeError);
  }
  for (const share of ['1', null, true]) {
    assert.throws(() => new Limiter('5/s', { share }), TypeError);
  }
  for (const share of [0, -1, 1.01, 1e-7, NaN, Infinity]) {
    assert.throws(() => new Limiter('5/s', { share }), RangeError);
  }
  assert.throws(() => new Limiter('5/s', { denyCache: 1 }), TypeError);
  for (const fallback of [5, null, [], {}]) {
    assert.throws(
      () => new Limiter('5/s', { fallback }),
      (error) => error instanceof Error,
    );
  }
  assert.throws(() => new Limiter('5/s', { fallback: '5/x' }), { code: 'bad_policy' });
  assert.throws(() => new Limiter('5/s', { fallback: '5/s; 9/d' }), { code: 'bad_policy' });
  const clashing = [
    { share: 0.5, fallback: '1/s' },
    { share: 0.5, failure: 'open' },
    { fallback: '1/s', failure: 'error' },
  ];
  for (const wrong of clashing) {
    assert.throws(() => new Limiter('5/s', wrong), { code: 'invalid' });
  }
});

// C50
describe('no failure of a server comes out as an exception', { concurrency: 8 }, () => {
  const outcomes = {
    local: ['allowed', 'denied'],
    open: ['allowed'],
    closed: ['denied'],
    error: ['unavailable'],
  };
  const changed = ['unavailable', 'denied', 'allowed'];

  for (const fault of FAULTS) {
    test(fault, async (t) => {
      const url = await faultyServer(t, fault);
      for (const failure of MODES) {
        const store = open(url);
        const limiter = new Limiter('1/h burst 2', { store, failure, name: 'one' });
        const several = new Limiter('9/h; concurrency: 2 ttl 1h', { store, failure, name: 'two' });
        const items = [limiter, several].map((one) => ({ limiter: one, key: 'k' }));
        const is = (decision, among, what) => {
          const where = `${failure} ${what}: ${JSON.stringify(decision)}`;
          assert.ok(among.includes(decision.outcome), where);
          assert.notEqual(decision.reason, null, where);
        };
        for (const one of [limiter, several]) {
          const decision = await one.check('k');
          is(decision, outcomes[failure], 'check');
          is(await one.peek('k'), outcomes[failure], 'peek');
          is(await one.acquire('k', { timeout: 0 }), outcomes[failure], 'acquire');
          is(await one.reset('other'), ['unavailable'], 'reset');
          for (const change of ['renew', 'settle', 'refund', 'release']) {
            const { outcome } = await one[change]('k', decision, 1);
            assert.ok(changed.includes(outcome), `${failure} ${change} ${outcome}`);
          }
        }
        is(await peekAll(items), outcomes[failure], 'peekAll');
        is(await checkAll(items), outcomes[failure], 'checkAll');
        const { requests, failures, degraded } = store.stats();
        assert.ok(failures > 0 && requests >= 0 && degraded <= 1);
      }
    });
  }
});

// Policies of every algorithm and of several rules: how they are given, and what decisions tell.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Limiter, ManualClock, SaqiyaError, Store } from './support/saqiya.mjs';

const HOUR = 3_600_000;
const START = Date.UTC(2026, 10, 30, 12); // a Monday

function fixture() {
  const clock = new ManualClock(START);
  const store = new Store('memory://', { clock });
  let count = 0;
  const limiter = (policy) => new Limiter(policy, { store, name: `limiter-${count++}` });
  return { clock, store, limiter };
}

const spent = (limiter, key = 'k') => {
  const { limit, remaining } = limiter.peekSync(key, 0);
  return limit - remaining;
};

describe('policies', () => {
  const forms = [
    [{ capacity: 20, tokens: 5, period: 1000 }, '5/s burst 20'],
    [
      { algorithm: 'token-bucket', capacity: 1, tokens: 10, period: 1000, queue: 50 },
      'leaky-bucket: 10/s queue 50',
    ],
    [{ algorithm: 'fixed-window', limit: 100, period: 60_000 }, 'fixed-window: 100/min'],
    [{ algorithm: 'sliding-window', limit: 9, period: HOUR }, 'sliding-window: 9/hour'],
    [{ algorithm: 'sliding-log', limit: 5, period: 900_000 }, 'sliding-log: 5/15min'],
    [{ algorithm: 'concurrency', limit: 20, ttl: 30_000 }, 'concurrency: 20 ttl 30s'],
    [{ algorithm: 'calendar', limit: 3, unit: 'week' }, 'calendar: 3/week'],
    [
      { algorithm: 'calendar', limit: 9, unit: 'month', zone: 'Africa/Cairo', anchorDay: 15 },
      'calendar: 9/month anchor 15 tz Africa/Cairo',
    ],
  ];

  test('each rule as numbers is the rule of its text, and comes back', () => {
    for (const [rule, text] of forms) {
      const limiter = new Limiter(rule);
      assert.equal(limiter.policy, new Limiter(text).policy, text);
      const defaults = rule.algorithm === 'calendar' ? { zone: 'UTC' } : {};
      assert.deepEqual(
        new Limiter([rule, '1/us']).rules[0],
        { algorithm: 'token-bucket', ...defaults, ...rule },
        text,
      );
      assert.equal(new Limiter(limiter.rules).policy, limiter.policy);
    }
  });

  test('several: a text, texts, rules, or both', () => {
    const policy = new Limiter('5/s burst 20; fixed-window: 1000/day').policy;
    const bucket = { capacity: 20, tokens: 5, period: 1000 };
    const day = { algorithm: 'fixed-window', limit: 1000, period: 24 * HOUR };
    for (const given of [
      ['5/s burst 20', 'fixed-window: 1000/day'],
      [bucket, day],
      [bucket, 'fixed-window: 1000/day'],
      ['5/s burst 20', day],
    ]) {
      assert.equal(new Limiter(given).policy, policy);
    }
  });

  test('unlimited', () => {
    assert.deepEqual(new Limiter('unlimited').rules, [{ algorithm: 'unlimited' }]);
  });

  test('the rules of a limiter are copies', () => {
    const limiter = new Limiter('5/s');
    limiter.rules[0].capacity = 9;
    limiter.rules.pop();
    assert.deepEqual(limiter.rules.length && limiter.rules[0].capacity, 5);
  });

  test('what is wrong is told', () => {
    const window = { algorithm: 'fixed-window', limit: 1, period: 1 };
    for (const wrong of [
      { ...window, algorithm: 'leaky' },
      { ...window, algorithm: 'unlimited' },
      { ...window, algorithm: null },
      { ...window, capacity: 1 },
      { ...window, limit: '1' },
      { ...window, period: undefined },
      { ...window, period: '1' },
      { algorithm: 'concurrency', limit: 1 },
      { algorithm: 'concurrency', limit: 1, ttl: 1, period: 1 },
      { algorithm: 'calendar', limit: 1, unit: 'hour' },
      { algorithm: 'calendar', limit: 1, unit: 4 },
      { algorithm: 'calendar', limit: 1, unit: 'day', zone: 2 },
      [5],
      [null],
      [['5/s']],
    ]) {
      assert.throws(() => new Limiter(wrong), TypeError, JSON.stringify(wrong));
    }
    const missing = { name: 'TypeError', message: /^algorithm is missing.*fixed-window/ };
    assert.throws(() => new Limiter({ limit: 5 }), missing);
    assert.throws(() => new Limiter([{ limit: 5, period: 1000 }]), missing);
    for (const wrong of [
      { ...window, limit: 0.5 },
      { ...window, period: NaN },
      { ...window, period: 0.0001 },
      { ...window, algorithm: 'sliding-log', limit: 2 ** 53 },
      { capacity: 1, tokens: 1, period: 1, queue: -0.5 },
    ]) {
      assert.throws(() => new Limiter(wrong), RangeError, JSON.stringify(wrong));
    }
    for (const wrong of [
      { ...window, limit: -1 },
      { ...window, period: 0 },
      { ...window, algorithm: 'sliding-window', limit: 2 ** 32 },
      { algorithm: 'concurrency', limit: 65_536, ttl: 1 },
      { algorithm: 'calendar', limit: 1, unit: 'day', anchorDay: 2 },
      { algorithm: 'calendar', limit: 1, unit: 'month', anchorDay: 32 },
      { algorithm: 'calendar', limit: 1, unit: 'day', zone: 'Mars/Olympus' },
      ['1/s', '2/s'],
      ['1/s', 'unlimited'],
    ]) {
      const isRight = (error) => error instanceof SaqiyaError && error.code === 'bad_policy';
      assert.throws(() => new Limiter(wrong), isRight, JSON.stringify(wrong));
    }
    const nine = Array.from({ length: 9 }, (_, i) => ({ ...window, period: i + 1 }));
    for (const wrong of [[], nine]) assert.throws(() => new Limiter(wrong), { code: 'invalid' });
    assert.throws(() => new Limiter(['1/s', '5/x']), { code: 'bad_policy', position: 7 });
    assert.throws(() => new Limiter([window, '5/x']), { code: 'bad_policy', position: 2 });
  });
});

describe('several rules', () => {
  test('a decision tells which rule bound, and what each said', () => {
    const { clock, limiter } = fixture();
    const both = limiter('5/s burst 2; sliding-log: 3/h');
    const first = both.checkSync('k');
    assert.deepEqual([first.rule, first.item, first.limit, first.remaining], [0, 0, 2, 1]);
    const told = ({ rules }) => rules.map(({ outcome, remaining }) => [outcome, remaining]);
    assert.deepEqual(told(first), [
      ['allowed', 1],
      ['allowed', 2],
    ]);
    assert.deepEqual(
      first.rules.map(({ rule, limit }) => [rule, limit]),
      [
        [0, 2],
        [1, 3],
      ],
    );
    assert.equal(first.rules[0], first.rules[0]);
    both.checkSync('k');
    const third = both.checkSync('k');
    assert.deepEqual([third.outcome, third.rule, third.retryAfter], ['denied', 0, 200]);
    assert.deepEqual(told(third), [
      ['denied', 0],
      ['allowed', 1],
    ]);
    clock.advance(1000);
    assert.equal(both.checkSync('k').allowed, true);
    const fifth = both.checkSync('k');
    assert.deepEqual([fifth.outcome, fifth.rule, fifth.limit], ['denied', 1, 3]);
    assert.equal(fifth.retryAfter, HOUR - 1000);
    assert.deepEqual(
      both.checkSync('k', 3).rules.map(({ outcome }) => outcome),
      ['never', 'denied'],
    );
  });

  test('a decision of one rule is its own only part', () => {
    const { limiter } = fixture();
    for (const policy of ['5/s', 'sliding-log: 5/s', 'concurrency: 5 ttl 1s', 'unlimited']) {
      const decision = limiter(policy).checkSync('k');
      assert.deepEqual([decision.rules.length, decision.items.length], [1, 1]);
      assert.ok(decision.rules[0] === decision && decision.items[0] === decision);
    }
  });

  test('refused by one is charged to none; refund, reset and settle are of all', () => {
    const { limiter } = fixture();
    const both = limiter('fixed-window: 10/h; sliding-log: 4/h');
    const decision = both.checkSync('k', 3);
    assert.equal(both.checkSync('k', 3).outcome, 'denied');
    const used = () => both.peekSync('k', 0).rules.map(({ limit, remaining }) => limit - remaining);
    assert.deepEqual(used(), [3, 3]);
    assert.equal(both.settleSync('k', decision, 1).outcome, 'allowed');
    assert.deepEqual(used(), [1, 1]);
    assert.equal(both.settleSync('k', decision, 0).outcome, 'denied');
    const second = both.checkSync('k', 2);
    assert.equal(both.refundSync('k', second).outcome, 'allowed');
    assert.equal(both.refundSync('k', second).outcome, 'denied');
    assert.deepEqual(used(), [1, 1]);
    both.resetSync('k');
    assert.deepEqual(used(), [0, 0]);
  });

  test('a decision of a limiter with another number of rules is refused', async () => {
    const { limiter } = fixture();
    const [one, two] = [limiter('5/h'), limiter('5/h; 9/d')];
    const decision = two.checkSync('k');
    assert.throws(() => one.refundSync('k', decision), TypeError);
    await assert.rejects(one.settle('k', decision, 1), TypeError);
    assert.throws(() => two.refundSync('k', decision.rules[0]), TypeError);
    assert.equal(two.refundSync('k', decision).outcome, 'allowed');
  });
});

describe('settle', () => {
  for (const policy of ['1/h burst 10', 'fixed-window: 10/h', 'sliding-window: 10/h']) {
    settles(policy);
  }
  for (const policy of ['sliding-log: 10/h', 'calendar: 10/day', 'concurrency: 10 ttl 1h']) {
    settles(policy);
  }

  function settles(policy) {
    test(`${policy}: down, up, above the limit, once`, async () => {
      const { limiter } = fixture();
      const limited = limiter(policy);
      assert.equal(limited.settleSync('k', limited.checkSync('k', 5), 2).outcome, 'allowed');
      assert.equal(spent(limited), 2);
      const up = limited.checkSync('k', 3);
      assert.equal((await limited.settle('k', up, 6)).outcome, 'allowed');
      assert.equal(spent(limited), 8);
      assert.equal((await limited.settle('k', up, 0)).outcome, 'denied');
      assert.equal((await limited.refund('k', up)).outcome, 'denied');
      const above = limited.checkSync('k', 1);
      assert.equal((await limited.settle('k', above, 9)).remaining, 0);
      assert.equal(limited.checkSync('k').outcome, 'denied');
    });
  }

  test('costs are whole numbers, and decisions are needed', async () => {
    const { limiter } = fixture();
    const limited = limiter('1/h burst 10');
    const decision = limited.checkSync('k', 5);
    for (const cost of [-1, 0.5, NaN, 2 ** 53]) {
      assert.throws(() => limited.settleSync('k', decision, cost), RangeError);
    }
    await assert.rejects(limited.settle('k', decision, '1'), TypeError);
    await assert.rejects(limited.settle('k', decision), TypeError);
    assert.throws(() => limited.settleSync('k', {}, 1), TypeError);
    assert.equal(limited.settleSync('k', decision, 4).remaining, 6);
  });
});

test('checkManySync decides in order', () => {
  const { limiter } = fixture();
  const limited = limiter('1/h burst 2; fixed-window: 9/h');
  const outcomes = limited.checkManySync(['a', 'a', 'b', 'a']).map(({ outcome }) => outcome);
  assert.deepEqual(outcomes, ['allowed', 'allowed', 'allowed', 'denied']);
  assert.throws(() => limited.checkManySync('abc'), TypeError);
});

test('a queue lets in with a delay, up to its length; reserve with timeout 0 does not queue', () => {
  const { limiter } = fixture();
  const leaky = limiter('leaky-bucket: 10/s queue 2');
  const delays = [0, 1, 2].map(() => leaky.checkSync('k').delay);
  assert.deepEqual(delays, [0, 100, 200]);
  const full = leaky.checkSync('k');
  assert.deepEqual([full.outcome, full.retryAfter], ['denied', 100]);
  assert.equal(leaky.reserveSync('k', { timeout: 0 }).retryAfter, 300);
  assert.equal(leaky.reserveSync('k', { timeout: 60_000 }).retryAfter, 100);
});

test('the calendar of a customer in Cairo: a new month at midnight there', () => {
  const { clock, limiter } = fixture();
  const quota = limiter('calendar: 2/month tz Africa/Cairo');
  quota.checkSync('k', 2);
  const midnight = Date.UTC(2026, 10, 30, 22); // 1 December, 00:00 at UTC+2
  assert.equal(quota.checkSync('k').retryAfter, midnight - START);
  clock.set(midnight - 0.001);
  assert.equal(quota.checkSync('k').outcome, 'denied');
  clock.set(midnight);
  assert.equal(quota.checkSync('k', 2).outcome, 'allowed');
});

test('fixed windows let twice the limit pass around an edge, sliding ones do not', () => {
  const { clock, limiter } = fixture();
  const limiters = ['fixed-window: 10/min', 'sliding-window: 10/min', 'sliding-log: 10/min'].map(
    limiter,
  );
  const count = () =>
    limiters.map(
      (one) => one.checkManySync(new Array(10).fill('k')).filter((d) => d.allowed).length,
    );
  clock.set(START + 59_999);
  assert.deepEqual(count(), [10, 10, 10]);
  clock.set(START + 60_000);
  assert.deepEqual(count(), [10, 0, 0]);
});

// Cases about time, with the manual clock.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Limiter, ManualClock, SaqiyaError, Store } from './support/saqiya.mjs';

function fixture(policy, now = 1_000_000) {
  const clock = new ManualClock(now);
  const store = new Store('memory://', { clock });
  return { clock, store, limiter: new Limiter(policy, { store }) };
}

function countAllowed(limiter, tries, cost = 1) {
  let allowed = 0;
  for (let i = 0; i < tries; i++) if (limiter.checkSync('k', cost).allowed) allowed++;
  return allowed;
}

test('the manual clock: milliseconds and exact microseconds', () => {
  const clock = new ManualClock(1.5);
  assert.equal(clock.nowMicroseconds(), 1500);
  clock.advance(0.001);
  assert.equal(clock.nowMicroseconds(), 1501);
  clock.setMicroseconds(2 ** 52);
  clock.advanceMicroseconds(-1);
  assert.equal(clock.nowMicroseconds(), 2 ** 52 - 1);
  clock.set(7);
  clock.setWall(9);
  assert.deepEqual([clock.now(), clock.wall()], [7, 9]);
  assert.throws(() => clock.setMicroseconds(2 ** 52 + 1), RangeError);
  assert.throws(() => clock.advance(-8), RangeError);
  assert.throws(() => clock.setMicroseconds(0.5), RangeError);
  assert.throws(() => clock.set('1'), TypeError);
  assert.throws(() => new ManualClock(-1), RangeError);
  assert.throws(() => clock.advance(NaN), RangeError);
});

test('C3: refunds after the refill give nothing', () => {
  const { clock, limiter } = fixture('10/s');
  clock.advance(900);
  const decisions = Array.from({ length: 10 }, () => limiter.checkSync('k'));
  clock.advance(1600);
  for (const decision of decisions) assert.equal(limiter.refundSync('k', decision).allowed, false);
  assert.equal(countAllowed(limiter, 20), 10);
});

test('C7: cost above the capacity is never, at once', async () => {
  const { limiter } = fixture('3/s');
  const { outcome, retryAfter, remaining } = await limiter.acquire('k', { cost: 4 });
  assert.deepEqual([outcome, retryAfter, remaining], ['never', Infinity, 3]);
});

test('C11: retryAfter is the first moment at which the same request passes', () => {
  const { clock, limiter } = fixture('7/min burst 5');
  for (const cost of [1, 2, 3, 5]) {
    limiter.resetSync('k');
    limiter.checkSync('k', 4);
    limiter.checkSync('k', 1);
    const { retryAfter } = limiter.checkSync('k', cost);
    const us = Math.round(retryAfter * 1000);
    clock.advanceMicroseconds(us - 1);
    assert.equal(limiter.checkSync('k', cost).allowed, false);
    clock.advanceMicroseconds(1);
    assert.equal(limiter.checkSync('k', cost).allowed, true);
  }
});

test('C15: nothing is lost between polls', () => {
  const { clock, limiter } = fixture('1/s');
  limiter.checkSync('k');
  let allowed = 0;
  for (let i = 0; i < 10_000; i++) {
    clock.advance(1);
    if (limiter.checkSync('k').allowed) allowed++;
  }
  assert.equal(allowed, 10);
});

test('C20: odd limits and periods are decided or refused', () => {
  const defined = (rule) => {
    try {
      return new Limiter(rule).checkSync('k').outcome;
    } catch (error) {
      const isDefined = error instanceof RangeError || error instanceof SaqiyaError;
      assert.ok(isDefined, `${JSON.stringify(rule)}: ${error}`);
      return 'error';
    }
  };
  const capacities = { 0: 'never', 1: 'allowed', [2 ** 31]: 'allowed', [2 ** 53]: 'error' };
  for (const [capacity, expected] of Object.entries(capacities)) {
    const rule = { capacity: Number(capacity), tokens: 1000, period: 1 };
    assert.equal(defined(rule), expected, capacity);
  }
  for (const capacity of [-1, NaN, Infinity, 0.5]) {
    assert.equal(defined({ capacity, tokens: 1, period: 1000 }), 'error');
  }
  const periods = { 0: 'error', 0.000001: 'error', 500: 'allowed', 600001: 'allowed' };
  Object.assign(periods, { '-1': 'error', NaN: 'error', Infinity: 'error', 0.001: 'allowed' });
  for (const [period, expected] of Object.entries(periods)) {
    assert.equal(defined({ capacity: 1, tokens: 1, period: Number(period) }), expected, period);
  }
});

test('C21: 0 refuses everything, unlimited nothing, without a store', () => {
  const { limiter: none } = fixture('0/s');
  assert.equal(none.checkSync('k').outcome, 'never');
  const { limiter: unlimited, store } = fixture('unlimited');
  const decision = unlimited.checkSync('k', Number.MAX_SAFE_INTEGER);
  assert.equal(decision.outcome, 'allowed');
  assert.equal(decision.limit, Number.MAX_SAFE_INTEGER);
  assert.equal(decision.remaining, Number.MAX_SAFE_INTEGER);
  assert.equal(store.stats().keys, 0);
});

test('C22: periods are exact', () => {
  const periods = { s: 1e3, minute: 6e4, hour: 36e5, day: 864e5, week: 6048e5, '90 s': 9e4 };
  Object.assign(periods, { '1.5 h': 54e5, '600.001 s': 600001, '3ms': 3, '7us': 0.007 });
  for (const [text, period] of Object.entries(periods)) {
    const { policy } = new Limiter({ capacity: 1, tokens: 1, period });
    assert.equal(new Limiter(`1/${text}`).policy, policy, text);
    const { clock, limiter } = fixture({ capacity: 1, tokens: 1, period }, 0);
    limiter.checkSync('k');
    assert.equal(limiter.checkSync('k').retryAfter, period);
    clock.advance(period);
    assert.equal(limiter.checkSync('k').allowed, true, text);
  }
});

test('C23: a clock that goes back gives no tokens', () => {
  const { clock, limiter } = fixture('1/s burst 5');
  let admitted = 0;
  for (let i = 0; i < 360; i++) {
    admitted += countAllowed(limiter, 20);
    clock.advance(i % 2 === 0 ? 11_000 : -11_000);
  }
  assert.ok(admitted <= 5 + 11, `${admitted}`);

  clock.advance(-400_000);
  const { retryAfter } = limiter.checkSync('k', 5);
  assert.ok(retryAfter <= 400_000 + 11_000 + 5000, `${retryAfter}`);
  clock.advance(retryAfter);
  assert.equal(countAllowed(limiter, 20), 5);
});

test('C23: the wall clock does not matter to buckets', () => {
  const { clock, limiter } = fixture('1/s burst 5');
  assert.equal(countAllowed(limiter, 20), 5);
  clock.setWall(9e9);
  assert.equal(countAllowed(limiter, 20), 0);
});

test('an idle bucket refills at its rate, not at once', () => {
  const { clock, limiter } = fixture('1/h burst 10');
  assert.equal(countAllowed(limiter, 20), 10);
  assert.equal(limiter.peekSync('k').resetAfter, 10 * 3_600_000);
  clock.advance(2 * 3_600_000);
  assert.equal(countAllowed(limiter, 20), 2);
});

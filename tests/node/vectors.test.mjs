// The shared vectors on the memory store. On Redis: redis_vectors.test.mjs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Limiter, ManualClock, SaqiyaError, Store } from './support/saqiya.mjs';
import { makeDriver, ruleOf } from './support/driver.mjs';
import { TRACES, play, playCrowd, read, traces } from './support/vectors.mjs';

function memoryDriver() {
  const clock = new ManualClock();
  return makeDriver({ clock, store: new Store('memory://', { clock }), suffix: 'Sync' });
}

for (const name of [...TRACES, 'long']) {
  test(`${name}.json`, async () => {
    const all = traces(name);
    assert.ok(all.length > 0);
    for (const trace of all) await play(trace, memoryDriver());
  });
}

for (const scenario of read('users').scenarios) {
  test(`users.json: ${scenario.name}`, async () => {
    assert.deepEqual(await playCrowd(scenario, memoryDriver()), scenario.expect);
  });
}

const policies = read('policies');
const rule = ({ given: [capacity, tokens, us] }) => ({ capacity, tokens, period: us / 1000 });

test('policies.json: accepted texts have their canonical form, which is stable', () => {
  for (const { text, canonical } of [...policies.accepted, ...policies.unlimited]) {
    const { policy } = new Limiter(text);
    if (canonical !== undefined) assert.equal(policy, canonical, text);
    assert.equal(new Limiter(policy).policy, policy, text);
  }
});

test('policies.json: refused texts name the position and the fault', () => {
  for (const { text, offset, mentions } of policies.refused) {
    if (text.includes('\0')) {
      assert.throws(() => new Limiter(text), TypeError);
      continue;
    }
    const isRight = (error) => {
      assert.ok(error instanceof SaqiyaError, text);
      assert.equal(error.code, 'bad_policy', text);
      assert.equal(error.position, offset, text);
      for (const word of mentions ?? []) {
        assert.ok(error.message.toLowerCase().includes(word.toLowerCase()), error.message);
      }
      return true;
    };
    assert.throws(() => new Limiter(text), isRight, text);
  }
});

test('policies.json: rules as numbers', () => {
  for (const item of policies.numbers_accepted) {
    const { capacity, tokens, period } = rule(item);
    const limiter = new Limiter({ capacity, tokens, period });
    const decision = limiter.checkSync('k', 0);
    assert.equal(decision.limit, item.capacity);
  }
  for (const item of policies.numbers_refused) {
    const isRight = (error) => error instanceof RangeError || error.code === 'bad_policy';
    assert.throws(() => new Limiter(rule(item)), isRight, JSON.stringify(item));
  }
});

test('policies.json: rules of every algorithm, which come back as they were given', () => {
  for (const { given, canonical } of policies.given_accepted) {
    const limiter = new Limiter(given.map(ruleOf));
    assert.equal(limiter.policy, canonical);
    assert.equal(new Limiter(limiter.rules).policy, canonical);
  }
  for (const { given, mentions } of policies.given_refused) {
    const isRight = (error) => {
      assert.ok([TypeError, RangeError, SaqiyaError].includes(error.constructor), error);
      // RangeErrors are about what is no whole number to JavaScript.
      for (const word of error instanceof RangeError ? [] : mentions) {
        assert.ok(error.message.includes(word), `${error.message}: ${word}`);
      }
      return true;
    };
    assert.throws(() => new Limiter(given.map(ruleOf)), isRight, JSON.stringify(given));
  }
});

test('policies.json: the rules of a text', () => {
  for (const { text, rules } of policies.accepted) {
    const limiter = new Limiter(text);
    assert.equal(limiter.rules.length, rules.length, text);
    const limits = limiter.rules.map((rule) => [rule.algorithm, rule.capacity ?? rule.limit]);
    const expected = rules.map((rule) => [rule.algorithm, rule.capacity ?? rule.limit]);
    assert.deepEqual(limits, expected, text);
    // Milliseconds are exact up to 2^50 us, the longest period of a reduced rate.
    if (rules.some((rule) => rule.period_us > 2 ** 50)) continue;
    assert.equal(new Limiter(limiter.rules).policy, limiter.policy, text);
  }
});

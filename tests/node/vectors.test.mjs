// The shared vectors on the memory store. On Redis: redis_vectors.test.mjs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Limiter, ManualClock, SaqiyaError, Store } from './support/saqiya.mjs';
import { play, playCrowd, read, traces } from './support/vectors.mjs';

function memoryDriver() {
  const clock = new ManualClock();
  const store = new Store('memory://', { clock });
  let limiter;
  return {
    setNow: (us) => clock.setMicroseconds(us),
    setRule: (rule) => (limiter = new Limiter(rule.text, { store, name: 'trace' })),
    check: (key, cost, wait) =>
      wait === 0
        ? limiter.checkSync(key, cost)
        : limiter.reserveSync(key, { cost, timeout: wait / 1000 }),
    peek: (key, cost) => limiter.peekSync(key, cost),
    refund: (key, decision) => limiter.refundSync(key, decision),
    reset: (key) => limiter.resetSync(key),
  };
}

for (const name of ['token_bucket', 'random', 'long']) {
  test(`${name}.json`, async () => {
    const all = traces(name);
    assert.ok(all.length > 0);
    for (const trace of all) await play(trace, memoryDriver());
  });
}

for (const scenario of read('users').scenarios) {
  test(`users.json: ${scenario.name}`, async () => {
    const { setNow, setRule, check } = memoryDriver();
    setRule(scenario.rule);
    const checkNow = (key, cost) => check(key, cost, 0);
    assert.deepEqual(await playCrowd(scenario, { setNow, check: checkNow }), scenario.expect);
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

// Plays the shared vectors (tests/vectors/README.md). A driver answers check, peek, refund and reset
// with decisions, at once or by promises.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const OPS = ['check', 'peek', 'refund', 'reset', 'rule'];
const OUTCOMES = ['none', 'allowed', 'denied', 'never'];
const MODULUS = 2 ** 31 - 1;
const FACTOR = 48271;

export function read(name) {
  return JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), 'utf8'));
}

export function traces(name) {
  const data = read(name);
  return data.kind === 'random' ? [expand(data)] : data.traces;
}

function expand({ rules, keys, events }) {
  let limit = rules[0].capacity;
  const steps = events.map(([now, code, ...rest]) => {
    const op = OPS[code];
    if (op === 'rule') {
      const rule = rules[rest[0]];
      limit = rule.capacity;
      return { now, op, rule };
    }
    const [key, cost, max_wait_us, ticket, outcome, ...numbers] = rest;
    const [remaining, retry_after_us, reset_after_us, delay_us] = numbers;
    const expect = { outcome: OUTCOMES[outcome], limit, remaining };
    Object.assign(expect, { retry_after_us, reset_after_us, delay_us });
    return { now, op, key: keys[key], cost, max_wait_us, ticket, expect };
  });
  return { name: 'random', rule: rules[0], steps };
}

const micros = (ms) => Math.round(ms * 1000);

export function comparable(decision) {
  return {
    outcome: decision.outcome,
    limit: decision.limit,
    remaining: decision.remaining,
    retry_after_us: decision.outcome === 'never' ? null : micros(decision.retryAfter),
    reset_after_us: micros(decision.resetAfter),
    delay_us: micros(decision.delay),
  };
}

// driver: setNow(us), setRule(rule), check(key, cost, maxWaitUs), peek(key, cost),
// refund(key, decision), reset(key)
export async function play(trace, driver) {
  const decisions = [];
  driver.setRule(trace.rule);
  for (const [index, step] of trace.steps.entries()) {
    const {
      op,
      key = 'k',
      cost = 1,
      max_wait_us: wait = 0,
      repeat = 1,
      every_us: every = 0,
    } = step;
    if (op === 'rule') {
      driver.setNow(step.now);
      driver.setRule(step.rule);
      continue;
    }
    let decision;
    let allowed = 0;
    for (let i = 0; i < repeat; i++) {
      driver.setNow(step.now + i * every);
      if (op === 'check') decision = driver.check(key, cost, wait);
      else if (op === 'peek') decision = driver.peek(key, cost);
      else if (op === 'reset') decision = driver.reset(key);
      else decision = driver.refund(key, decisions[step.ticket]);
      if (decision instanceof Promise) decision = await decision;
      if (decision.allowed) allowed++;
    }
    decisions[index] = decision;
    const where = `${trace.name}, step ${index}: ${JSON.stringify(step)}`;
    assert.deepEqual(comparable(decision), step.expect, where);
    if (step.expect_allowed !== undefined) assert.equal(allowed, step.expect_allowed, where);
  }
}

function lehmer(seed) {
  let x = seed;
  return () => (x = (x * FACTOR) % MODULUS);
}

// Plays a crowd of users.json; check(key, cost) answers at `now`, which setNow has set.
export async function playCrowd(scenario, { setNow, check }) {
  const { users, requests_per_user: each, seed, start_us, gap_us, max_cost } = scenario;
  const draw = lehmer(seed);
  const arrivals = Array.from({ length: users * each }, (_, i) => Math.floor(i / each));
  for (let i = arrivals.length - 1; i > 0; i--) {
    const j = draw() % (i + 1);
    [arrivals[i], arrivals[j]] = [arrivals[j], arrivals[i]];
  }
  const admitted = new Array(users).fill(0);
  let now = start_us;
  let checksum = 1;
  for (const user of arrivals) {
    now += draw() % gap_us;
    setNow(now);
    let decision = check(`user${user}`, 1 + (draw() % max_cost));
    if (decision instanceof Promise) decision = await decision;
    if (decision.allowed) admitted[user]++;
    const value = decision.allowed ? decision.remaining + 1 : micros(decision.retryAfter);
    checksum = (checksum * FACTOR + value) % MODULUS;
  }
  return {
    admitted: admitted.reduce((sum, n) => sum + n, 0),
    checksum,
    admitted_by_user: admitted,
  };
}

// Plays the shared vectors (tests/vectors/README.md) on a driver (driver.mjs).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const OPS = ['check', 'peek', 'refund', 'reset', 'rule'];
const STEP_OPS = [...OPS, 'settle', 'renew', 'check_all', 'peek_all', 'refund_all'];
const OUTCOMES = ['none', 'allowed', 'denied', 'never'];
const MODULUS = 2 ** 31 - 1;
const FACTOR = 48271;

// The files of traces that run everywhere. long.json is for stores in the process.
export const TRACES = [
  'token_bucket',
  'leaky_bucket',
  'fixed_window',
  'sliding_window',
  'sliding_log',
  'calendar',
  'concurrency',
  'settle',
  'groups',
  'changed_limits',
  'random',
  'random_steps',
];

export function read(name) {
  return JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), 'utf8'));
}

// { name, limiters, steps }, whatever the kind of file.
export function traces(name) {
  const data = read(name);
  if (data.kind === 'random') return [expand(data)];
  if (data.kind === 'random_steps') return [expandSteps(data)];
  return data.traces.map(({ rule, limiters = [rule], ...trace }) => ({ ...trace, limiters }));
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
  return { name: 'random', limiters: [rules[0]], steps };
}

function expandSteps({ limiters, keys, events }) {
  const steps = events.map(([now, code, ...rest]) => {
    const op = STEP_OPS[code];
    if (op === 'rule') {
      const [limiter, version] = rest;
      return { now, op, limiter, rule: limiters[limiter][version] };
    }
    const [asked, max_wait_us, ticket, outcome, ...numbers] = rest;
    const [limit, remaining, retry_after_us, reset_after_us, delay_us, rule, item] = numbers;
    const items = asked.map(([limiter, key, cost]) => ({ limiter, key: keys[key], cost }));
    const expect = { outcome: OUTCOMES[outcome], limit, remaining, retry_after_us };
    Object.assign(expect, { reset_after_us, delay_us, rule, item });
    return { ...items[0], now, op, items, max_wait_us, ticket, expect };
  });
  return { name: 'random-steps', limiters: limiters.map(([first]) => first), steps };
}

const micros = (ms) => Math.round(ms * 1000);

const numbers = (decision) => ({
  outcome: decision.outcome,
  limit: decision.limit,
  remaining: decision.remaining,
  retry_after_us: decision.outcome === 'never' ? null : micros(decision.retryAfter),
  reset_after_us: micros(decision.resetAfter),
  delay_us: micros(decision.delay),
});

// As much of the decision as is expected.
export function comparable(decision, expect) {
  const found = numbers(decision);
  if (expect.rule !== undefined) Object.assign(found, { rule: decision.rule, item: decision.item });
  if (expect.each !== undefined) found.each = decision.rules.map(numbers);
  return found;
}

function perform(driver, step, ticket) {
  const { op, limiter = 0, key = 'k', cost = 1, max_wait_us: wait = 0, items } = step;
  switch (op) {
    case 'check':
      return driver.check(limiter, key, cost, wait);
    case 'peek':
      return driver.peek(limiter, key, cost);
    case 'refund':
      return driver.refund(limiter, key, ticket);
    case 'settle':
      return driver.settle(limiter, key, ticket, cost);
    case 'renew':
      return driver.renew(limiter, key, ticket);
    case 'reset':
      return driver.reset(limiter, key);
    case 'check_all':
      return driver.checkAll(items, wait);
    case 'peek_all':
      return driver.peekAll(items);
    case 'refund_all':
      return driver.refundAll(items, ticket);
    default:
      throw new Error(`unknown operation ${op}`);
  }
}

export async function play(trace, driver) {
  const decisions = [];
  trace.limiters.forEach((policy, i) => driver.setPolicy(i, policy));
  for (const [index, step] of trace.steps.entries()) {
    const { op, repeat = 1, every_us: every = 0 } = step;
    if (op === 'rule') {
      driver.setNow(step.now);
      driver.setPolicy(step.limiter ?? 0, step.rule);
      continue;
    }
    let ticket = decisions[step.ticket];
    if (step.item !== undefined) ticket = ticket.items[step.item];
    let decision;
    let allowed = 0;
    for (let i = 0; i < repeat; i++) {
      driver.setNow(step.now + i * every);
      decision = perform(driver, step, ticket);
      if (decision instanceof Promise) decision = await decision;
      if (decision.allowed) allowed++;
    }
    decisions[index] = decision;
    const where = `${trace.name}, step ${index}: ${JSON.stringify(step)}`;
    assert.deepEqual(comparable(decision, step.expect), step.expect, where);
    if (step.expect_allowed !== undefined) assert.equal(allowed, step.expect_allowed, where);
  }
}

function lehmer(seed) {
  let x = seed;
  return () => (x = (x * FACTOR) % MODULUS);
}

// Plays a crowd of users.json.
export async function playCrowd(scenario, driver) {
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
  driver.setPolicy(0, scenario.rule);
  for (const user of arrivals) {
    now += draw() % gap_us;
    driver.setNow(now);
    let decision = driver.check(0, `user${user}`, 1 + (draw() % max_cost), 0);
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

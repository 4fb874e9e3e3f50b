// What the vectors are played on: limiters by index, on a store with a manual clock.
import * as saqiya from './saqiya.mjs';

const { Limiter } = saqiya;

// A rule of the vectors, with microseconds, as the package takes it.
export function ruleOf({ period_us, ttl_us, anchor, ...rule }) {
  if (period_us !== undefined) rule.period = period_us / 1000;
  if (ttl_us !== undefined) rule.ttl = ttl_us / 1000;
  if (anchor !== undefined) rule.anchorDay = anchor;
  return rule;
}

// suffix: 'Sync' calls the synchronous forms. Limiters are named by what name(index) gives. Every other
// limiter is made from rules, the rest from text; both must come to the same.
export function makeDriver({ store, clock, suffix = '', name = (i) => `limiter-${i}` }) {
  const limiters = [];
  const made = new Map(); // by text and index: making one over and over is slow
  let count = 0;

  function create(i, { text, rules }) {
    const policy = rules?.length > 0 && count++ % 2 === 1 ? rules.map(ruleOf) : text;
    return new Limiter(policy, { store, name: name(i) });
  }
  const call = (i, method, ...rest) => limiters[i][method + suffix](...rest);
  const all = (method, ...rest) => saqiya[method + suffix](...rest);
  const items = (asked) => asked.map((item) => ({ ...item, limiter: limiters[item.limiter] }));
  // A wait of -1 is a timeout of 0: not even in a rule's own queue.
  const timeout = (waitUs) => Math.max(waitUs, 0) / 1000;

  return {
    setNow: (us) => clock.setMicroseconds(us),
    setPolicy(i, policy) {
      const known = `${i} ${policy.text}`;
      if (!made.has(known)) made.set(known, create(i, policy));
      limiters[i] = made.get(known);
    },
    check: (i, key, cost, waitUs) =>
      waitUs === 0
        ? call(i, 'check', key, cost)
        : call(i, 'reserve', key, { cost, timeout: timeout(waitUs) }),
    peek: (i, key, cost) => call(i, 'peek', key, cost),
    refund: (i, key, decision) => call(i, 'refund', key, decision),
    settle: (i, key, decision, cost) => call(i, 'settle', key, decision, cost),
    renew: (i, key, decision) => call(i, 'renew', key, decision),
    reset: (i, key) => call(i, 'reset', key),
    checkAll: (asked, waitUs) =>
      waitUs === 0
        ? all('checkAll', items(asked))
        : all('reserveAll', items(asked), { timeout: timeout(waitUs) }),
    peekAll: (asked) => all('peekAll', items(asked)),
    refundAll: (asked, decision) => all('refundAll', items(asked), decision),
  };
}

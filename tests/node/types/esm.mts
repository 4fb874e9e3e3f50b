// Compiled, not run: the types as an ES module sees them.
import express from 'express';
import saqiya, {
  Decision,
  Limiter,
  ManualClock,
  SaqiyaError,
  Store,
} from '../../../node/lib/index.mjs';
import {
  Lease,
  acquireAll,
  checkAll,
  checkAllSync,
  peekAll,
  refundAll,
  reserveAll,
} from '../../../node/lib/index.mjs';
import type { ErrorCode, Item, Outcome, Policy, Reason, Rule } from '../../../node/lib/index.mjs';
import type { Source, StoreEvent } from '../../../node/lib/index.mjs';
import { rateLimit } from '../../../node/lib/express.mjs';

const clock = new ManualClock(1000);
const store = new Store('redis://127.0.0.1', { clock, deadline: 50, testing: true });
const limiter = new Limiter({ capacity: 20, tokens: 5, period: 1000 }, { store, name: 'login' });
const other: Limiter = new saqiya.Limiter('5/s burst 20', { store: 'memory://' });

const decision: Decision = await limiter.check('user:42', 3);
const outcome: Outcome = decision.outcome;
const reason: Reason | null = decision.reason;
const wait: number = decision.retryAfter + decision.resetAfter + decision.delay;
const many: Decision[] = await limiter.checkMany(['a', new Uint8Array(2)], 1);
await limiter.acquire('k', { cost: 2, timeout: 100, signal: AbortSignal.timeout(5) });
await limiter.refund('k', decision);
await limiter.reset('k');
await limiter.close();
if (other.checkSync(Buffer.from('k')).allowed) console.log(outcome, reason, wait, many.length);
console.log(other.policy, other.store.stats().keys, JSON.stringify(decision.toJSON()));

try {
  new Limiter('5/x');
} catch (error) {
  if (error instanceof SaqiyaError) {
    const code: ErrorCode = error.code;
    const position: number | undefined = error.position;
    console.log(code, position);
  }
}

const rules: Rule[] = [
  { capacity: 1, tokens: 10, period: 1000, queue: 50 },
  { algorithm: 'fixed-window', limit: 100, period: 60_000 },
  { algorithm: 'sliding-window', limit: 100, period: 60_000 },
  { algorithm: 'sliding-log', limit: 5, period: 900_000 },
  { algorithm: 'calendar', limit: 9, unit: 'month', zone: 'Africa/Cairo', anchorDay: 15 },
  { algorithm: 'concurrency', limit: 20, ttl: 30_000 },
];
const policies: Policy[] = ['5/s; 1000/day', rules, ['5/s', rules[1]!], rules[0]!];
for (const policy of policies) new Limiter(policy, { store });
for (const rule of limiter.rules) {
  if (rule.algorithm === 'concurrency') console.log(rule.ttl);
  if (rule.algorithm === 'calendar') console.log(rule.unit, rule.zone);
}
const jobs = new Limiter({ algorithm: 'concurrency', limit: 2, ttl: 1000 });
const text: string = await jobs.hold('k', async (lease) => lease.decision.outcome);
await jobs.hold('k', { timeout: 5, renew: false }, ({ signal }) => signal.throwIfAborted());
{
  await using lease: Lease = await jobs.hold('k', { cost: 1 });
  console.log(text, lease.signal.aborted, (await lease.renew()).allowed);
}
await jobs.renew('k', decision);
await jobs.release('k', decision);
await limiter.settle('k', decision, 5);
const items: Item[] = [
  { limiter, key: 'k' },
  { limiter: jobs, key: 'k', cost: 2 },
];
const all = await checkAll(items);
console.log(all.items[all.item]!.rules[all.rule]!.remaining, (await peekAll(items)).rule);
await reserveAll(items, { timeout: 5 });
await acquireAll(items, { timeout: 5, signal: AbortSignal.timeout(5) });
await refundAll(items, checkAllSync(items));

// @ts-expect-error a log has a period
const noPeriod: Rule = { algorithm: 'sliding-log', limit: 5 };
// @ts-expect-error a window has no tokens
const noTokens: Rule = { algorithm: 'fixed-window', limit: 5, period: 5, tokens: 5 };
// @ts-expect-error hours are no calendar's unit
const noHours: Rule = { algorithm: 'calendar', limit: 5, unit: 'hour' };
// @ts-expect-error the true cost is needed
await limiter.settle('k', decision);
// @ts-expect-error an item has a limiter
await checkAll([{ key: 'k' }]);
console.log(noPeriod, noTokens, noHours);

// @ts-expect-error a key is a string or bytes
other.checkSync(42);
// @ts-expect-error a cost is a number
other.checkSync('k', '3');
// @ts-expect-error decisions are made by limiters
new Decision();
// @ts-expect-error decisions are read-only
decision.remaining = 3;
// @ts-expect-error no such option
new Limiter('5/s', { stores: store });

const app = express();
app.use(
  rateLimit({
    limit: '5/s',
    burst: 20,
    key: (req: express.Request) => req.ip ?? '',
    cost: async () => 2,
    skip: (req) => req.url === '/health',
    fields: 'draft',
    handler: (req, res, next, refused) => {
      if (refused.outcome === 'unavailable') next();
      else res.status(429).end();
    },
  }),
);
app.get('/', rateLimit({ limit: limiter }), (req, res) => {
  res.json({ remaining: req.rateLimit?.remaining });
});
app.use(rateLimit({ limit: (req: express.Request) => (req.ip ? '5/s' : null) }));
app.use(rateLimit({ limit: async () => ['5/s', '9/d'], name: 'plan' }));
app.use(
  rateLimit({
    limits: [
      { limit: '5/s' },
      { limit: limiter, key: (req: express.Request) => req.path, cost: 2 },
    ],
    store,
  }),
);
// @ts-expect-error limit is required
rateLimit({});
// @ts-expect-error one or several
rateLimit({ limit: '5/s', limits: [] });
// @ts-expect-error layers have no store of their own
rateLimit({ limits: [{ limit: '5/s', store }] });

// What a limiter does while its store does not answer, and what the store tells of it.
const guarded = new Limiter('5/s', { store, failure: 'local', share: 0.25, denyCache: false });
new Limiter('5/s', { store, fallback: { capacity: 1, tokens: 1, period: 1000 } });
const source: Source = (await guarded.check('k')).source;
guarded.store.on('outage', ({ server, reason, message }: StoreEvent) => {
  console.log(source, server, reason, message);
});
store.once('recovered', ({ durationMs, decisions, suppressed, at }) => {
  console.log(durationMs + decisions + suppressed, new Date(at));
});
const { degraded, outages, localAllowed, opened, latency } = store.stats();
console.log(degraded + outages + localAllowed + opened + latency[0]!);
const middleware = rateLimit({
  limits: [{ limit: '5/s', failure: 'closed' }, { limit: async () => '9/d' }],
  failure: 'local',
  share: 0.5,
});
app.use(middleware);
middleware.store.off('refused', console.log);
// @ts-expect-error no such failure policy
new Limiter('5/s', { failure: 'retry' });
// @ts-expect-error no such event
store.on('error', console.log);
// @ts-expect-error a share is a number
rateLimit({ limit: '5/s', share: '1/4' });

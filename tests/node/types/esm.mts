// Compiled, not run: the types as an ES module sees them.
import express from 'express';
import saqiya, {
  Decision,
  Limiter,
  ManualClock,
  SaqiyaError,
  Store,
} from '../../../node/lib/index.mjs';
import type { ErrorCode, Outcome, Reason } from '../../../node/lib/index.mjs';
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
// @ts-expect-error limit is required
rateLimit({});

// ns of CPU per check in the process, 10,000 keys of 20 bytes.
// in_process.mjs saqiya|saqiya-async|flexible|express allowed|denied
//
// The peers have promises only, so a caller awaits; saqiya's checkSync has nothing to await.
// Creating the keys is not measured: every key has been seen before.
import { MemoryStore } from 'express-rate-limit';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { numbered, print, saqiya, walk } from './common.mjs';

const KEYS = 10_000;
const WARM_UP = 300_000;
const CHECKS = 1_000_000;
const PLENTY = 1_000_000_000;
const HOUR = 3600;

const [who, regime] = process.argv.slice(2);
const denied = regime === 'denied';
const limit = denied ? 1 : PLENTY;
const keys = numbered('user:', 15, KEYS);
const next = walk(KEYS);
let refusals = 0;

const variants = {
  saqiya() {
    const limiter = new saqiya.Limiter(denied ? '1/h' : `5/s burst ${PLENTY}`);
    return async (count) => {
      for (let i = 0; i < count; i++) if (!limiter.checkSync(keys[next()]).allowed) refusals++;
    };
  },
  'saqiya-async'() {
    const limiter = new saqiya.Limiter(denied ? '1/h' : `5/s burst ${PLENTY}`);
    return async (count) => {
      for (let i = 0; i < count; i++) if (!(await limiter.check(keys[next()])).allowed) refusals++;
    };
  },
  flexible() {
    const limiter = new RateLimiterMemory({ points: limit, duration: HOUR });
    return async (count) => {
      for (let i = 0; i < count; i++) {
        try {
          await limiter.consume(keys[next()]);
        } catch {
          refusals++;
        }
      }
    };
  },
  express() {
    const store = new MemoryStore();
    store.init({ windowMs: HOUR * 1000 });
    return async (count) => {
      for (let i = 0; i < count; i++) {
        if ((await store.increment(keys[next()])).totalHits > limit) refusals++;
      }
    };
  },
};

const run = variants[who]();
await run(WARM_UP);
refusals = 0;
const before = process.cpuUsage();
await run(CHECKS);
const { user, system } = process.cpuUsage(before);
print({ ns: ((user + system) * 1000) / CHECKS, refused: refusals / CHECKS });
process.exit(0); // the peer keeps a timer per key

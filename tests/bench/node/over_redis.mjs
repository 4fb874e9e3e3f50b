// Checks per second and latency over Redis: 1,000 users, N callers that each await their answer
// and ask again.
// over_redis.mjs saqiya|eval|evalsha port allowed|limited in-flight seconds
import { Redis } from 'ioredis';
import { classicScript, numbered, print, saqiya, walk } from './common.mjs';

const USERS = 1_000;
const WARM_UP_MS = 500;
const RATE = 5; // per second
const CAPACITY = { allowed: 1_000_000_000, limited: 10 };

const [who, port, regime, inFlight, seconds] = process.argv.slice(2);
const capacity = CAPACITY[regime];
const users = numbered('user', 6, USERS);
const next = walk(USERS);

function saqiyaVariant() {
  const store = new saqiya.Store(`redis://127.0.0.1:${port}`, { deadline: 2000 });
  const limiter = new saqiya.Limiter(`${RATE}/s burst ${capacity}`, {
    store,
    name: 'api',
    denyCache: false,
  });
  return {
    async check(user) {
      const decision = await limiter.check(user);
      if (decision.reason !== null) throw new Error(`unavailable: ${decision.reason}`);
      return decision.allowed;
    },
    close: () => store.close(),
  };
}

function classicVariant(byDigest) {
  const redis = new Redis(Number(port), '127.0.0.1');
  redis.defineCommand('take', { numberOfKeys: 1, lua: classicScript });
  const take = byDigest
    ? (...args) => redis.take(...args)
    : (...args) => redis.eval(classicScript, 1, ...args);
  return {
    async check(user) {
      const [allowed] = await take(`rl:${user}`, capacity, RATE, Date.now() / 1000, 1);
      return allowed === 1;
    },
    close: () => redis.quit(),
  };
}

const variants = {
  saqiya: saqiyaVariant,
  eval: () => classicVariant(false),
  evalsha: () => classicVariant(true),
};
const { check, close } = variants[who]();

const latencies = new Float64Array(8_000_000); // ms
let count = 0;
let allowed = 0;

async function caller(end) {
  let now = performance.now();
  while (now < end) {
    if (await check(users[next()])) allowed++;
    const then = now;
    now = performance.now();
    latencies[count++] = now - then;
  }
}

async function run(ms) {
  count = allowed = 0;
  const cpu = process.cpuUsage();
  const start = performance.now();
  await Promise.all(Array.from({ length: Number(inFlight) }, () => caller(start + ms)));
  const { user, system } = process.cpuUsage(cpu);
  return { elapsed: performance.now() - start, cpu: user + system };
}

await run(WARM_UP_MS);
const { elapsed, cpu } = await run(seconds * 1000);
const sorted = latencies.subarray(0, count).sort();
print({
  rate: (count / elapsed) * 1000,
  p50_us: sorted[Math.floor(count * 0.5)] * 1000,
  p99_us: sorted[Math.floor(count * 0.99)] * 1000,
  cpu_us: cpu / count,
  refused: 1 - allowed / count,
});
await close();

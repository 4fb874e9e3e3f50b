// Runs in a worker thread: loads the package and uses both kinds of store until it is ended.
import { parentPort, workerData } from 'node:worker_threads';
import { Limiter, checkAll } from './saqiya.mjs';

const { url, rounds } = workerData;
const local = new Limiter('1/h burst 5');
const remote = new Limiter('1000000/s', { store: url, name: 'workers', deadline: 30_000 });

let allowed = 0;
for (let i = 0; i < 20; i++) if (local.checkSync('k').allowed) allowed++;
parentPort.postMessage({ allowed });

// Several rules, leases and items: the queue writes to bytes of JavaScript's.
const options = { store: remote.store, deadline: 30_000 };
const several = new Limiter('1000000/s; fixed-window: 1000000000/d', {
  ...options,
  name: 'several',
});
const leases = new Limiter('concurrency: 60000 ttl 1s', { ...options, name: 'leases' });
const items = [remote, several, leases].map((limiter) => ({ limiter, key: 'k' }));

for (let i = 0; i < rounds; i++) {
  const decisions = await Promise.all([
    remote.checkMany(new Array(50).fill('k')),
    several.checkMany(new Array(20).fill('k')),
    ...Array.from({ length: 10 }, () => checkAll(items)),
  ]).then((all) => all.flat());
  if (decisions.some((decision) => decision.outcome === 'unavailable')) throw new Error('lost');
}
parentPort.postMessage({ done: true });

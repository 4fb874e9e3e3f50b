// Runs in a worker thread: loads the package and uses both kinds of store until it is ended.
import { parentPort, workerData } from 'node:worker_threads';
import { Limiter, checkAll } from './saqiya.mjs';

// mayFail: the store is away at times.
const { url, rounds, mayFail = false } = workerData;
const local = new Limiter('1/h burst 5');
const remote = new Limiter('1000000/s', { store: url, name: 'workers', deadline: 30_000 });
remote.store.on('outage', ({ reason }) => parentPort.postMessage({ outage: reason }));
remote.store.on('recovered', ({ decisions }) => parentPort.postMessage({ recovered: decisions }));

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
  const lost = decisions.filter(({ reason }) => reason !== null);
  if (lost.length !== 0 && !mayFail) throw new Error(`lost: ${lost[0].reason}`);
  if (lost.length !== 0) await new Promise((resolve) => setTimeout(resolve, 1));
}
parentPort.postMessage({ done: true });

// Runs in a worker thread: loads the package and uses both kinds of store until it is ended.
import { parentPort, workerData } from 'node:worker_threads';
import { Limiter } from './saqiya.mjs';

const { url, rounds } = workerData;
const local = new Limiter('1/h burst 5');
const remote = new Limiter('1000000/s', { store: url, name: 'workers', deadline: 30_000 });

let allowed = 0;
for (let i = 0; i < 20; i++) if (local.checkSync('k').allowed) allowed++;
parentPort.postMessage({ allowed });

for (let i = 0; i < rounds; i++) {
  const decisions = await remote.checkMany(new Array(50).fill('k'));
  if (decisions.some((decision) => decision.outcome === 'unavailable')) throw new Error('lost');
}
parentPort.postMessage({ done: true });

// Latency of 64 callers' checks while their Redis goes away and comes back, deadline 100 ms.
// outage.mjs saqiya|ioredis killed|frozen
//
// dying: the half second that begins when it goes; away: the two seconds after that; back: from the
// first check that Redis decided again (if none did: from its return) until a second after its return.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { classicScript, numbered, print, saqiya, walk } from './common.mjs';

const CALLERS = 64;
const DEADLINE = 100; // ms
const [DYING, AWAY, BACK] = [500, 2000, 1000]; // ms
const users = numbered('user', 6, 1000);
const next = walk(users.length);

const [who, how] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'saqiya-bench-'));

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

async function start(port) {
  const args = ['--port', port, '--bind', '127.0.0.1', '--dir', folder, '--save', ''];
  const server = spawn('redis-server', args.map(String), { stdio: 'ignore' });
  for (;;) {
    const socket = connect(port, '127.0.0.1');
    const [event] = await Promise.race([
      once(socket, 'connect').then(() => ['connect']),
      once(socket, 'error').then(() => ['error']),
    ]).catch(() => ['error']);
    socket.destroy();
    if (event === 'connect') return server;
    await sleep(2);
  }
}

// Each gives a function (user) => whether Redis decided.
const variants = {
  saqiya(port) {
    const store = new saqiya.Store(`redis://127.0.0.1:${port}`, { deadline: DEADLINE });
    const limiter = new saqiya.Limiter('1000/s', { store, name: 'api' });
    return async (user) => (await limiter.check(user)).reason === null;
  },
  ioredis(port) {
    const redis = new Redis({
      port,
      host: '127.0.0.1',
      commandTimeout: DEADLINE,
      connectTimeout: DEADLINE,
      maxRetriesPerRequest: 0,
    });
    redis.on('error', () => {});
    redis.defineCommand('take', { numberOfKeys: 1, lua: classicScript });
    return (user) =>
      redis.take(`rl:${user}`, 1000, 1000, Date.now() / 1000, 1).then(
        () => true,
        () => false,
      );
  },
};

const seen = []; // [begin, ms, whether Redis decided]
let running = true;

async function caller(check) {
  while (running) {
    const begin = performance.now();
    const decided = await check(users[next()]);
    seen.push([begin, performance.now() - begin, decided]);
    await sleep(5);
  }
}

function p99(from, to) {
  const found = seen.filter(([begin]) => from <= begin && begin < to).map(([, ms]) => ms);
  found.sort((a, b) => a - b);
  return found[Math.floor(found.length * 0.99)] * 1000;
}

const port = await freePort();
let server = await start(port);
const check = variants[who](port);
const callers = Array.from({ length: CALLERS }, () => caller(check));
await sleep(500);
const gone = performance.now();
server.kill(how === 'killed' ? 'SIGKILL' : 'SIGSTOP');
await sleep(DYING + AWAY);
if (how === 'killed') server = await start(port);
else server.kill('SIGCONT');
const returned = performance.now();
await sleep(BACK);
running = false;
await Promise.all(callers);
server.kill('SIGKILL');
rmSync(folder, { recursive: true, force: true });

const first = seen.find(([begin, , decided]) => decided && begin > returned)?.[0];
const during = seen.filter(([begin]) => gone - 1000 < begin && begin < returned);
print({
  dying_us: p99(gone, gone + DYING),
  longest_us: during.reduce((longest, [, ms]) => Math.max(longest, ms), 0) * 1000,
  away_us: p99(gone + DYING, gone + DYING + AWAY),
  back_us: p99(first ?? returned, returned + BACK),
  return_ms: first === undefined ? undefined : first - returned, // left out when none did
});
process.exit();

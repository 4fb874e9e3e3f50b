// us of CPU that a limiter adds to a request of Express 5, in one process and without a network:
// requests on a socket that discards what is written. A server under load swings by more than what
// is measured here, so the variants run in short blocks, all of them in a random order in each turn,
// and of each variant's blocks the one counts that a tenth of them beat: what the request costs when
// nobody disturbs it.
// express.mjs seconds
import { IncomingMessage, ServerResponse } from 'node:http';
import { Duplex } from 'node:stream';
import { createRequire } from 'node:module';
import express from 'express';
import { rateLimit as peerRateLimit } from 'express-rate-limit';
import { print } from './common.mjs';

const { rateLimit } = createRequire(import.meta.url)('../../../node/lib/express.js');

const BLOCK = 50; // requests
const WARM_UP_BLOCKS = 150; // of each variant
const PLENTY = 1_000_000_000;
const seconds = Number(process.argv[2]);

class Socket extends Duplex {
  remoteAddress = '192.0.2.17';
  written = '';
  keep = false;

  _read() {}
  _write(chunk, _encoding, done) {
    if (this.keep) this.written += chunk;
    done();
  }
}

function peer(options) {
  const windowMs = 3_600_000;
  return peerRateLimit({ windowMs, limit: PLENTY, validate: true, ...options });
}

const middlewares = {
  bare: undefined,
  nothing: (_req, _res, next) => next(),
  saqiya: rateLimit({ limit: '5/s', burst: PLENTY }),
  'saqiya, no fields': rateLimit({ limit: '5/s', burst: PLENTY, fields: 'none' }),
  'express-rate-limit': peer({ standardHeaders: 'draft-8', legacyHeaders: true }),
  'express-rate-limit, no fields': peer({ standardHeaders: false, legacyHeaders: false }),
};

function application(middleware) {
  const app = express();
  if (middleware !== undefined) app.use(middleware);
  app.get('/', (_req, res) => res.send('hello'));
  return app;
}

const apps = Object.entries(middlewares).map(([name, middleware]) => ({
  name,
  app: application(middleware),
  cpu: [], // us per request, of each block
}));

const socket = new Socket();

function request(app) {
  return new Promise((resolve) => {
    const req = new IncomingMessage(socket);
    req.method = 'GET';
    req.url = '/';
    req.headers.host = 'localhost';
    req.httpVersion = '1.1';
    req.httpVersionMajor = req.httpVersionMinor = 1;
    const res = new ServerResponse(req);
    res.assignSocket(socket);
    res.on('finish', () => {
      res.detachSocket(socket);
      resolve();
    });
    app(req, res);
  });
}

async function block(app) {
  const before = process.cpuUsage();
  for (let i = 0; i < BLOCK; i++) await request(app);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / BLOCK;
}

function shuffle(list) {
  for (let i = list.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [list[i], list[j]] = [list[j], list[i]];
  }
}

function quiet(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 10)];
}

// The header lines of one answer, to show that the variants do what they should.
async function fields(app) {
  socket.keep = true;
  socket.written = '';
  await request(app);
  socket.keep = false;
  return socket.written.match(/^[^:\r\n]*rate-?limit[^:\r\n]*:.*$/gim) ?? [];
}

for (let i = 0; i < WARM_UP_BLOCKS; i++) for (const { app } of apps) await block(app);
const end = performance.now() + seconds * 1000;
while (performance.now() < end) {
  shuffle(apps);
  for (const entry of apps) entry.cpu.push(await block(entry.app));
}
const result = {};
for (const { name, app, cpu } of apps) {
  result[name] = { us: quiet(cpu), blocks: cpu.length, fields: await fields(app) };
}
print(result);
process.exit(0); // the peer keeps a timer

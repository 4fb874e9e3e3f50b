// A private redis-server on a free port and a Unix socket.
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// Below the ports that the kernel gives to clients, so that a server which is killed can come back to
// its port; at random, so that tests side by side hardly ever take the same.
export async function freePort() {
  for (;;) {
    const probe = createServer();
    const port = randomInt(10_240, 32_768);
    const listening = once(probe.listen(port, '127.0.0.1'), 'listening');
    const taken = await listening.catch((error) => {
      if (error.code !== 'EADDRINUSE') throw error;
      return null;
    });
    if (taken === null) continue;
    probe.close();
    await once(probe, 'close');
    return port;
  }
}

export class RedisServer {
  // more: arguments of redis-server.
  static async start(port, more = []) {
    const server = new RedisServer();
    server.port = port ?? (await freePort());
    server.folder = await mkdtemp(join(tmpdir(), 'saqiya-node-'));
    server.socketPath = join(server.folder, 'redis.sock');
    const args = ['--port', server.port, '--bind', '127.0.0.1', '--unixsocket', server.socketPath];
    args.push('--dir', server.folder, '--save', '', '--appendonly', 'no', ...more);
    server.process = spawn('redis-server', args.map(String), { stdio: 'ignore' });
    server.exited = once(server.process, 'exit');
    await server.#ready();
    return server;
  }

  get url() {
    return `redis://127.0.0.1:${this.port}`;
  }

  get unixUrl() {
    return `unix://${this.socketPath}`;
  }

  // One command of words without blanks; resolves to the reply's raw text.
  async command(...words) {
    const socket = connect(this.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.end(`${words.join(' ')}\r\nQUIT\r\n`);
    let reply = '';
    for await (const data of socket) reply += data;
    return reply;
  }

  // ':12\r\n' as 12
  async number(...words) {
    return parseInt((await this.command(...words)).slice(1), 10);
  }

  // Every command that reaches the server while run() runs, as MONITOR tells it, but for those of
  // scripts and for its own.
  async monitor(run) {
    const socket = connect(this.port, '127.0.0.1');
    let text = '';
    socket.setEncoding('utf8').on('data', (data) => (text += data));
    const seen = async (what) => {
      while (!text.includes(what)) await new Promise((resolve) => setTimeout(resolve, 2));
    };
    socket.write('MONITOR\r\n');
    await seen('+OK');
    await run();
    await this.command('ECHO', 'end-of-monitor');
    await seen('end-of-monitor');
    socket.destroy();
    const lines = text.split('\r\n').filter((line) => /^\+\d/.test(line));
    return lines.filter((line) => !/ lua\] |end-of-monitor|"QUIT"/.test(line));
  }

  async kill() {
    this.process.kill('SIGKILL');
    await this.exited;
  }

  async stop() {
    await this.kill();
    await rm(this.folder, { recursive: true, force: true });
  }

  async #ready() {
    const end = Date.now() + 30_000;
    while (this.process.exitCode === null && Date.now() < end) {
      const reply = await this.command('PING').catch(() => '');
      if (reply.startsWith('+PONG')) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    throw new Error('redis-server did not start');
  }
}

// Accepts connections and never answers; goes with the test.
export async function silentServer(t) {
  const sockets = new Set();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.resume();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `redis://127.0.0.1:${server.address().port}`, connections: sockets };
}

// Redis as it is run in earnest: behind TLS, watched by a sentinel, and as a cluster.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { RedisServer, freePort } from './redis.mjs';
import { until } from './until.mjs';

const run = promisify(execFile);
const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

async function folder(t) {
  const path = await mkdtemp(join(tmpdir(), 'saqiya-node-'));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

// A server that speaks TLS only to who has a certificate of its authority: its port, and the files
// of the authority and of a client.
export async function tlsServer(t) {
  const at = await folder(t);
  const file = (name) => join(at, name);
  const [ca, caKey] = [file('ca.crt'), file('ca.key')];
  const subject = (name) => ['-subj', `/CN=${name}`];
  const pair = (name) => ['-keyout', file(`${name}.key`), '-out', file(`${name}.crt`)];
  await run('openssl', [
    'req',
    '-x509',
    ...NEW_KEY,
    '-days',
    '2',
    ...subject('test'),
    ...pair('ca'),
  ]);
  await writeFile(file('names'), 'subjectAltName=DNS:localhost,IP:127.0.0.1\n');
  for (const name of ['server', 'client']) {
    const request = file(`${name}.csr`);
    const out = ['-keyout', file(`${name}.key`), '-out', request];
    await run('openssl', ['req', '-new', ...NEW_KEY, ...subject(name), ...out]);
    const signer = ['-CA', ca, '-CAkey', caKey, '-CAcreateserial', '-extfile', file('names')];
    const made = ['-days', '2', '-out', file(`${name}.crt`)];
    await run('openssl', ['x509', '-req', '-in', request, ...signer, ...made]);
  }
  const port = await freePort();
  const tls = ['--tls-port', port, '--tls-ca-cert-file', ca];
  tls.push('--tls-cert-file', file('server.crt'), '--tls-key-file', file('server.key'));
  const server = await RedisServer.start(undefined, tls);
  t.after(() => server.stop());
  return { server, port, ca, cert: file('client.crt'), key: file('client.key') };
}

async function ask(port, ...words) {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.end(`${words.join(' ')}\r\nQUIT\r\n`);
  let reply = '';
  for await (const data of socket) reply += data;
  return reply;
}

// A master called 'main', its replica, and one sentinel that is enough to promote the replica.
export async function sentinel(t) {
  const master = await RedisServer.start();
  const replica = await RedisServer.start(undefined, ['--replicaof', `127.0.0.1 ${master.port}`]);
  const port = await freePort();
  const at = await folder(t);
  const path = join(at, 'sentinel.conf');
  const lines = [`port ${port}`, 'bind 127.0.0.1', `dir ${at}`];
  lines.push(`sentinel monitor main 127.0.0.1 ${master.port} 1`);
  lines.push('sentinel down-after-milliseconds main 300', 'sentinel failover-timeout main 3000');
  await writeFile(path, `${lines.join('\n')}\n`);
  const process = spawn('redis-server', [path, '--sentinel'], { stdio: 'ignore' });
  const exited = once(process, 'exit');
  t.after(async () => {
    process.kill('SIGKILL');
    await exited;
    await Promise.all([master.stop(), replica.stop()]);
  });
  const knows = async () => {
    const replicas = await ask(port, 'SENTINEL', 'REPLICAS', 'main').catch(() => '');
    return /master-link-status\r\n\$2\r\nok/.test(replicas);
  };
  // It looks around as often as tests are impatient; ms.
  await until(async () => (await ask(port, 'PING').catch(() => '')).startsWith('+PONG'));
  const periods = ['INFO-PERIOD', '100', 'PING-PERIOD', '100'];
  await ask(port, 'SENTINEL', 'DEBUG', ...periods);
  await until(knows, 'the sentinel does not know the replica');
  return { master, replica, url: `redis+sentinel://127.0.0.1:${port}/main` };
}

// Three masters without replicas.
export async function cluster(t) {
  const on = ['--cluster-enabled', 'yes', '--cluster-require-full-coverage', 'no'];
  const nodes = await Promise.all([1, 2, 3].map(() => clusterNode(on)));
  t.after(() => Promise.all(nodes.map((node) => node.stop())));
  const edges = [0, 5461, 10923, 16384];
  for (const [i, node] of nodes.entries()) {
    await node.command('CLUSTER', 'ADDSLOTSRANGE', edges[i], edges[i + 1] - 1);
    await node.command('CLUSTER', 'MEET', '127.0.0.1', nodes[0].port, nodes[0].busPort);
  }
  const isComplete = async (node) => {
    const [info, slots] = [
      await node.command('CLUSTER', 'INFO'),
      await node.command('CLUSTER', 'SLOTS'),
    ];
    return info.includes('cluster_state:ok') && slots.startsWith('*3');
  };
  for (const node of nodes) await until(() => isComplete(node), 'the cluster is not complete');
  return { nodes, url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join()}` };
}

async function clusterNode(on) {
  const busPort = await freePort();
  const node = await RedisServer.start(undefined, [...on, '--cluster-port', busPort]);
  return Object.assign(node, { busPort });
}

// examples/login_express.mjs as it stands, in a process of its own: failures per address and per user
// in one decision, given back when the login succeeds.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { RedisServer } from './support/redis.mjs';
import { client } from './support/http.mjs';
import { requireDev } from './support/saqiya.mjs';

const example = fileURLToPath(new URL('../../examples/login_express.mjs', import.meta.url));
const children = [];
let folder;
let redis;

before(async () => {
  redis = await RedisServer.start();
  folder = await mkdtemp(join(tmpdir(), 'saqiya-login-'));
  await mkdir(join(folder, 'node_modules'));
  for (const name of ['saqiya', 'express']) {
    const path = name === 'saqiya' ? './package.json' : 'express/package.json';
    await symlink(dirname(requireDev.resolve(path)), join(folder, 'node_modules', name));
  }
  await cp(example, join(folder, 'app.mjs'));
});

after(async () => {
  for (const child of children) child.kill('SIGKILL');
  await redis.stop();
  await rm(folder, { recursive: true });
});

async function start(url) {
  const env = { ...process.env, PORT: '0', REDIS_URL: url };
  if (url === undefined) delete env.REDIS_URL;
  const child = spawn(process.execPath, ['app.mjs'], { cwd: folder, env });
  children.push(child);
  child.stderr.pipe(process.stderr);
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data');
  const get = client(/http:\/\/[\d.:]+/.exec(line)[0]);
  return (user, password, type = 'application/json') =>
    get('/login', {
      method: 'POST',
      headers: { 'content-type': type },
      body: JSON.stringify({ user, password }),
    });
}

const RIGHT = ['amina', 'correct horse'];
const several = async (login, count, ...who) => {
  const found = [];
  for (let i = 0; i < count; i++) found.push((await login(...who)).status);
  return found;
};

for (const kind of ['memory', 'redis']) {
  test(`${kind}: failures count, successes do not`, async () => {
    const login = await start(kind === 'redis' ? redis.url : undefined);
    assert.deepEqual(await several(login, 12, ...RIGHT), new Array(12).fill(200));
    assert.deepEqual(await several(login, 4, 'amina', 'guess'), new Array(4).fill(401));
    assert.deepEqual(await several(login, 3, ...RIGHT), [200, 200, 200]);
    assert.deepEqual(await several(login, 3, 'amina', 'guess'), [401, 429, 429]);
    // The right password does not get past the limit of failures; others do.
    const refused = await login(...RIGHT);
    assert.equal(refused.status, 429);
    const wait = Number(refused.headers.get('retry-after'));
    assert.ok(wait > 800 && wait <= 900, `${wait}`);
    // The refused tries were charged to nobody: 5 failures of the address are left.
    assert.deepEqual(await several(login, 4, 'basma', 'guess'), new Array(4).fill(401));
    assert.deepEqual(await several(login, 3, 'chadi', 'guess'), [401, 429, 429]);
  });
}

test('C102: 50 parallel guesses are 5 at most, on two processes', async () => {
  await redis.command('FLUSHALL');
  const [one, two] = [await start(redis.url), await start(redis.url)];
  const guess = (i) => (i % 2 ? one : two)('amina', `guess ${i}`);
  const answers = await Promise.all(Array.from({ length: 50 }, (_, i) => guess(i)));
  assert.equal(answers.filter(({ status }) => status === 401).length, 5);
  assert.equal(answers.filter(({ status }) => status === 429).length, 45);
});

test('user names that are none are refused, odd ones are like any other', async () => {
  const login = await start();
  for (const user of [undefined, null, 5, {}, ['amina'], 'a'.repeat(257), 'a'.repeat(90_000)]) {
    assert.equal((await login(user, 'guess')).status, 400);
  }
  assert.equal((await login('amina', 'guess', 'text/plain')).status, 400);
  for (const user of ['', 'a'.repeat(256), '\ud800', '\u0000']) {
    assert.equal((await login(user, 'guess')).status, 401);
  }
});

test('the store away: 503 with Retry-After', async () => {
  const login = await start('redis://127.0.0.1:1');
  for (let i = 0; i < 8; i++) {
    const { status, headers } = await login(...RIGHT);
    const wait = Number(headers.get('retry-after'));
    assert.ok(status === 503 && wait >= 1 && wait <= 5, `${status} ${wait}`);
  }
});

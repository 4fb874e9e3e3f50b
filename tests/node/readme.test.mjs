// The JavaScript blocks of README.md run as they stand; only the addresses are the test's.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { RedisServer } from './support/redis.mjs';
import { requireDev } from './support/saqiya.mjs';

const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
const blocks = [...readme.matchAll(/^```js\n(.*?)^```$/gms)].map(([, text]) => text);
let folder;
let redis;

before(async () => {
  redis = await RedisServer.start();
  folder = await mkdtemp(join(tmpdir(), 'saqiya-readme-'));
  await mkdir(join(folder, 'node_modules'));
  for (const name of ['saqiya', 'express']) {
    const path = name === 'saqiya' ? './package.json' : 'express/package.json';
    await symlink(dirname(requireDev.resolve(path)), join(folder, 'node_modules', name));
  }
});

after(async () => {
  await redis.stop();
  await rm(folder, { recursive: true });
});

// What a block, and a line that ends it, write to the standard output.
async function run(marker, line, change = (text) => text) {
  const [block, ...others] = blocks.filter((text) => text.includes(marker));
  assert.equal(others.length, 0);
  const text = change(block.replace('redis://localhost', redis.url));
  await writeFile(join(folder, 'block.mjs'), `${text}\n${line}\n`);
  const child = spawn(process.execPath, ['block.mjs'], { cwd: folder });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (data) => (output += data));
  child.stderr.pipe(process.stderr);
  const [code] = await once(child, 'close');
  assert.equal(code, 0);
  return output;
}

const end = 'process.exit(0);';

test('every block has its test', () => assert.equal(blocks.length, 3));

test('Express', async () => {
  const line = `
    const answer = await fetch('http://127.0.0.1:' + server.address().port);
    console.log(answer.status, await answer.text());
    ${end}`;
  const output = await run('saqiya/express', line, (text) => {
    assert.ok(text.includes('app.listen(3000);'));
    return text.replace('app.listen(3000);', 'const server = app.listen(0);');
  });
  assert.equal(output, '200 {"left":19}\n');
});

test('check', async () => {
  const line = `console.log(decision.outcome, decision.remaining); ${end}`;
  assert.equal(await run('100/minute burst 10', line), 'allowed 9\n');
});

test('acquire and hold', async () => {
  const line = `console.log(calls.policy, exports.peekSync('ann').remaining); ${end}`;
  assert.equal(await run('.hold(', line), '3\n10/s burst 1 queue 50 20\n');
});

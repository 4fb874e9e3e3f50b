// Finding the native part.
import assert from 'node:assert/strict';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { library } from './support/saqiya.mjs';
import { run } from './support/processes.mjs';

let folder;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'saqiya-loader-'));
  const lib = dirname(library);
  await cp(lib, join(folder, 'lib'), { recursive: true });
  await cp(join(lib, '..', 'package.json'), join(folder, 'package.json'));
});
after(() => rm(folder, { recursive: true }));

const load = () => `
  try {
    require(${JSON.stringify(join(folder, 'lib', 'index.js'))});
  } catch (error) {
    console.log(error.code);
    console.log(error.message);
  }
`;

test('without a platform package the error names it and what to do', async () => {
  const { stdout } = await run(load(), { bare: true, env: { SAQIYA_NATIVE_PATH: '' } });
  assert.match(stdout, /^ERR_SAQIYA_NATIVE\n/);
  assert.match(stdout, new RegExp(`@saqiya/${process.platform}-${process.arch}`));
  assert.match(stdout, /optional dependencies/i);
});

test('SAQIYA_NATIVE_PATH is the only place that is tried', async () => {
  const env = { SAQIYA_NATIVE_PATH: join(folder, 'missing.node') };
  const { stdout } = await run(load(), { bare: true, env });
  assert.match(stdout, /^ERR_SAQIYA_NATIVE\n/);
  assert.match(stdout, /missing\.node/);
  assert.doesNotMatch(stdout, /@saqiya/);
});

test('a native part of another version is not used', async () => {
  const other = join(folder, 'other.js');
  await writeFile(other, "exports.version = '0.0.9';");
  const env = { SAQIYA_NATIVE_PATH: other };
  const { stdout } = await run(load(), { bare: true, env });
  assert.match(stdout, /^ERR_SAQIYA_NATIVE\n/);
  assert.match(stdout, /other\.js: version 0\.0\.9 instead of \d/);
});

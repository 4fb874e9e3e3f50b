// node stage.mjs STAGE ADDON: lays out the two packages in STAGE/main and STAGE/platform.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [stage, addon] = process.argv.slice(2);
const source = JSON.parse(readFileSync('node/package.json', 'utf8'));
const libc = process.report.getReport().header.glibcVersionRuntime ? 'gnu' : 'musl';
const platform = `${process.platform}-${process.arch}-${libc}`;
const common = ['LICENSE', 'packaging/THIRD-PARTY.txt'];

function lay(name, manifest, files) {
  const folder = join(stage, name);
  mkdirSync(folder, { recursive: true });
  for (const [from, to] of files) cpSync(from, join(folder, to), { recursive: true });
  for (const file of common) cpSync(file, join(folder, file.split('/').pop()));
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest, null, 2) + '\n');
}

const { devDependencies: _dev, scripts: _scripts, ...main } = source;
main.optionalDependencies = { [`@saqiya/${platform}`]: source.version };
lay('main', main, [
  ['node/lib', 'lib'],
  ['README.md', 'README.md'],
]);

const native = {
  name: `@saqiya/${platform}`,
  version: source.version,
  description: `The native part of saqiya for ${platform}`,
  license: source.license,
  engines: source.engines,
  os: [process.platform],
  cpu: [process.arch],
  libc: [libc === 'gnu' ? 'glibc' : 'musl'],
  main: 'saqiya.node',
  files: ['saqiya.node', 'THIRD-PARTY.txt'],
};
lay('platform', native, [[addon, 'saqiya.node']]);

'use strict';
// Finds and loads the addon: SAQIYA_NATIVE_PATH, then a build of the source tree, then the platform's
// package.

const { existsSync } = require('node:fs');
const { join } = require('node:path');
const { version } = require('../package.json');

// Both C libraries are tried on Linux: some installers fetch both packages, and only the right one
// loads.
function platformPackages() {
  const base = `@saqiya/${process.platform}-${process.arch}`;
  return process.platform === 'linux' ? [`${base}-gnu`, `${base}-musl`] : [base];
}

function candidates() {
  if (process.env.SAQIYA_NATIVE_PATH) return [process.env.SAQIYA_NATIVE_PATH];
  const root = join(__dirname, '..', '..');
  const found = [];
  // CMakeLists.txt is not published, so this never looks outside of a source tree.
  if (existsSync(join(__dirname, '..', 'CMakeLists.txt'))) {
    for (const preset of ['dev', 'release', 'static']) {
      const path = join(root, 'build', preset, 'node', 'saqiya.node');
      if (existsSync(path)) found.push(path);
    }
  }
  return [...found, ...platformPackages()];
}

function load() {
  const failures = [];
  for (const candidate of candidates()) {
    try {
      const addon = require(candidate);
      if (addon.version === version) return addon;
      failures.push(`  ${candidate}: version ${addon.version} instead of ${version}`);
    } catch (error) {
      failures.push(`  ${candidate}: ${error.message.split('\n')[0]}`);
    }
  }
  const error = new Error(
    `saqiya: the native part for ${process.platform}-${process.arch} could not be loaded\n` +
      `${failures.join('\n')}\n` +
      'Optional dependencies must be installed. If a lock file was made on another platform, ' +
      'delete it together with node_modules and install again.',
  );
  error.code = 'ERR_SAQIYA_NATIVE';
  throw error;
}

module.exports = load();

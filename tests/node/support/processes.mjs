// Scripts in processes of their own.
import { spawn } from 'node:child_process';
import { library } from './saqiya.mjs';

// Runs CommonJS source in which `saqiya` is the package (bare: nothing is loaded); resolves to
// { code, signal, stdout, stderr }. A script that does not end is killed after a minute, which shows
// as a signal.
export function run(source, { bare = false, env = {}, execArgv = [] } = {}) {
  const load = bare ? '' : `const saqiya = require(${JSON.stringify(library)});\n`;
  const child = spawn(process.execPath, [...execArgv, '-e', load + source], {
    env: { ...process.env, ...env },
    timeout: 60_000,
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (data) => (stdout += data));
  child.stderr.on('data', (data) => (stderr += data));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }));
  });
}

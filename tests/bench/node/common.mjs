// What the workers share. A worker measures one variant once and prints one line of JSON.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

export const saqiya = createRequire(import.meta.url)('../../../node/lib/index.js');
export const classicScript = readFileSync(new URL('../lua/classic.lua', import.meta.url), 'utf8');

// A cheap walk over 0 ... count - 1 that looks random: the same in every variant.
export function walk(count) {
  let x = 1;
  return () => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return (x >>> 8) % count;
  };
}

export function numbered(prefix, digits, count) {
  return Array.from({ length: count }, (_, i) => prefix + String(i).padStart(digits, '0'));
}

export function print(result) {
  process.stdout.write(`${JSON.stringify(result)}\n`);
}

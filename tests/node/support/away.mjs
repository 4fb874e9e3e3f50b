// For tests of a Redis that is away: stores that are closed at the end, and no promise may have been
// rejected unheard.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { Store } from './saqiya.mjs';
import { freePort } from './redis.mjs';

const stores = [];
const unhandled = [];
const note = (reason) => unhandled.push(reason);
let away;

before(async () => {
  process.on('unhandledRejection', note);
  away = `redis://127.0.0.1:${await freePort()}`;
});

after(async () => {
  await Promise.all(stores.map((store) => store.close()));
  process.off('unhandledRejection', note);
  assert.deepEqual(unhandled, []);
});

// url: by default of a server that is not there.
export function open(url = away, options = {}) {
  const store = new Store(url, options);
  stores.push(store);
  return store;
}

export const urlOfNobody = () => away;

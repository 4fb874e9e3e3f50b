'use strict';

const native = require('./native.js');
const { clockHandle } = require('./clock.js');
const { closed } = require('./errors.js');
const { Queue } = require('./queue.js');
const { deadlineMicros, wholeMicros } = require('./units.js');

const FLAG_TESTING = 1;
const FLAG_HASH_SUBJECTS = 2;
const OPTIONS = new Set(
  'clock maxKeys deadline prefix secret hashSubjects connections testing'.split(' '),
);

function count(value, name, max) {
  if (value === undefined) return 0;
  if (wholeMicros(value, name) < 1 || value > max) {
    throw new RangeError(`${name} must be from 1 to ${max}`);
  }
  return value;
}

function checkNames(options, known, what) {
  if (options === null || typeof options !== 'object') {
    throw new TypeError(`${what} options must be an object`);
  }
  for (const name of Object.keys(options)) {
    if (!known.has(name)) throw new TypeError(`unknown ${what} option '${name}'`);
  }
}

let storeHandle;
let storeQueue;

class Store {
  #native;
  #queue;
  #closing;

  constructor(url = 'memory://', options = {}) {
    if (typeof url !== 'string') throw new TypeError('a store URL must be a string');
    checkNames(options, OPTIONS, 'store');
    const flags =
      (options.testing ? FLAG_TESTING : 0) | (options.hashSubjects ? FLAG_HASH_SUBJECTS : 0);
    this.#native = native.createStore(
      url,
      clockHandle(options.clock),
      flags,
      count(options.maxKeys, 'maxKeys', Number.MAX_SAFE_INTEGER),
      deadlineMicros(options.deadline),
      options.prefix,
      options.secret,
      count(options.connections, 'connections', 64),
    );
  }

  get isLocal() {
    return this.#native.isLocal;
  }

  stats() {
    return this.#native.stats();
  }

  close() {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close() {
    this.#queue?.close();
    this.#native.close();
  }

  // For this package alone.
  static {
    storeHandle = (store) => {
      if (store.#closing !== undefined) throw closed('store');
      return store.#native.handle;
    };
    storeQueue = (store) => (store.#queue ??= new Queue(storeHandle(store)));
  }
}

// Stores that were named by URL: one per URL, for as long as a limiter uses it.
const shared = new Map();

// Gives { store, release() }; what is passed in as a Store is not closed by release.
function openStore(store) {
  if (store instanceof Store) return { store, release: async () => {} };
  if (store === undefined) {
    const own = new Store();
    return { store: own, release: () => own.close() };
  }
  let entry = shared.get(store);
  if (entry === undefined) {
    entry = { store: new Store(store), users: 0 };
    shared.set(store, entry);
  }
  entry.users++;
  const release = async () => {
    if (--entry.users !== 0) return;
    if (shared.get(store) === entry) shared.delete(store);
    await entry.store.close();
  };
  return { store: entry.store, release };
}

module.exports = { Store, openStore, storeHandle, storeQueue, checkNames };

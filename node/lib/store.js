'use strict';

const { EventEmitter } = require('node:events');
const native = require('./native.js');
const { clockHandle } = require('./clock.js');
const { closed } = require('./errors.js');
const { toldOf } = require('./events.js');
const { Queue } = require('./queue.js');
const { checkNames, optionalBytes, optionalCount, optionalText } = require('./options.js');
const { deadlineMicros } = require('./units.js');

const FLAG_TESTING = 1;
const FLAG_HASH_SUBJECTS = 2;
const OPTIONS = new Set(
  'clock maxKeys deadline prefix secret hashSubjects connections testing'.split(' '),
);

let storeHandle;
let storeQueue;

class Store extends EventEmitter {
  #native;
  #queue;
  #closing;

  constructor(url = 'memory://', options = {}) {
    super();
    optionalText(url, 'a store URL');
    checkNames(options, OPTIONS, 'store');
    const flags =
      (options.testing ? FLAG_TESTING : 0) | (options.hashSubjects ? FLAG_HASH_SUBJECTS : 0);
    this.#native = native.createStore(
      url,
      clockHandle(options.clock),
      flags,
      optionalCount(options.maxKeys, 'maxKeys', Number.MAX_SAFE_INTEGER),
      deadlineMicros(options.deadline),
      optionalText(options.prefix, 'prefix'),
      optionalBytes(options.secret, 'secret'),
      optionalCount(options.connections, 'connections', 64),
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
    try {
      this.#queue?.close();
    } finally {
      this.#native.close();
    }
  }

  // Each event is told once, to whoever listens. What a listener throws goes to the caller, and what
  // was left is told the next time.
  #tell() {
    for (let told; (told = this.#native.nextEvent()) !== undefined;) {
      const { name, event } = toldOf(told);
      this.emit(name, event);
    }
  }

  #openQueue() {
    return new Queue(storeHandle(this), {
      hasEvent: this.#native.hasEvent,
      tell: () => this.#tell(),
    });
  }

  // For this package alone.
  static {
    storeHandle = (store) => {
      if (store.#closing !== undefined) throw closed('store');
      return store.#native.handle;
    };
    storeQueue = (store) => (store.#queue ??= store.#openQueue());
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

module.exports = { Store, openStore, storeHandle, storeQueue };

'use strict';
// What rateLimit limits by: one layer, or several that are decided together.

const { HttpAnswers } = require('./http.js');
const { Limiter } = require('./limiter.js');
const { optionalFunction } = require('./options.js');

// Policies that a function has named and whose limiters are kept. More than anyone has plans; a bound,
// in case that a policy is made for each request.
const MAX_PLANS = 1000;

// The peer's address, or the client's as Express tells it when the application trusts its proxies.
// An IPv4 client of a server that listens on IPv6, too, shows as ::ffff:1.2.3.4. It is 1.2.3.4, as
// other servers see it.
function clientAddress(req) {
  const isProxied = req.app?.settings?.['trust proxy'];
  const address = (isProxied ? req.ip : req.socket.remoteAddress) ?? '';
  return address.startsWith('::ffff:') ? address.slice(7) : address;
}

function checkCost(cost) {
  if (typeof cost !== 'number') throw new TypeError('cost must be a number or a function');
  if (!Number.isSafeInteger(cost) || cost < 0) {
    throw new RangeError('cost must be a whole number from 0 to 2^53 - 1');
  }
}

function makeLimiter({ limit, burst, store, name, deadline }) {
  if (limit instanceof Limiter) {
    if ([burst, store, name, deadline].some((option) => option !== undefined)) {
      throw new TypeError('burst, store, name and deadline belong to the limiter that was given');
    }
    return limit;
  }
  let policy = limit;
  if (burst !== undefined) {
    if (typeof limit !== 'string') throw new TypeError('burst goes with a limit given as text');
    if (!Number.isSafeInteger(burst)) throw new TypeError('burst must be a whole number');
    policy = `${limit} burst ${burst}`;
  }
  return new Limiter(policy, { store, name, deadline });
}

const isPromise = (value) =>
  typeof value === 'object' && value !== null && typeof value.then === 'function';

// What fn gives. An error is a promise's, so that a promise that was made beside it is not left alone.
function attempt(fn, req, res) {
  try {
    return fn(req, res);
  } catch (error) {
    return Promise.reject(error);
  }
}

class Layer {
  #limit; // a function of the request, or
  #answers; // of the only limiter
  #plans = new Map(); // policy text, or limiter => answers
  #key;
  #cost;
  #options;

  // options: limit, burst, key, cost, name, fields, store, deadline; the store is needed for a limit that
  // is a function, so that all its limiters share it.
  constructor(options) {
    const { limit, burst, key = clientAddress, cost = 1 } = options;
    if (typeof cost !== 'function') checkCost(cost);
    this.#key = optionalFunction(key, 'key');
    this.#cost = cost;
    this.#options = options;
    if (typeof limit !== 'function') {
      this.#answers = new HttpAnswers(makeLimiter(options), options.fields);
      return;
    }
    if (burst !== undefined) throw new TypeError('burst goes with a limit given as text');
    this.#limit = limit;
  }

  // { answers, key, cost }, null when there is no limit, or a promise of either.
  ask(req, res) {
    const limit = this.#limit;
    const policy = limit === undefined ? undefined : attempt(limit, req, res);
    const key = attempt(this.#key, req, res);
    const cost = typeof this.#cost === 'function' ? attempt(this.#cost, req, res) : this.#cost;
    if (isPromise(policy) || isPromise(key) || isPromise(cost)) {
      return Promise.all([policy, key, cost]).then((values) => this.#asked(...values));
    }
    return this.#asked(policy, key, cost);
  }

  #asked(policy, key, cost) {
    const answers = this.#answers ?? this.#answersOf(policy);
    return answers === null ? null : { answers, key, cost };
  }

  #answersOf(policy) {
    if (policy === null) return null;
    const plan = Array.isArray(policy) ? policy.join('; ') : policy;
    if (typeof plan !== 'string' && !(plan instanceof Limiter)) {
      throw new TypeError('limit must give a text, an array of texts, a Limiter or null');
    }
    let answers = this.#plans.get(plan);
    if (answers === undefined) {
      const { name, deadline, store, fields } = this.#options;
      const limiter = plan instanceof Limiter ? plan : new Limiter(plan, { name, deadline, store });
      answers = new HttpAnswers(limiter, fields);
      // Requests under way may still use the oldest, so it is left to the collector.
      if (this.#plans.size >= MAX_PLANS) this.#plans.delete(this.#plans.keys().next().value);
      this.#plans.set(plan, answers);
    }
    return answers;
  }
}

module.exports = { Layer, attempt, checkCost, clientAddress, isPromise, makeLimiter };

'use strict';
// What rateLimit limits by: one layer, or several that are decided together.

const { FAILURE_OPTIONS } = require('./failure.js');
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

const LIMITER_OPTIONS = ['store', 'name', 'deadline', ...FAILURE_OPTIONS];
const OF_FAILURE = ['failure', 'share', 'fallback'];
const OF_THE_LIMITER = ['burst', ...LIMITER_OPTIONS];

// Those of the options that are a Limiter's.
function limiterOptions(options) {
  return Object.fromEntries(LIMITER_OPTIONS.map((option) => [option, options[option]]));
}

// What a layer has from the options for all of them. A failure policy of its own is whole.
function inheritedOptions(layer, { deadline, fields, denyCache, failure, share, fallback }) {
  const isOwn = OF_FAILURE.some((option) => layer[option] !== undefined);
  const inherited = { deadline, fields, denyCache: layer.denyCache ?? denyCache };
  return isOwn ? inherited : { ...inherited, failure, share, fallback };
}

function makeLimiter(options) {
  const { limit, burst } = options;
  if (limit instanceof Limiter) {
    if (OF_THE_LIMITER.some((option) => options[option] !== undefined)) {
      throw new TypeError(`${OF_THE_LIMITER.join(', ')} belong to the limiter that was given`);
    }
    return limit;
  }
  let policy = limit;
  if (burst !== undefined) {
    if (typeof limit !== 'string') throw new TypeError('burst goes with a limit given as text');
    if (!Number.isSafeInteger(burst)) throw new TypeError('burst must be a whole number');
    policy = `${limit} burst ${burst}`;
  }
  return new Limiter(policy, limiterOptions(options));
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

  // options: limit, burst, key, cost, fields, and a limiter's; the store is needed for a limit that is a
  // function, so that all its limiters share it.
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
      const isLimiter = plan instanceof Limiter;
      const limiter = isLimiter ? plan : new Limiter(plan, limiterOptions(this.#options));
      answers = new HttpAnswers(limiter, this.#options.fields);
      // Requests under way may still use the oldest, so it is left to the collector.
      if (this.#plans.size >= MAX_PLANS) this.#plans.delete(this.#plans.keys().next().value);
      this.#plans.set(plan, answers);
    }
    return answers;
  }
}

module.exports = {
  Layer,
  attempt,
  checkCost,
  clientAddress,
  inheritedOptions,
  isPromise,
  makeLimiter,
};

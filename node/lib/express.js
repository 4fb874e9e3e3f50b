'use strict';
// Middleware for Express 4 and 5, and for anything that calls (req, res, next) with Node's objects.

const { HttpAnswers } = require('./http.js');
const { Limiter } = require('./limiter.js');
const { checkNames, optionalFunction } = require('./options.js');

const OPTIONS = new Set('limit burst key cost skip store name deadline fields handler'.split(' '));

// An IPv4 client of a server that listens on IPv6, too, shows as ::ffff:1.2.3.4. It is 1.2.3.4, as
// other servers see it.
function peerAddress(req) {
  const address = req.socket.remoteAddress ?? '';
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

function rateLimit(options) {
  checkNames(options, OPTIONS, 'rateLimit');
  const { key = peerAddress, cost = 1, skip, handler, fields } = options;
  if (typeof cost !== 'function') checkCost(cost);
  optionalFunction(key, 'key');
  optionalFunction(skip, 'skip');
  optionalFunction(handler, 'handler');
  const limiter = makeLimiter(options);
  const answers = new HttpAnswers(limiter, fields);
  const { isLocal } = limiter.store;

  function decideLocally(keyValue, costValue, req, res) {
    return (req.rateLimit = answers.check(keyValue, costValue, res));
  }

  async function decideLater(keyValue, costValue, req, res) {
    const [someKey, someCost] = [await keyValue, await costValue];
    if (isLocal) return decideLocally(someKey, someCost, req, res);
    const decision = await limiter.check(someKey, someCost);
    answers.write(decision, res);
    return (req.rateLimit = decision);
  }

  // A decision, or a promise of one.
  function decide(req, res) {
    const keyValue = key(req, res);
    const costValue = typeof cost === 'function' ? cost(req, res) : cost;
    return isLocal && !isPromise(keyValue) && !isPromise(costValue)
      ? decideLocally(keyValue, costValue, req, res)
      : decideLater(keyValue, costValue, req, res);
  }

  async function unlessSkipped(skipped, req, res) {
    return (await skipped) ? undefined : decide(req, res);
  }

  // undefined: skipped.
  function start(req, res) {
    const skipped = skip !== undefined && skip(req, res);
    if (isPromise(skipped)) return unlessSkipped(skipped, req, res);
    return skipped ? undefined : decide(req, res);
  }

  function refuse(decision, req, res, next) {
    try {
      if (handler === undefined) return answers.refuse(decision, res);
      const result = handler(req, res, next, decision);
      if (isPromise(result)) result.then(undefined, next);
    } catch (error) {
      next(error);
    }
  }

  function finish(decision, req, res, next) {
    if (decision === undefined || decision.allowed) next();
    else refuse(decision, req, res, next);
  }

  // next is called once: outside of every try, so that what it throws does not call it again.
  return function limitRequest(req, res, next) {
    let decision;
    try {
      decision = start(req, res);
    } catch (error) {
      next(error);
      return;
    }
    if (isPromise(decision)) {
      decision.then((later) => finish(later, req, res, next), next);
    } else {
      finish(decision, req, res, next);
    }
  };
}

module.exports = { rateLimit };

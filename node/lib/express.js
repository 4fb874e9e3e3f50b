'use strict';
// Middleware for Express 4 and 5, and for anything that calls (req, res, next) with Node's objects.

const { GONE, admit } = require('./admission.js');
const { FAILURE_OPTIONS } = require('./failure.js');
const { Group } = require('./group.js');
const { HttpAnswers } = require('./http.js');
const {
  Layer,
  attempt,
  checkCost,
  clientAddress,
  inheritedOptions,
  isPromise,
  makeLimiter,
} = require('./layer.js');
const { Limiter, isLocal } = require('./limiter.js');
const { checkNames, optionalFunction } = require('./options.js');
const { openStore } = require('./store.js');

const LAYER = ['limit', 'burst', 'key', 'cost', 'name', ...FAILURE_OPTIONS];
const COMMON = ['skip', 'store', 'deadline', 'fields', 'handler', ...FAILURE_OPTIONS];
const ONE = new Set([...LAYER, ...COMMON]);
const SEVERAL = new Set(['limits', ...COMMON]);
const EACH = new Set(LAYER);

// One limiter, known beforehand: the shortest way. decide gives a decision, GONE, or a promise of these.
function decideByOne(options) {
  const { key = clientAddress, cost = 1, fields } = options;
  if (typeof cost !== 'function') checkCost(cost);
  optionalFunction(key, 'key');
  const limiter = makeLimiter(options);
  const answers = new HttpAnswers(limiter, fields);
  const local = limiter.store.isLocal;
  const { admitsAtOnce } = answers;

  function admitTo(decision, keyValue, res) {
    if (!decision.allowed) return decision;
    const giveBack = () => limiter.refund(keyValue, decision);
    const release = () => limiter.release(keyValue, decision);
    return admit(decision, res, giveBack, answers.hasLeases ? release : undefined);
  }

  async function decideRemotely(keyValue, costValue, req, res) {
    const decision = await limiter.check(keyValue, costValue);
    req.rateLimit = answers.write(decision, res);
    return admitsAtOnce ? decision : admitTo(decision, keyValue, res);
  }

  function decideBy(keyValue, costValue, req, res) {
    if (!local) return decideRemotely(keyValue, costValue, req, res);
    const decision = (req.rateLimit = answers.check(keyValue, costValue, res));
    return admitsAtOnce ? decision : admitTo(decision, keyValue, res);
  }

  function decide(req, res) {
    const keyValue = key(req, res);
    const costValue = typeof cost === 'function' ? attempt(cost, req, res) : cost;
    if (!isPromise(keyValue) && !isPromise(costValue)) {
      return decideBy(keyValue, costValue, req, res);
    }
    return Promise.all([keyValue, costValue]).then(([k, c]) => decideBy(k, c, req, res));
  }

  const refuse = (decision, res) => answers.refuse(decision, res);
  return { decide, refuse, store: limiter.store };
}

function releaseAll(asked, { items }) {
  const leased = asked.map(({ answers, key }, i) => ({ answers, key, item: items[i] }));
  const release = async ({ answers, key, item }) => answers.limiter.release(key, item);
  return Promise.all(leased.filter(({ answers }) => answers.hasLeases).map(release));
}

const itemOf = ({ answers, key, cost }) => ({ limiter: answers.limiter, key, cost });

// Layers that are decided together, and limits that depend on the request.
function decideByLayers(options) {
  const { limits = [options] } = options;
  if (!Array.isArray(limits) || limits.length === 0) {
    throw new TypeError('limits must be an array of at least one layer');
  }
  const given = limits.find((layer) => layer?.limit instanceof Limiter)?.limit;
  const { store } = openStore(options.store ?? given?.store);
  const layers = limits.map((layer) => {
    if (layer !== options) checkNames(layer, EACH, 'layer');
    const isGiven = layer.limit instanceof Limiter;
    const inherited = isGiven
      ? { fields: options.fields }
      : { ...inheritedOptions(layer, options), store };
    return new Layer({ ...layer, ...inherited });
  });
  const refusers = new WeakMap(); // decision => answers of the limiter that bound

  function finish(decision, asked, group, req, res) {
    const { answers } = asked[decision.item];
    const all = asked.map((one) => one.answers);
    if (group === undefined) answers.write(decision, res);
    else answers.writeAll(decision, all, res);
    req.rateLimit = decision;
    if (!decision.allowed) refusers.set(decision, answers);
    if (!decision.allowed || all.every(({ admitsAtOnce }) => admitsAtOnce)) return decision;
    const [{ key }] = asked;
    const giveBack = async () =>
      group === undefined ? answers.limiter.refund(key, decision) : group.refund(decision);
    const release = () => releaseAll(asked, decision);
    const hasLeases = all.some((one) => one.hasLeases);
    return admit(decision, res, giveBack, hasLeases ? release : undefined);
  }

  // undefined: no limit.
  function decideAsked(all, req, res) {
    const asked = all.filter((one) => one !== null);
    if (asked.length === 0) return undefined;
    const [{ answers, key, cost }] = asked;
    const group = asked.length > 1 ? new Group(asked.map(itemOf)) : undefined;
    if (group?.local ?? isLocal(answers.limiter)) {
      const decision = group?.checkSync() ?? answers.limiter.checkSync(key, cost);
      return finish(decision, asked, group, req, res);
    }
    const later = group?.check() ?? answers.limiter.check(key, cost);
    return later.then((decision) => finish(decision, asked, group, req, res));
  }

  function decide(req, res) {
    const asked = layers.map((layer) => attempt(() => layer.ask(req, res)));
    if (!asked.some(isPromise)) return decideAsked(asked, req, res);
    return Promise.all(asked).then((all) => decideAsked(all, req, res));
  }

  const refuse = (decision, res) => refusers.get(decision).refuse(decision, res);
  return { decide, refuse, store };
}

function rateLimit(options) {
  const hasLayers = options?.limits !== undefined;
  checkNames(options, hasLayers ? SEVERAL : ONE, 'rateLimit');
  const { skip, handler, limit } = options;
  optionalFunction(skip, 'skip');
  optionalFunction(handler, 'handler');
  const byLayers = hasLayers || typeof limit === 'function';
  const { decide, refuse, store } = byLayers ? decideByLayers(options) : decideByOne(options);

  async function unlessSkipped(skipped, req, res) {
    return (await skipped) ? undefined : decide(req, res);
  }

  // undefined: skipped.
  function start(req, res) {
    const skipped = skip !== undefined && skip(req, res);
    if (isPromise(skipped)) return unlessSkipped(skipped, req, res);
    return skipped ? undefined : decide(req, res);
  }

  function answerRefusal(decision, req, res, next) {
    try {
      if (handler === undefined) return refuse(decision, res);
      const result = handler(req, res, next, decision);
      if (isPromise(result)) result.then(undefined, next);
    } catch (error) {
      next(error);
    }
  }

  function finish(decision, req, res, next) {
    if (decision === undefined || decision.allowed) next();
    else if (decision !== GONE) answerRefusal(decision, req, res, next);
  }

  // next is called once: outside of every try, so that what it throws does not call it again.
  function limitRequest(req, res, next) {
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
  }
  limitRequest.store = store;
  return limitRequest;
}

module.exports = { rateLimit };

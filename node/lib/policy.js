'use strict';
// Policies as the addon takes them: text, or rows of numbers (node/src/rules.h). The ranges are the
// core's to check.

const { checkNames } = require('./options.js');
const { exactMicros, wholeNumber } = require('./units.js');

// By their numbers in the C API.
const ALGORITHMS = [
  undefined,
  'token-bucket',
  'unlimited',
  'fixed-window',
  'sliding-window',
  'sliding-log',
  'calendar',
  'concurrency',
];
const UNITS = [undefined, 'day', 'week', 'month', 'year'];
const MONTH = 3;

// What each kind of rule is made of; a question mark: may be absent. The first is the limit.
const FIELDS = {
  'token-bucket': ['capacity', 'tokens', 'period', 'queue?'],
  'fixed-window': ['limit', 'period'],
  'sliding-window': ['limit', 'period'],
  'sliding-log': ['limit', 'period'],
  calendar: ['limit', 'unit', 'zone?', 'anchorDay?'],
  concurrency: ['limit', 'ttl'],
};

// Those rules that have a limit.
const LIMITED = Object.keys(FIELDS).filter((algorithm) => FIELDS[algorithm][0] === 'limit');

function oneOf(value, names, what) {
  const number = typeof value === 'string' ? names.indexOf(value) : -1;
  if (number !== -1) return number;
  throw new TypeError(`${what} must be one of: ${names.filter(Boolean).join(', ')}`);
}

function text(value, name) {
  if (typeof value === 'string') return value;
  throw new TypeError(`${name} must be a string`);
}

const READERS = {
  period: exactMicros,
  ttl: exactMicros,
  unit: (value) => oneOf(value, UNITS, 'unit'),
  zone: text,
};

function ruleRow(rule) {
  if (rule === null || typeof rule !== 'object') {
    throw new TypeError('a policy must be a string, a rule, or an array of these');
  }
  const { algorithm = 'token-bucket' } = rule;
  if (rule.algorithm === undefined && rule.limit !== undefined && rule.capacity === undefined) {
    throw new TypeError(
      'algorithm is missing. Without it a rule is a token-bucket, of capacity, tokens and period; ' +
        `a limit goes with ${LIMITED.join(', ')}`,
    );
  }
  if (!Object.hasOwn(FIELDS, algorithm)) oneOf(undefined, Object.keys(FIELDS), 'algorithm');
  const fields = FIELDS[algorithm];
  checkNames(
    rule,
    new Set(['algorithm', ...fields.map((field) => field.replace('?', ''))]),
    'rule',
  );
  const value = {};
  for (const field of fields) {
    const name = field.replace('?', '');
    if (name !== field && rule[name] === undefined) continue;
    value[name] = (READERS[name] ?? wholeNumber)(rule[name], name);
  }
  return [
    ALGORITHMS.indexOf(algorithm),
    value[fields[0]],
    value.tokens ?? 0,
    value.period ?? value.ttl ?? 0,
    value.queue ?? 0,
    value.unit ?? 0,
    value.anchorDay ?? 0,
    value.zone,
  ];
}

function policyArgument(policy) {
  if (typeof policy === 'string') return policy;
  if (!Array.isArray(policy)) return [ruleRow(policy)];
  // Positions in errors are those in the joined text.
  if (policy.length !== 0 && policy.every((rule) => typeof rule === 'string')) {
    return policy.join('; ');
  }
  return policy.map((rule) => (typeof rule === 'string' ? rule : ruleRow(rule)));
}

// A row as a rule that could be given for it.
function ruleOf([number, limit, tokens, periodUs, queue, unit, anchorDay, zone]) {
  const algorithm = ALGORITHMS[number];
  const period = periodUs / 1000;
  switch (algorithm) {
    case 'token-bucket':
      return { algorithm, capacity: limit, tokens, period, ...(queue > 0 && { queue }) };
    case 'unlimited':
      return { algorithm };
    case 'calendar':
      return { algorithm, limit, unit: UNITS[unit], zone, ...(unit === MONTH && { anchorDay }) };
    case 'concurrency':
      return { algorithm, limit, ttl: period };
    default:
      return { algorithm, limit, period };
  }
}

module.exports = { policyArgument, ruleOf };

'use strict';
// Checks of options, with messages that name them.

const { wholeNumber } = require('./units.js');

function checkNames(options, known, what) {
  if (options === null || typeof options !== 'object' || Array.isArray(options)) {
    throw new TypeError(`${what} options must be an object`);
  }
  for (const name of Object.keys(options)) {
    if (!known.has(name)) throw new TypeError(`unknown ${what} option '${name}'`);
  }
}

// undefined stays so.
function optionalText(value, name) {
  if (value === undefined) return undefined;
  if (typeof value !== 'string') throw new TypeError(`${name} must be a string`);
  if (/\p{Surrogate}/u.test(value)) throw new TypeError(`${name} must not hold a lone surrogate`);
  return value;
}

function optionalBytes(value, name) {
  if (value instanceof Uint8Array) return value;
  return optionalText(value, name);
}

// undefined: 0, which stands for the default.
function optionalCount(value, name, max) {
  if (value === undefined) return 0;
  if (wholeNumber(value, name) < 1 || value > max) {
    throw new RangeError(`${name} must be from 1 to ${max}`);
  }
  return value;
}

function optionalFunction(value, name) {
  if (value !== undefined && typeof value !== 'function') {
    throw new TypeError(`${name} must be a function`);
  }
  return value;
}

// undefined: the default.
function optionalFlag(value, byDefault, name) {
  if (value === undefined) return byDefault;
  if (typeof value !== 'boolean') throw new TypeError(`${name} must be a boolean`);
  return value;
}

module.exports = {
  checkNames,
  optionalText,
  optionalBytes,
  optionalCount,
  optionalFunction,
  optionalFlag,
};

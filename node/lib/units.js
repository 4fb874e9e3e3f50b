'use strict';
// Milliseconds to whole microseconds.

const MAX_WAIT_US = 2 ** 50;
const NO_WAIT = -1; // as a most wait in microseconds: not even in a rule's queue

function number(value, name) {
  if (typeof value !== 'number') throw new TypeError(`${name} must be a number`);
  return value;
}

// For what must not be rounded: milliseconds that are the nearest double to a whole number of
// microseconds, as 600.001 is, and 0.0001 is not.
function exactMicros(ms, name) {
  const us = Math.round(number(ms, name) * 1000);
  if (!Number.isSafeInteger(us) || us / 1000 !== ms) {
    throw new RangeError(`${name} must be a whole number of microseconds, given in milliseconds`);
  }
  return us;
}

// For clocks: to the nearest microsecond.
function nearestMicros(ms, name) {
  const us = Math.round(number(ms, name) * 1000);
  if (!Number.isSafeInteger(us)) throw new RangeError(`${name} is out of range`);
  return us;
}

function wholeNumber(value, name) {
  if (!Number.isSafeInteger(number(value, name))) {
    throw new RangeError(`${name} must be a whole number`);
  }
  return value;
}

// undefined: 0, which stands for the default.
function deadlineMicros(ms) {
  if (ms === undefined) return 0;
  const us = nearestMicros(ms, 'deadline');
  if (us < 1000 || us > 3_600_000_000) {
    throw new RangeError('deadline must be from 1 ms to one hour');
  }
  return us;
}

// A willingness to wait: the most microseconds that are not longer; Infinity allowed.
function waitMicros(ms, name) {
  if (!(number(ms, name) >= 0)) throw new RangeError(`${name} must not be negative`);
  const us = Math.round(ms * 1000);
  return Math.min(us / 1000 > ms ? us - 1 : us, MAX_WAIT_US);
}

module.exports = {
  NO_WAIT,
  exactMicros,
  nearestMicros,
  wholeNumber,
  deadlineMicros,
  waitMicros,
};

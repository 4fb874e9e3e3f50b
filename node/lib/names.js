'use strict';
// Names of the C API's numbers.

const native = require('./native.js');

const OUTCOMES = ['none', 'allowed', 'denied', 'never', 'unavailable'];
const SOURCES = ['store', 'cache', 'local', 'open', 'closed'];
const reasons = [];

function reasonName(reason) {
  return reason === 0 ? null : (reasons[reason] ??= native.reasonName(reason));
}

// Reasons with which the store has certainly done nothing.
const UNDONE = new Set();
for (let i = 1; native.reasonName(i) !== 'unknown'; i++) {
  if (native.reasonIsUndone(i)) UNDONE.add(native.reasonName(i));
}

module.exports = { OUTCOMES, SOURCES, UNDONE, reasonName };

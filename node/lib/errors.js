'use strict';

const native = require('./native.js');

class SaqiyaError extends Error {
  constructor(code, message, position = -1) {
    super(message);
    this.code = code;
    if (position >= 0) this.position = position;
  }

  get name() {
    return 'SaqiyaError';
  }
}

const closed = (what) => new SaqiyaError('closed', `the ${what} was closed`);

native.setErrorFactory((kind, message, position) => {
  if (kind === 'type') return new TypeError(message);
  if (kind === 'range') return new RangeError(message);
  return new SaqiyaError(kind, message, position);
});

module.exports = { SaqiyaError, closed };

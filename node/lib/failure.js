'use strict';
// What a limiter does while its store does not answer, as the addon takes it.

const { optionalFlag } = require('./options.js');

// By their numbers in the C API.
const MODES = [undefined, 'local', 'open', 'closed', 'error'];
const WHOLE = 1_000_000; // millionths
const FLAG_NO_DENY_CACHE = 1;

const FAILURE_OPTIONS = ['failure', 'share', 'fallback', 'denyCache'];

function modeNumber(failure) {
  if (failure === undefined) return 0;
  const number = typeof failure === 'string' ? MODES.indexOf(failure) : -1;
  if (number > 0) return number;
  throw new TypeError("failure must be 'local', 'open', 'closed' or 'error'");
}

// The most millionths that are not more than the share.
function shareMillionths(share) {
  if (share === undefined) return 0;
  if (typeof share !== 'number') throw new TypeError('share must be a number');
  const nearest = Math.round(share * WHOLE);
  const millionths = nearest / WHOLE > share ? nearest - 1 : nearest;
  if (millionths >= 1 && millionths <= WHOLE) return millionths;
  throw new RangeError('share must be from 0.000001 to 1');
}

// fallbackText(policy) gives the text of a policy.
function failureArguments({ failure, share, fallback, denyCache }, fallbackText) {
  return [
    optionalFlag(denyCache, true, 'denyCache') ? 0 : FLAG_NO_DENY_CACHE,
    modeNumber(failure),
    shareMillionths(share),
    fallback === undefined ? undefined : fallbackText(fallback),
  ];
}

module.exports = { FAILURE_OPTIONS, failureArguments };

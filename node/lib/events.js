'use strict';
// What a store has to tell an operator, as the addon gives it.

const { reasonName } = require('./names.js');

const KINDS = [undefined, 'outage', 'recovered', 'refused']; // by their numbers in the C API

function toldOf([kind, reason, server, message, suppressed, wallUs, durationUs, decisions]) {
  const event = {
    reason: reasonName(reason),
    server,
    message,
    suppressed,
    durationMs: durationUs / 1000,
    decisions,
    at: wallUs / 1000,
  };
  return { name: KINDS[kind], event };
}

module.exports = { toldOf };

'use strict';

const native = require('./native.js');
const { SaqiyaError } = require('./errors.js');
const { Decision } = require('./decision.js');
const { ManualClock } = require('./clock.js');
const { Store } = require('./store.js');
const { Limiter } = require('./limiter.js');

exports.Limiter = Limiter;
exports.Store = Store;
exports.ManualClock = ManualClock;
exports.Decision = Decision;
exports.SaqiyaError = SaqiyaError;
exports.version = native.version;

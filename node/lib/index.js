'use strict';

const native = require('./native.js');
const { SaqiyaError } = require('./errors.js');
const { Decision } = require('./decision.js');
const { ManualClock } = require('./clock.js');
const { Store } = require('./store.js');
const { Limiter } = require('./limiter.js');
const { Lease } = require('./lease.js');
const group = require('./group.js');

exports.Limiter = Limiter;
exports.Store = Store;
exports.ManualClock = ManualClock;
exports.Decision = Decision;
exports.Lease = Lease;
exports.SaqiyaError = SaqiyaError;
exports.checkAll = group.checkAll;
exports.checkAllSync = group.checkAllSync;
exports.peekAll = group.peekAll;
exports.peekAllSync = group.peekAllSync;
exports.reserveAll = group.reserveAll;
exports.reserveAllSync = group.reserveAllSync;
exports.acquireAll = group.acquireAll;
exports.refundAll = group.refundAll;
exports.refundAllSync = group.refundAllSync;
exports.version = native.version;

'use strict';
// Layout of the records in which the addon hands over decisions; node/src/environment.h has the same.

const { records } = require('./native.js');

module.exports = {
  records,
  STRIDE: 16,
  OUTCOME: 0,
  DETAIL: 1, // reason + rule * 2^8 + item * 2^16 + source * 2^24
  LIMIT: 2,
  REMAINING: 3,
  RETRY_AFTER_US: 4,
  RESET_AFTER_US: 5,
  DELAY_US: 6,
  TICKET_Q: 7,
  TICKET_R: 8,
  TICKET_N: 9,
  TICKET_COST: 10,
  TICKET_EPOCH_HIGH: 11,
  TICKET_EPOCH_LOW: 12,
  USER_DATA: 13, // of a completion
  HTTP_STATUS: 13, // after httpBody
  HTTP_RESET: 13, // after checkHttp and http
  HTTP_RETRY_AFTER: 14,
  HTTP_T: 15,
};

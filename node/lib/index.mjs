import saqiya from './index.js';

export const { Limiter, Store, ManualClock, Decision, Lease, SaqiyaError, version } = saqiya;
export const { checkAll, peekAll, reserveAll, acquireAll, refundAll } = saqiya;
export const { checkAllSync, peekAllSync, reserveAllSync, refundAllSync } = saqiya;
export default saqiya;

import saqiya from './index.js';

export const { Limiter, Store, ManualClock, Decision, SaqiyaError, version } = saqiya;
export default saqiya;

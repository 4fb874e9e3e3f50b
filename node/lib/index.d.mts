export * from './index.js';
export * as default from './index.js';

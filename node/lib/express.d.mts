export * from './express.js';
export * as default from './express.js';

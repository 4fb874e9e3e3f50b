// The package under test, from the source tree, and what it is tested with.
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

export * from '../../../node/lib/index.mjs';
export { rateLimit } from '../../../node/lib/express.mjs';

// Finds the development packages of node/.
export const requireDev = createRequire(new URL('../../../node/package.json', import.meta.url));
export const library = fileURLToPath(new URL('../../../node/lib/index.js', import.meta.url));

export const settle = () => new Promise((resolve) => setImmediate(resolve));

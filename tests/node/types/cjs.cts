// Compiled, not run: the types as a CommonJS module sees them.
import saqiya = require('../../../node/lib/index.js');
import middleware = require('../../../node/lib/express.js');
import http = require('node:http');

const limiter = new saqiya.Limiter('5/s');
const decision: saqiya.Decision = limiter.checkSync('k');
const limit = middleware.rateLimit({
  limit: limiter,
  key: (req: http.IncomingMessage) => req.url!,
});
http.createServer((req, res) => {
  limit(req, res, () => res.end(String(decision.allowed)));
});

// @ts-expect-error a policy is text or a rule
new saqiya.Limiter(5);

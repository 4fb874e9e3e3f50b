// An Express app that lets each client make 5 requests per second, 20 at once.
//
//   PORT=3000 node examples/express_app.mjs
//   REDIS_URL=redis://127.0.0.1 PORT=3000 node examples/express_app.mjs    one limit for all processes
import express from 'express';
import { rateLimit } from 'saqiya/express';

const app = express();

app.use(
  rateLimit({
    limit: '5/s',
    burst: 20,
    name: 'demo',
    store: process.env.REDIS_URL || undefined,
  }),
);

app.get('/', (req, res) => {
  res.json({ ok: true });
});

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}/`);
});

// Logins, limited by what fails: 10 failures per address and 5 per user within 15 minutes, in one
// decision. A try is charged before the password is looked at, so that parallel tries cannot slip
// through; one that succeeds is given back. While Redis does not answer nobody logs in (failure:
// 'closed'), so that nobody can guess passwords meanwhile.
//
//   PORT=3000 REDIS_URL=redis://127.0.0.1 node examples/login_express.mjs
import express from 'express';
import { Limiter, Store, checkAll, refundAll } from 'saqiya';

const store = new Store(process.env.REDIS_URL);
const options = { store, failure: 'closed' };
const perAddress = new Limiter('sliding-log: 10/15min', { ...options, name: 'login-address' });
const perUser = new Limiter('sliding-log: 5/15min', { ...options, name: 'login-user' });
const isRight = (user, password) => user === 'amina' && password === 'correct horse';

const app = express();

app.post('/login', express.json(), async (req, res) => {
  const { user, password } = req.body ?? {};
  if (typeof user !== 'string' || user.length > 256) return res.sendStatus(400);
  const tries = [
    { limiter: perAddress, key: req.ip },
    { limiter: perUser, key: Buffer.from(user) },
  ];
  const decision = await checkAll(tries);
  if (!decision.allowed) {
    const isAway = decision.reason !== null; // Redis did not answer
    const wait = Math.max(1, Math.ceil(decision.retryAfter / 1000));
    res.status(isAway ? 503 : 429).set('Retry-After', String(wait));
    return res.json({ error: isAway ? 'try again later' : 'too many failures' });
  }
  if (!isRight(user, password)) return res.status(401).json({ error: 'wrong user or password' });
  await refundAll(tries, decision);
  res.json({ welcome: user });
});

const server = app.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}/`);
});

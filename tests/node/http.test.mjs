// The header strings that JavaScript puts together are those of the core.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Limiter, ManualClock, Store, requireDev } from './support/saqiya.mjs';

const { HttpAnswers } = requireDev('./lib/http.js');
const { limiterNative } = requireDev('./lib/limiter.js');
const { load, unavailable } = requireDev('./lib/decision.js');

const FLAGS = { all: 3, legacy: 1, draft: 2 };

function fakeResponse() {
  const headers = new Map();
  return {
    headers,
    headersSent: false,
    setHeader: (name, value) => headers.set(name.toLowerCase(), value),
    end(body) {
      this.body = body;
    },
  };
}

function coreFields(limiter, decision, fields) {
  load(decision);
  const text = limiterNative(limiter).httpFields(FLAGS[fields]);
  const lines = text.split('\r\n').filter(Boolean);
  return new Map(lines.map((line) => [line.split(': ')[0].toLowerCase(), line.split(': ')[1]]));
}

function sameFields(limiter, decision, headers, fields) {
  const expected = coreFields(limiter, decision, fields);
  assert.deepEqual([...headers].sort(), [...expected].sort(), `${limiter.policy} ${fields}`);
}

function sameBody(limiter, answers, decision, res) {
  load(decision);
  const body = limiterNative(limiter).httpBody();
  answers.refuse(decision, res);
  assert.equal(res.body, body);
  assert.equal(res.headers.get('content-length'), Buffer.byteLength(body));
  return JSON.parse(body);
}

const POLICIES = ['5/s burst 20', '3/s', '7/min burst 4', '1000003/s burst 50', '1/h burst 10'];
POLICIES.push('100/min', '0/s', 'unlimited', '1/365d', '1000000000/s', '1/us');

for (const fields of ['all', 'legacy', 'draft']) {
  test(`fields '${fields}' are the core's, whatever the decision`, () => {
    const clock = new ManualClock(1000);
    const store = new Store('memory://', { clock });
    for (const [i, policy] of POLICIES.entries()) {
      const name = i % 2 ? `p"${i}\\` : undefined;
      const limiter = new Limiter(policy, { store, name });
      const answers = new HttpAnswers(limiter, fields);
      const outcomes = new Set();
      for (let step = 0; step < 300; step++) {
        const res = fakeResponse();
        const decision = answers.check('k', step % 50 === 0 ? 2 ** 40 : step % 4, res);
        sameFields(limiter, decision, res.headers, fields);
        const later = fakeResponse();
        answers.write(decision, later);
        assert.deepEqual(later.headers, res.headers);
        if (!decision.allowed) {
          assert.equal(sameBody(limiter, answers, decision, res).error, 'rate_limited');
          assert.equal(res.statusCode, 429);
        }
        outcomes.add(decision.outcome);
        clock.advanceMicroseconds((step * 7919) % 200_003);
      }
      if (policy !== 'unlimited') assert.ok(outcomes.has('never'), policy);
    }
  });
}

test('an unavailable store is 503 and has no rate fields', () => {
  const limiter = new Limiter('5/s');
  const answers = new HttpAnswers(limiter);
  const decision = unavailable(4);
  const res = fakeResponse();
  answers.write(decision, res);
  sameFields(limiter, decision, res.headers, 'all');
  assert.deepEqual([...res.headers.keys()], ['retry-after']);
  const body = sameBody(limiter, answers, decision, res);
  assert.equal(body.error, 'rate_limiter_unavailable');
  assert.equal(res.statusCode, 503);
});

test('C7: never has no Retry-After', () => {
  const res = fakeResponse();
  const decision = new HttpAnswers(new Limiter('3/s')).check('k', 4, res);
  assert.equal(decision.outcome, 'never');
  assert.equal(res.headers.has('retry-after'), false);
  assert.equal(res.headers.get('x-ratelimit-remaining'), '3');
});

test('C41: a wait of 0.4 s is Retry-After: 1', () => {
  const clock = new ManualClock(1000);
  const limiter = new Limiter('5/2s burst 1', { store: new Store('memory://', { clock }) });
  limiter.checkSync('k');
  const res = fakeResponse();
  const decision = new HttpAnswers(limiter).check('k', 1, res);
  assert.equal(decision.retryAfter, 400);
  assert.equal(res.headers.get('retry-after'), '1');
});

test('without fields, Retry-After is still sent', () => {
  const limiter = new Limiter('1/h');
  const answers = new HttpAnswers(limiter, 'none');
  const [first, second] = [fakeResponse(), fakeResponse()];
  answers.check('k', 1, first);
  answers.check('k', 1, second);
  assert.deepEqual([...first.headers], []);
  assert.deepEqual([...second.headers], [['retry-after', '3600']]);
  assert.throws(() => new HttpAnswers(limiter, 'some'), TypeError);
});

test('headers that were sent already are left alone', () => {
  const res = fakeResponse();
  res.headersSent = true;
  res.setHeader = () => assert.fail('too late');
  res.end = () => assert.fail('too late');
  const answers = new HttpAnswers(new Limiter('0/s'));
  answers.refuse(answers.check('k', 1, res), res);
});

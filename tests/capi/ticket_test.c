/* Tickets: spent once, of one table, not to be forged. */
#include <saqiya/saqiya.h>
#include <string.h>

#include "check.h"
#include "setup.h"

enum { kSpent = 1, kReservation = 2 };

static int refund(setup *s, saqiya_ticket *ticket) {
  saqiya_decision d;
  CHECK_EQ(saqiya_limiter_refund(s->limiter, "k", 1, ticket, &d), SAQIYA_OK);
  CHECK_EQ(ticket->flags & kSpent, kSpent);
  return d.outcome;
}

static int64_t remaining(setup *s) {
  saqiya_decision d;
  CHECK_EQ(saqiya_limiter_peek(s->limiter, "k", 1, 1, &d), SAQIYA_OK);
  return d.remaining;
}

static void test_once(void) {
  setup s = setup_open("10/s");
  saqiya_decision d;
  saqiya_ticket t;
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 6, &d, &t), SAQIYA_OK);
  CHECK_EQ(refund(&s, &t), SAQIYA_ALLOWED);
  CHECK_EQ(remaining(&s), 10);
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 6, &d, NULL), SAQIYA_OK);
  CHECK_EQ(refund(&s, &t), SAQIYA_DENIED);
  CHECK_EQ(remaining(&s), 4);
  /* Too late: it has come back by itself. */
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 4, &d, &t), SAQIYA_OK);
  CHECK_EQ(saqiya_clock_advance(s.clock, 1000000), SAQIYA_OK);
  CHECK_EQ(refund(&s, &t), SAQIYA_DENIED);
  /* decision may be null; the ticket is spent all the same. */
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 4, &d, &t), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_refund(s.limiter, "k", 1, &t, NULL), SAQIYA_OK);
  CHECK_EQ(remaining(&s), 10);
  CHECK_EQ(refund(&s, &t), SAQIYA_DENIED);
  CHECK_EQ(saqiya_limiter_reset(s.limiter, "k", 1, NULL), SAQIYA_OK);
  setup_free(&s);
}

static void test_misuse(void) {
  setup s = setup_open("10/s");
  saqiya_decision d;
  saqiya_ticket t;
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 6, &d, &t), SAQIYA_OK);
  memset(&d, 0x55, sizeof d);
  CHECK_EQ(saqiya_limiter_refund(NULL, "k", 1, &t, &d), SAQIYA_INVALID);
  CHECK(is_zero(&d, sizeof d));
  CHECK_EQ(saqiya_limiter_refund(s.limiter, NULL, 1, &t, &d), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_refund(s.limiter, "k", SAQIYA_MAX_KEY + 1, &t, &d), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_refund(s.limiter, "k", 1, NULL, &d), SAQIYA_INVALID);
  memset(&d, 0x55, sizeof d);
  CHECK_EQ(saqiya_limiter_settle(NULL, "k", 1, &t, 1, &d), SAQIYA_INVALID);
  CHECK(is_zero(&d, sizeof d));
  CHECK_EQ(saqiya_limiter_settle(s.limiter, NULL, 1, &t, 1, &d), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, NULL, 1, &d), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, &t, -1, &d), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, &t, SAQIYA_MAX_COST + 1, &d), SAQIYA_INVALID);
  memset(&d, 0x55, sizeof d);
  CHECK_EQ(saqiya_limiter_renew(NULL, "k", 1, &t, &d), SAQIYA_INVALID);
  CHECK(is_zero(&d, sizeof d));
  CHECK_EQ(saqiya_limiter_renew(s.limiter, NULL, 1, &t, &d), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_renew(s.limiter, "k", 1, NULL, &d), SAQIYA_INVALID);
  CHECK_EQ(t.flags & kSpent, 0); /* misuse spends nothing */
  CHECK_EQ(refund(&s, &t), SAQIYA_ALLOWED);
  setup_free(&s);
}

/* A ticket is plain data: whatever it holds, at most its cost is given, and never above full. */
static void test_forged(void) {
  setup s = setup_open("10/s");
  static const int64_t odd[] = {INT64_MIN, -1, 0, 1, INT64_C(1) << 53, INT64_MAX};
  saqiya_decision d;
  saqiya_ticket good;
  size_t i;
  size_t k;
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 6, &d, &good), SAQIYA_OK);
  for (i = 0; i < sizeof odd / sizeof *odd; ++i) {
    for (k = 0; k < 6; ++k) {
      saqiya_ticket t = good;
      if (k == 0) t.q = odd[i];
      if (k == 1) t.r = (uint32_t)odd[i];
      if (k == 2) t.n = (uint32_t)odd[i];
      if (k == 3) t.cost = odd[i];
      if (k == 4) t.epoch = (uint64_t)odd[i];
      if (k == 5) t.flags = (uint32_t)odd[i];
      CHECK_EQ(saqiya_limiter_refund(s.limiter, "k", 1, &t, &d), SAQIYA_OK);
      CHECK(d.remaining >= 4 && d.remaining <= 10);
      CHECK_EQ(saqiya_limiter_reset(s.limiter, "k", 1, NULL), SAQIYA_OK);
      CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 6, &d, &good), SAQIYA_OK);
    }
  }
  setup_free(&s);
}

static void test_other_table(void) {
  setup a = setup_open("10/s");
  setup b = setup_open("10/s");
  saqiya_decision d;
  saqiya_ticket t;
  CHECK_EQ(saqiya_limiter_check(a.limiter, "k", 1, 6, &d, &t), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_check(b.limiter, "k", 1, 6, &d, NULL), SAQIYA_OK);
  CHECK_EQ(refund(&b, &t), SAQIYA_DENIED);
  CHECK_EQ(remaining(&b), 4);
  setup_free(&a);
  setup_free(&b);
}

static void test_reservation(void) {
  setup s = setup_open("1/s");
  saqiya_decision d;
  saqiya_ticket first;
  saqiya_ticket last;
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_check_wait(s.limiter, "k", 1, 1, 9000000, &d, &first), SAQIYA_OK);
  CHECK_EQ(first.flags, kReservation);
  CHECK_EQ(saqiya_limiter_check_wait(s.limiter, "k", 1, 1, 9000000, &d, &last), SAQIYA_OK);
  CHECK_EQ(d.delay_us, 2000000);
  CHECK_EQ(refund(&s, &first), SAQIYA_DENIED);
  CHECK_EQ(refund(&s, &last), SAQIYA_ALLOWED);
  setup_free(&s);
}

/* Beside other rules a lease is left alone by settle, and can still be released and renewed. */
static void test_settle_leaves_leases(void) {
  setup s = setup_open("10/h; concurrency: 3 ttl 1h");
  saqiya_decision d;
  saqiya_ticket t[2];
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 3, &d, t), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, t, 9, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && t[0].flags == kSpent && t[1].flags == 0);
  CHECK_EQ(saqiya_limiter_renew(s.limiter, "k", 1, t, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, NULL), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_DENIED && d.rule == 1); /* no slot is free */
  CHECK_EQ(saqiya_limiter_refund(s.limiter, "k", 1, t, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, NULL), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 0); /* what was settled stays charged */
  setup_free(&s);
}

/* Settle: down as a refund, up whatever the limit says. Under every algorithm. */
static void test_settle(void) {
  static const char *const policies[] = {
      "10/h",
      "fixed-window: 10/h",
      "sliding-window: 10/h",
      "sliding-log: 10/h",
      "calendar: 10/day",
      "concurrency: 10 ttl 1h",
      "10/h; fixed-window: 10/h",
  };
  size_t i;
  for (i = 0; i < sizeof policies / sizeof *policies; ++i) {
    setup s = setup_open(policies[i]);
    saqiya_decision d;
    saqiya_ticket t[2];
    CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 6, &d, t), SAQIYA_OK);
    CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, t, 2, &d), SAQIYA_OK);
    CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 8 && t[0].flags == kSpent);
    CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, t, 5, &d), SAQIYA_OK);
    CHECK(d.outcome == SAQIYA_DENIED && d.remaining == 8); /* spent */
    CHECK_EQ(refund(&s, t), SAQIYA_DENIED);
    CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, t), SAQIYA_OK);
    CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, t, 1, &d), SAQIYA_OK); /* as estimated */
    CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 7);
    CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, t), SAQIYA_OK);
    CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, t, 20, &d), SAQIYA_OK);
    CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 0); /* a debt */
    CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, NULL), SAQIYA_OK);
    CHECK_EQ(d.outcome, SAQIYA_DENIED);
    CHECK_EQ(saqiya_limiter_reset(s.limiter, "k", 1, &d), SAQIYA_OK);
    CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 10);
    CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 4, &d, t), SAQIYA_OK);
    CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, t, 0, NULL), SAQIYA_OK); /* all of it back */
    CHECK_EQ(remaining(&s), 10);
    CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 4, &d, t), SAQIYA_OK);
    CHECK_EQ(saqiya_limiter_reset(s.limiter, "k", 1, NULL), SAQIYA_OK);
    CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, t, 9, &d), SAQIYA_OK); /* no key is made */
    CHECK(d.outcome == SAQIYA_DENIED && d.remaining == 10);
    setup_free(&s);
  }
}

static void test_renew(void) {
  setup s = setup_open("concurrency: 2 ttl 30s");
  setup bucket = setup_open("10/s");
  saqiya_decision d;
  saqiya_ticket t;
  saqiya_ticket other;
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, &t), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.reset_after_us == 30000000 && t.lease != 0);
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, &other), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && other.lease != t.lease);
  CHECK_EQ(saqiya_clock_advance(s.clock, 20000000), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_renew(s.limiter, "k", 1, &t, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.reset_after_us == 30000000 && t.flags == 0);
  CHECK_EQ(saqiya_clock_advance(s.clock, 20000000), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_renew(s.limiter, "k", 1, &other, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_DENIED && d.remaining == 1); /* it has expired */
  CHECK_EQ(saqiya_limiter_renew(s.limiter, "k", 1, &t, NULL), SAQIYA_OK);
  CHECK_EQ(refund(&s, &t), SAQIYA_ALLOWED);
  CHECK_EQ(saqiya_limiter_renew(s.limiter, "k", 1, &t, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_DENIED);
  CHECK_EQ(saqiya_limiter_check(bucket.limiter, "k", 1, 1, &d, &t), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_renew(bucket.limiter, "k", 1, &t, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_DENIED); /* tokens have no lease */
  setup_free(&bucket);
  setup_free(&s);
}

/* A ticket of each rule: all or some may be given back, each spends itself. */
static void test_several_rules(void) {
  setup s = setup_open("10/h; fixed-window: 20/h; concurrency: 30 ttl 1h");
  saqiya_key keys[2] = {{"k", 1}, {"l", 1}};
  saqiya_decision d;
  saqiya_decision many[2];
  saqiya_ticket t[7];
  memset(t, 0x55, sizeof t);
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 4, &d, t), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.rule == 0 && d.remaining == 6);
  CHECK(t[0].algorithm == SAQIYA_TOKEN_BUCKET && t[1].algorithm == SAQIYA_FIXED_WINDOW);
  CHECK(t[2].algorithm == SAQIYA_CONCURRENCY && t[3].n == 0x55555555);
  CHECK(t[0].cost == 4 && t[1].cost == 4 && t[2].cost == 4);
  t[1].flags = kSpent; /* kept by its holder */
  CHECK_EQ(saqiya_limiter_refund(s.limiter, "k", 1, t, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.rule == 1 && d.remaining == 16);
  CHECK(t[0].flags == kSpent && t[1].flags == kSpent && t[2].flags == kSpent);
  CHECK_EQ(saqiya_limiter_refund(s.limiter, "k", 1, t, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_DENIED);
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 11, &d, t), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_NEVER && d.rule == 0 && is_zero(t, 3 * sizeof *t));
  memset(t, 0x55, sizeof t);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, 2, 9, many, t), SAQIYA_OK);
  CHECK(many[0].outcome == SAQIYA_ALLOWED && many[1].outcome == SAQIYA_ALLOWED);
  CHECK(t[3].algorithm == SAQIYA_TOKEN_BUCKET && t[5].algorithm == SAQIYA_CONCURRENCY);
  CHECK_EQ(t[6].n, 0x55555555);
  CHECK_EQ(saqiya_limiter_refund(s.limiter, "l", 1, t + 3, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 10);
  CHECK_EQ(remaining(&s), 1);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, 2, 9, many, t), SAQIYA_OK);
  CHECK(many[0].outcome == SAQIYA_DENIED && is_zero(t, 3 * sizeof *t) && t[3].n != 0);
  setup_free(&s);
}

void test_tickets(void) {
  test_settle();
  test_settle_leaves_leases();
  test_renew();
  test_several_rules();
  test_once();
  test_misuse();
  test_forged();
  test_other_table();
  test_reservation();
}

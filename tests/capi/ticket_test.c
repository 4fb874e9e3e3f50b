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

void test_tickets(void) {
  test_once();
  test_misuse();
  test_forged();
  test_other_table();
  test_reservation();
}

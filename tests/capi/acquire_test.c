/* Waiting: how long to pause, and the calls that sleep. Real time is waited, and never measured:
 * only what was decided is looked at. */
#include <saqiya/saqiya.h>
#include <string.h>

#include "check.h"
#include "setup.h"

static const int64_t kSecond = 1000000;

static saqiya_decision denied(int32_t item, int32_t rule, int64_t retry_after_us) {
  saqiya_decision d;
  memset(&d, 0, sizeof d);
  d.outcome = SAQIYA_DENIED;
  d.item = item;
  d.rule = rule;
  d.retry_after_us = retry_after_us;
  return d;
}

static void test_pause(void) {
  static const int64_t looks[] = {5000, 10000, 20000, 40000, 80000, 100000, 100000};
  setup s = setup_open("5/s; concurrency: 2 ttl 30s");
  setup bucket = setup_open("5/s; 100/h");
  setup none = setup_open("unlimited");
  saqiya_item items[3];
  saqiya_decision d = denied(1, 0, 200);
  uint32_t i;
  memset(items, 0, sizeof items);
  items[0].limiter = bucket.limiter;
  items[1].limiter = s.limiter;
  items[2].limiter = none.limiter;
#define PAUSE(attempt, left) saqiya_acquire_pause_us(items, 3, &d, (attempt), (left))
  CHECK_EQ(PAUSE(0, 200), 200);
  CHECK_EQ(PAUSE(7, INT64_MAX), 200);
  CHECK_EQ(PAUSE(0, 199), -1);
  CHECK_EQ(PAUSE(0, 0), -1);
  CHECK_EQ(PAUSE(0, -1), -1);
  CHECK_EQ(PAUSE(0, INT64_MIN), -1);
  d = denied(1, 1, 30 * kSecond); /* a lease binds: it may be released at any time */
  for (i = 0; i < sizeof looks / sizeof *looks; ++i) {
    CHECK_EQ(PAUSE(i, 60 * kSecond), looks[i]);
    CHECK_EQ(PAUSE(i, 3000), 3000);
    CHECK_EQ(PAUSE(i, 1), 1);
    CHECK_EQ(PAUSE(i, 0), -1);
  }
  CHECK_EQ(PAUSE(32, 60 * kSecond), 100000);
  CHECK_EQ(PAUSE(UINT32_MAX, 60 * kSecond), 100000);
  d = denied(1, 1, 700);
  CHECK_EQ(PAUSE(3, 60 * kSecond), 700);
  d = denied(0, 1, 200); /* of the other item */
  CHECK_EQ(PAUSE(0, 200), 200);
  /* Only a denial is waited for. */
  for (i = 0; i <= SAQIYA_UNAVAILABLE + 1; ++i) {
    d.outcome = (int32_t)i;
    CHECK_EQ(PAUSE(0, kSecond), i == SAQIYA_DENIED ? 200 : -1);
  }
  /* A decision that is nobody's. */
  d = denied(3, 0, 200);
  CHECK_EQ(PAUSE(0, kSecond), -1);
  d = denied(-1, 0, 200);
  CHECK_EQ(PAUSE(0, kSecond), -1);
  d = denied(1, 2, 200);
  CHECK_EQ(PAUSE(0, kSecond), -1);
  d = denied(1, -1, 200);
  CHECK_EQ(PAUSE(0, kSecond), -1);
  d = denied(2, 0, 200); /* the unlimited one has no rule */
  CHECK_EQ(PAUSE(0, kSecond), -1);
  d = denied(1, 0, -200);
  CHECK_EQ(PAUSE(0, kSecond), -1);
  d = denied(0, 0, 200);
  CHECK_EQ(saqiya_acquire_pause_us(items, 1, &d, 0, kSecond), -1); /* would have been reserved */
  CHECK_EQ(saqiya_acquire_pause_us(items, 0, &d, 0, kSecond), -1);
  CHECK_EQ(saqiya_acquire_pause_us(items, SAQIYA_MAX_ITEMS + 1, &d, 0, kSecond), -1);
  CHECK_EQ(saqiya_acquire_pause_us(NULL, 1, &d, 0, kSecond), -1);
  CHECK_EQ(saqiya_acquire_pause_us(items, 3, NULL, 0, kSecond), -1);
  items[2].limiter = NULL;
  CHECK_EQ(PAUSE(0, kSecond), -1);
#undef PAUSE
  setup_free(&none);
  setup_free(&bucket);
  setup_free(&s);
}

/* At once: allowed, no time, not in time, never. */
static void test_at_once(void) {
  static const char *const policies[] = {
      "2/h",
      "fixed-window: 2/h",
      "sliding-window: 2/h",
      "sliding-log: 2/h",
      "calendar: 2/day",
      "concurrency: 2 ttl 1h",
      "2/h; fixed-window: 2/day",
      "leaky-bucket: 1/h burst 2 queue 5",
      "leaky-bucket: 1/h burst 2 queue 5; fixed-window: 9/day",
  };
  size_t i;
  for (i = 0; i < sizeof policies / sizeof *policies; ++i) {
    setup s = setup_open(policies[i]);
    saqiya_decision d;
    saqiya_decision after;
    saqiya_ticket tickets[2];
    CHECK_EQ(saqiya_limiter_acquire(s.limiter, "k", 1, 2, 0, &d, tickets), SAQIYA_OK);
    CHECK(d.outcome == SAQIYA_ALLOWED && d.delay_us == 0 && tickets[0].n != 0);
    CHECK_EQ(saqiya_limiter_acquire(s.limiter, "k", 1, 1, 0, &d, tickets), SAQIYA_OK);
    CHECK(d.outcome == SAQIYA_DENIED && d.retry_after_us > 0);
    CHECK(is_zero(tickets, sizeof *tickets));
    CHECK_EQ(saqiya_limiter_acquire(s.limiter, "k", 1, 1, 2000, &d, NULL), SAQIYA_OK);
    CHECK_EQ(d.outcome, SAQIYA_DENIED);
    CHECK_EQ(saqiya_limiter_peek(s.limiter, "k", 1, 1, &after), SAQIYA_OK);
    CHECK_EQ(after.reset_after_us, d.reset_after_us); /* nothing is left charged */
    CHECK_EQ(saqiya_limiter_acquire(s.limiter, "k", 1, 10, SAQIYA_FOREVER, &d, NULL), SAQIYA_OK);
    CHECK_EQ(d.outcome, SAQIYA_NEVER);
    setup_free(&s);
  }
}

static void test_misuse(void) {
  setup s = setup_open("2/h; concurrency: 2 ttl 1h");
  saqiya_decision d;
  saqiya_ticket tickets[2];
#define MISUSE(call)                          \
  do {                                        \
    memset(&d, 0x55, sizeof d);               \
    memset(tickets, 0x55, sizeof tickets);    \
    CHECK_EQ((call), SAQIYA_INVALID);         \
    CHECK(is_zero(&d, sizeof d));             \
    CHECK(is_zero(tickets, sizeof *tickets)); \
  } while (0)
  MISUSE(saqiya_limiter_acquire(NULL, "k", 1, 1, 1, &d, tickets));
  MISUSE(saqiya_limiter_acquire(s.limiter, NULL, 1, 1, 1, &d, tickets));
  CHECK(is_zero(tickets, sizeof tickets));
  MISUSE(saqiya_limiter_acquire(s.limiter, "k", SAQIYA_MAX_KEY + 1, 1, 1, &d, tickets));
  MISUSE(saqiya_limiter_acquire(s.limiter, "k", 1, -1, 1, &d, tickets));
  MISUSE(saqiya_limiter_acquire(s.limiter, "k", 1, 1, -1, &d, tickets));
  CHECK(is_zero(tickets, sizeof tickets));
  MISUSE(saqiya_limiter_acquire(s.limiter, "k", 1, 1, INT64_MIN, &d, tickets));
#undef MISUSE
  CHECK_EQ(saqiya_limiter_acquire(s.limiter, "k", 1, 1, 1, NULL, tickets), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_peek(s.limiter, "k", 1, 0, &d), SAQIYA_OK);
  CHECK_EQ(d.remaining, 2);
  setup_free(&s);
}

/* On the system's clock: each is allowed in the end, having slept. */
static void test_waiting(void) {
  static const char *const policies[] = {
      "50/s burst 1",
      "fixed-window: 1/20ms",
      "sliding-window: 1/20ms",
      "sliding-log: 1/20ms",
      "concurrency: 1 ttl 20ms",
      "50/s burst 1; sliding-log: 2/50ms; concurrency: 2 ttl 30ms",
      "leaky-bucket: 50/s queue 3",
      "leaky-bucket: 50/s queue 3; sliding-log: 2/50ms",
  };
  size_t i;
  int k;
  saqiya_store *store = NULL;
  CHECK_EQ(saqiya_store_open("memory://", NULL, &store, NULL), SAQIYA_OK);
  for (i = 0; i < sizeof policies / sizeof *policies; ++i) {
    saqiya_limiter *limiter = NULL;
    saqiya_decision d;
    saqiya_ticket tickets[3];
    CHECK_EQ(saqiya_limiter_create(store, policies[i], NULL, &limiter, NULL), SAQIYA_OK);
    for (k = 0; k < 5; ++k) {
      memset(tickets, 0, sizeof tickets);
      CHECK_EQ(saqiya_limiter_acquire(limiter, "k", 1, 1, 600 * kSecond, &d, tickets), SAQIYA_OK);
      CHECK(d.outcome == SAQIYA_ALLOWED && tickets[0].n != 0);
    }
    saqiya_limiter_free(limiter);
  }
  saqiya_store_free(store);
}

void test_acquire(void) {
  test_pause();
  test_at_once();
  test_misuse();
  test_waiting();
}

/* Limiters: creation from text and numbers, checks, peeks, take, many at once. */
#include <saqiya/saqiya.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "setup.h"

static void expect_no_limiter(saqiya_store *store, const char *policy, int want, int position) {
  saqiya_limiter *limiter = (saqiya_limiter *)&limiter;
  saqiya_error error;
  CHECK_EQ(saqiya_limiter_create(store, policy, NULL, &limiter, &error), want);
  CHECK(limiter == NULL);
  CHECK_EQ(error.code, want);
  CHECK_EQ(error.position, position);
  CHECK(error.message[0] != '\0');
  CHECK_EQ(saqiya_limiter_create(store, policy, NULL, &limiter, NULL), want);
}

static void test_create_text(void) {
  saqiya_store *store = NULL;
  saqiya_limiter *limiter = NULL;
  saqiya_error error;
  saqiya_rule rule;
  CHECK_EQ(saqiya_store_open("memory://", NULL, &store, NULL), SAQIYA_OK);
  expect_no_limiter(store, "5/month", SAQIYA_BAD_POLICY, 2);
  expect_no_limiter(store, "", SAQIYA_BAD_POLICY, 0);
  expect_no_limiter(store, "5/s burst 9007199254740991", SAQIYA_BAD_POLICY, 10);
  expect_no_limiter(store, NULL, SAQIYA_INVALID, -1);
  expect_no_limiter(NULL, "5/s", SAQIYA_INVALID, -1);
  CHECK_EQ(saqiya_limiter_create(store, "5/s", NULL, NULL, &error), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_create(store, "5/s burst 20", NULL, &limiter, &error), SAQIYA_OK);
  CHECK(is_zero(&error, sizeof error));
  CHECK_TEXT(saqiya_limiter_policy(limiter), "5/s burst 20");
  CHECK_TEXT(saqiya_limiter_name(limiter), "");
  saqiya_rule_init(&rule, sizeof rule);
  CHECK_EQ(saqiya_limiter_get_rule(limiter, 0, &rule), SAQIYA_OK);
  CHECK_EQ(rule.size, sizeof rule);
  CHECK_EQ(rule.algorithm, SAQIYA_TOKEN_BUCKET);
  CHECK(rule.capacity == 20 && rule.tokens == 1 && rule.period_us == 200000);
  CHECK_EQ(saqiya_limiter_rule_count(limiter), 1);
  CHECK_EQ(saqiya_limiter_rule_count(NULL), 0);
  CHECK_EQ(saqiya_limiter_get_rule(limiter, 1, &rule), SAQIYA_INVALID);
  CHECK_EQ(rule.capacity, 0);
  CHECK_EQ(saqiya_limiter_get_rule(NULL, 0, &rule), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_get_rule(limiter, 0, NULL), SAQIYA_INVALID);
  CHECK_TEXT(saqiya_limiter_policy(NULL), "");
  CHECK_TEXT(saqiya_limiter_name(NULL), "");
  saqiya_limiter_free(limiter);
  saqiya_limiter_free(NULL);
  saqiya_store_free(store);
}

static int create_rule(saqiya_store *store, const saqiya_rule *rules, size_t count) {
  saqiya_limiter *limiter = (saqiya_limiter *)&limiter;
  saqiya_error error;
  const int code = saqiya_limiter_create_rules(store, rules, count, NULL, &limiter, &error);
  CHECK((code == SAQIYA_OK) == (limiter != NULL));
  CHECK_EQ(error.code, code);
  if (code != SAQIYA_OK) CHECK_EQ(error.position, -1); /* there is no text */
  saqiya_limiter_free(limiter);
  return code;
}

static void test_create_rules(void) {
  saqiya_store *store = NULL;
  saqiya_rule rule;
  saqiya_limiter *limiter = NULL;
  CHECK_EQ(saqiya_store_open("memory://", NULL, &store, NULL), SAQIYA_OK);
  saqiya_rule_init(NULL, 0);
  saqiya_rule_init(&rule, sizeof rule);
  CHECK_EQ(rule.size, sizeof rule);
  rule.capacity = 20;
  rule.tokens = 5;
  rule.period_us = 1000000;
  CHECK_EQ(create_rule(store, &rule, 1), SAQIYA_OK);
  CHECK_EQ(create_rule(store, &rule, 0), SAQIYA_INVALID);
  CHECK_EQ(create_rule(store, NULL, 1), SAQIYA_INVALID);
  CHECK_EQ(create_rule(NULL, &rule, 1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_create_rules(store, &rule, 1, NULL, NULL, NULL), SAQIYA_INVALID);
  rule.algorithm = SAQIYA_CONCURRENCY + 1;
  CHECK_EQ(create_rule(store, &rule, 1), SAQIYA_BAD_POLICY);
  rule.algorithm = UINT32_MAX;
  CHECK_EQ(create_rule(store, &rule, 1), SAQIYA_BAD_POLICY);
  rule.algorithm = SAQIYA_TOKEN_BUCKET;
  rule.capacity = -1;
  CHECK_EQ(create_rule(store, &rule, 1), SAQIYA_BAD_POLICY);
  rule.capacity = 1;
  rule.tokens = 1;
  rule.period_us = (INT64_C(1) << 50) + 1;
  CHECK_EQ(create_rule(store, &rule, 1), SAQIYA_BAD_POLICY);
  rule.size = 0;
  CHECK_EQ(create_rule(store, &rule, 1), SAQIYA_INVALID);
  saqiya_rule_init(&rule, sizeof rule);
  rule.algorithm = SAQIYA_NO_LIMIT;
  CHECK_EQ(saqiya_limiter_create_rules(store, &rule, 1, NULL, &limiter, NULL), SAQIYA_OK);
  CHECK_TEXT(saqiya_limiter_policy(limiter), "unlimited");
  CHECK_EQ(saqiya_limiter_get_rule(limiter, 0, &rule), SAQIYA_OK);
  CHECK_EQ(rule.algorithm, SAQIYA_NO_LIMIT);
  saqiya_limiter_free(limiter);
  saqiya_store_free(store);
}

static void test_check(void) {
  setup s = setup_open("5/s burst 3");
  static const char big[SAQIYA_MAX_KEY + 1] = {0};
  saqiya_decision d;
  saqiya_ticket t;
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, &t), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.limit == 3 && d.remaining == 2 && d.rule == 0);
  CHECK(d.reset_after_us == 200000 && d.retry_after_us == 0 && d.delay_us == 0);
  CHECK(t.n == 1 && t.cost == 1 && t.flags == 0);
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 3, &d, &t), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_DENIED && d.remaining == 2 && d.retry_after_us == 200000);
  CHECK(is_zero(&t, sizeof t));
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 4, &d, NULL), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_NEVER && d.retry_after_us == SAQIYA_FOREVER);
  CHECK_EQ(saqiya_limiter_check(s.limiter, NULL, 0, 0, &d, NULL), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  CHECK_EQ(saqiya_limiter_check(s.limiter, big, SAQIYA_MAX_KEY, 1, &d, NULL), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  CHECK_EQ(saqiya_limiter_check_wait(s.limiter, "w", 1, 3, 0, &d, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_check_wait(s.limiter, "w", 1, 1, INT64_MAX, &d, &t), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.delay_us == 200000 && t.flags == 2);
  CHECK_EQ(saqiya_limiter_peek(s.limiter, "k", 1, 1, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 2);

  /* Misuse: outputs are zeroed, nothing is charged (C40). */
#define MISUSE(call)                  \
  do {                                \
    memset(&d, 0x55, sizeof d);       \
    memset(&t, 0x55, sizeof t);       \
    CHECK_EQ((call), SAQIYA_INVALID); \
    CHECK(is_zero(&d, sizeof d));     \
  } while (0)
  MISUSE(saqiya_limiter_check(NULL, "k", 1, 1, &d, &t));
  CHECK(is_zero(&t, sizeof t));
  MISUSE(saqiya_limiter_check(s.limiter, NULL, 1, 1, &d, &t));
  MISUSE(saqiya_limiter_check(s.limiter, big, SAQIYA_MAX_KEY + 1, 1, &d, &t));
  MISUSE(saqiya_limiter_check(s.limiter, "k", SIZE_MAX, 1, &d, &t));
  MISUSE(saqiya_limiter_check(s.limiter, "k", 1, -1, &d, &t));
  MISUSE(saqiya_limiter_check(s.limiter, "k", 1, SAQIYA_MAX_COST + 1, &d, &t));
  MISUSE(saqiya_limiter_check(s.limiter, "k", 1, INT64_MIN, &d, &t));
  MISUSE(saqiya_limiter_check_wait(s.limiter, "k", 1, 1, -2, &d, &t));
  MISUSE(saqiya_limiter_check_wait(s.limiter, "k", 1, 1, INT64_MIN, &d, &t));
  MISUSE(saqiya_limiter_check_wait(NULL, "k", 1, 1, 1, &d, &t));
  CHECK(is_zero(&t, sizeof t));
  MISUSE(saqiya_limiter_peek(NULL, "k", 1, 1, &d));
  MISUSE(saqiya_limiter_peek(s.limiter, "k", 1, -1, &d));
  MISUSE(saqiya_limiter_reset(NULL, "k", 1, &d));
  MISUSE(saqiya_limiter_reset(s.limiter, NULL, 1, &d));
#undef MISUSE
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, NULL, &t), SAQIYA_INVALID);
  CHECK(is_zero(&t, sizeof t));
  CHECK_EQ(saqiya_limiter_peek(s.limiter, "k", 1, 1, NULL), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_peek(s.limiter, "k", 1, 1, &d), SAQIYA_OK);
  CHECK_EQ(d.remaining, 2);
  setup_free(&s);
}

static void test_take(void) {
  setup s = setup_open("5/s burst 3");
  CHECK_EQ(saqiya_limiter_take(s.limiter, "k", 1, 2), 1);
  CHECK_EQ(saqiya_limiter_take(s.limiter, "k", 1, 1), 0);
  CHECK_EQ(saqiya_limiter_take(s.limiter, "k", 1, 1), -200000);
  CHECK_EQ(saqiya_limiter_take(s.limiter, "k", 1, 0), 0);
  CHECK(saqiya_limiter_take(s.limiter, "k", 1, 4) == SAQIYA_TAKE_NEVER);
  CHECK(saqiya_limiter_take(NULL, "k", 1, 1) == SAQIYA_TAKE_MISUSE);
  CHECK(saqiya_limiter_take(s.limiter, NULL, 1, 1) == SAQIYA_TAKE_MISUSE);
  CHECK(saqiya_limiter_take(s.limiter, "k", 1, -1) == SAQIYA_TAKE_MISUSE);
  setup_free(&s);
}

static void test_many(void) {
  setup s = setup_open("2/h");
  static const char big[SAQIYA_MAX_KEY + 1] = {0};
  saqiya_key keys[4] = {{"a", 1}, {"b", 1}, {"a", 1}, {"a", 1}};
  saqiya_decision d[4];
  saqiya_ticket t[4];
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, 4, 1, d, t), SAQIYA_OK);
  CHECK(d[0].remaining == 1 && d[1].remaining == 1 && d[2].remaining == 0);
  CHECK(d[3].outcome == SAQIYA_DENIED && t[2].n == 1 && t[3].n == 0);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, 4, 0, d, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, NULL, 0, 1, NULL, NULL), SAQIYA_OK);
  keys[3].data = big;
  keys[3].len = SAQIYA_MAX_KEY + 1;
  memset(d, 0x55, sizeof d);
  memset(t, 0x55, sizeof t);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, 4, 1, d, t), SAQIYA_INVALID);
  CHECK(is_zero(d, sizeof d) && is_zero(t, sizeof t));
  keys[3].len = 1;
  keys[3].data = NULL;
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, 4, 1, d, t), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, 3, -1, d, t), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, 3, 1, NULL, t), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, NULL, 3, 1, d, t), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_check_many(NULL, keys, 3, 1, d, t), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, SIZE_MAX, 1, d, t), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, keys, SIZE_MAX / 64 + 2, 1, d, t), SAQIYA_INVALID);
  CHECK_EQ(saqiya_limiter_peek(s.limiter, "b", 1, 1, d), SAQIYA_OK);
  CHECK_EQ(d[0].remaining, 1); /* the calls that failed charged nothing */
  setup_free(&s);
}

static void test_unlimited(void) {
  setup s = setup_open("unlimited");
  saqiya_key key = {"k", 1};
  saqiya_decision d;
  saqiya_ticket t;
  saqiya_store_stats stats;
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, SAQIYA_MAX_COST, &d, &t), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.limit == SAQIYA_UNLIMITED);
  CHECK(d.remaining == SAQIYA_UNLIMITED && t.n == 0);
  CHECK(saqiya_limiter_take(s.limiter, "k", 1, 1) == SAQIYA_UNLIMITED);
  CHECK_EQ(saqiya_limiter_peek(s.limiter, "k", 1, 1, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  CHECK_EQ(saqiya_limiter_check_many(s.limiter, &key, 1, 1, &d, &t), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  CHECK_EQ(saqiya_limiter_refund(s.limiter, "k", 1, &t, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_DENIED);
  CHECK_EQ(saqiya_limiter_settle(s.limiter, "k", 1, &t, 3, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_DENIED);
  CHECK_EQ(saqiya_limiter_renew(s.limiter, "k", 1, &t, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_DENIED);
  CHECK_EQ(saqiya_limiter_acquire(s.limiter, "k", 1, 1, SAQIYA_FOREVER, &d, &t), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.delay_us == 0);
  CHECK_EQ(saqiya_limiter_rule_count(s.limiter), 1);
  CHECK_EQ(saqiya_limiter_reset(s.limiter, "k", 1, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  saqiya_store_stats_init(&stats, sizeof stats);
  CHECK_EQ(saqiya_store_get_stats(s.store, &stats), SAQIYA_OK);
  CHECK_EQ(stats.keys, 0);
  setup_free(&s);
}

void test_limiters(void) {
  test_create_text();
  test_create_rules();
  test_check();
  test_take();
  test_many();
  test_unlimited();
}

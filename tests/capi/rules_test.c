/* Rules as numbers: every algorithm there and back, ranges, arrays of older and newer callers. */
#include <saqiya/saqiya.h>
#include <string.h>

#include "check.h"
#include "setup.h"

/* A rule as the first version had it, and one as a later version may have it. */
typedef struct older_rule {
  uint32_t size;
  uint32_t algorithm;
  int64_t capacity;
  int64_t tokens;
  int64_t period_us;
} older_rule;

typedef struct newer_rule {
  saqiya_rule known;
  uint64_t unknown;
} newer_rule;

static saqiya_rule rule_of(uint32_t algorithm, int64_t capacity, int64_t period_us) {
  saqiya_rule rule;
  saqiya_rule_init(&rule, sizeof rule);
  rule.algorithm = algorithm;
  rule.capacity = capacity;
  rule.period_us = period_us;
  return rule;
}

static saqiya_rule bucket(int64_t capacity, int64_t tokens, int64_t period_us, int64_t queue) {
  saqiya_rule rule = rule_of(SAQIYA_TOKEN_BUCKET, capacity, period_us);
  rule.tokens = tokens;
  rule.queue = queue;
  return rule;
}

static saqiya_rule calendar(int32_t unit, int32_t anchor_day, const char *zone) {
  saqiya_rule rule = rule_of(SAQIYA_CALENDAR, 10, 0);
  rule.unit = unit;
  rule.anchor_day = anchor_day;
  rule.zone = zone;
  return rule;
}

static int create(const void *rules, size_t count) {
  setup s = setup_open("unlimited");
  saqiya_limiter *limiter = (saqiya_limiter *)&limiter;
  saqiya_error error;
  const int code = saqiya_limiter_create_rules(s.store, (const saqiya_rule *)rules, count, NULL,
                                               &limiter, &error);
  CHECK((code == SAQIYA_OK) == (limiter != NULL));
  CHECK_EQ(error.code, code);
  if (code != SAQIYA_OK) CHECK(error.position == -1 && error.message[0] != '\0');
  saqiya_limiter_free(limiter);
  setup_free(&s);
  return code;
}

/* What get_rule tells makes the same policy again, and so does the text. */
static void there_and_back(const saqiya_rule *rules, size_t count, const char *text) {
  setup s = setup_open("unlimited");
  saqiya_limiter *limiter = NULL;
  saqiya_limiter *again = NULL;
  saqiya_rule told[SAQIYA_MAX_RULES];
  saqiya_error error;
  size_t i;
  CHECK_EQ(saqiya_limiter_create_rules(s.store, rules, count, NULL, &limiter, &error), SAQIYA_OK);
  CHECK_TEXT(saqiya_limiter_policy(limiter), text);
  CHECK_EQ(saqiya_limiter_rule_count(limiter), count);
  for (i = 0; i < count; ++i) {
    saqiya_rule_init(&told[i], sizeof *told);
    CHECK_EQ(saqiya_limiter_get_rule(limiter, i, &told[i]), SAQIYA_OK);
    CHECK_EQ(told[i].algorithm, rules[i].algorithm);
    CHECK_EQ(told[i].capacity, rules[i].capacity);
    CHECK_EQ(told[i].queue, rules[i].queue);
    CHECK_EQ(told[i].unit, rules[i].unit);
    if (rules[i].algorithm == SAQIYA_CALENDAR) {
      CHECK_EQ(told[i].period_us, 0);
      CHECK_TEXT(told[i].zone, rules[i].zone != NULL ? rules[i].zone : "UTC");
    } else {
      CHECK(told[i].zone == NULL);
    }
    if (rules[i].algorithm != SAQIYA_TOKEN_BUCKET) {
      CHECK_EQ(told[i].period_us, rules[i].period_us);
      CHECK_EQ(told[i].tokens, 0);
    }
  }
  CHECK_EQ(saqiya_limiter_get_rule(limiter, count, &told[0]), SAQIYA_INVALID);
  saqiya_rule_init(&told[0], sizeof *told);
  CHECK_EQ(saqiya_limiter_get_rule(limiter, 0, &told[0]), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_create_rules(s.store, told, count, NULL, &again, NULL), SAQIYA_OK);
  CHECK_TEXT(saqiya_limiter_policy(again), text);
  saqiya_limiter_free(again);
  again = NULL;
  CHECK_EQ(saqiya_limiter_create(s.store, text, NULL, &again, NULL), SAQIYA_OK);
  CHECK_TEXT(saqiya_limiter_policy(again), text);
  saqiya_limiter_free(again);
  saqiya_limiter_free(limiter);
  setup_free(&s);
}

static void test_every_algorithm(void) {
  static const char *const texts[] = {
      "fixed-window: 100/min",  "sliding-window: 1000/h",
      "sliding-log: 5/15min",   "calendar: 10/month anchor 15 tz Africa/Cairo",
      "concurrency: 5 ttl 30s", "calendar: 10/day tz UTC",
  };
  saqiya_rule rules[6];
  size_t i;
  rules[0] = rule_of(SAQIYA_FIXED_WINDOW, 100, 60000000);
  rules[1] = rule_of(SAQIYA_SLIDING_WINDOW, 1000, INT64_C(3600000000));
  rules[2] = rule_of(SAQIYA_SLIDING_LOG, 5, 900000000);
  rules[3] = calendar(SAQIYA_MONTH, 15, "Africa/Cairo");
  rules[4] = rule_of(SAQIYA_CONCURRENCY, 5, 30000000);
  rules[5] = calendar(SAQIYA_DAY, 0, NULL);
  for (i = 0; i < 6; ++i) there_and_back(&rules[i], 1, texts[i]);
  rules[0] = bucket(1, 10, 1000000, 50);
  CHECK_EQ(create(rules, 6), SAQIYA_OK);
}

static void test_several(void) {
  saqiya_rule rules[SAQIYA_MAX_RULES + 1];
  saqiya_rule none;
  int i;
  rules[0] = bucket(20, 5, 1000000, 0);
  rules[1] = bucket(1000, 1000, INT64_C(86400000000), 0);
  there_and_back(rules, 2, "5/s burst 20; 1000/d burst 1000");
  for (i = 0; i <= SAQIYA_MAX_RULES; ++i) rules[i] = rule_of(SAQIYA_FIXED_WINDOW, 10, i + 1);
  CHECK_EQ(create(rules, SAQIYA_MAX_RULES), SAQIYA_OK);
  CHECK_EQ(create(rules, SAQIYA_MAX_RULES + 1), SAQIYA_INVALID);
  CHECK_EQ(create(rules, SIZE_MAX), SAQIYA_INVALID);
  CHECK_EQ(create(rules, 0), SAQIYA_INVALID);
  CHECK_EQ(create(NULL, 2), SAQIYA_INVALID);
  rules[1] = rules[0]; /* the same algorithm and period twice */
  rules[1].capacity = 11;
  CHECK_EQ(create(rules, 2), SAQIYA_BAD_POLICY);
  none = rule_of(SAQIYA_NO_LIMIT, 0, 0);
  rules[1] = none;
  CHECK_EQ(create(rules, 2), SAQIYA_BAD_POLICY);
  rules[0] = none;
  CHECK_EQ(create(rules, 1), SAQIYA_OK);
  rules[1] = rule_of(SAQIYA_FIXED_WINDOW, 10, 1);
  CHECK_EQ(create(rules, 2), SAQIYA_BAD_POLICY);
}

static void test_sizes(void) {
  setup s = setup_open("unlimited");
  older_rule older[2] = {{sizeof(older_rule), SAQIYA_TOKEN_BUCKET, 20, 5, 1000000},
                         {sizeof(older_rule), 0, 30, 1, 7000000}};
  newer_rule newer[2];
  older_rule told = {sizeof(older_rule), 0, 0, 0, 0};
  saqiya_limiter *limiter = NULL;
  CHECK_EQ(saqiya_limiter_create_rules(s.store, (const saqiya_rule *)(const void *)older, 2, NULL,
                                       &limiter, NULL),
           SAQIYA_OK);
  CHECK_TEXT(saqiya_limiter_policy(limiter), "5/s burst 20; 1/7s burst 30");
  CHECK_EQ(saqiya_limiter_get_rule(limiter, 1, (saqiya_rule *)(void *)&told), SAQIYA_OK);
  CHECK(told.capacity == 30 && told.tokens == 1 && told.period_us == 7000000);
  saqiya_limiter_free(limiter);
  older[1].size = 24;
  CHECK_EQ(create(older, 2), SAQIYA_INVALID);
  CHECK_EQ(create(older, 1), SAQIYA_OK);
  memset(newer, 0, sizeof newer);
  saqiya_rule_init(&newer[0].known, sizeof *newer);
  saqiya_rule_init(&newer[1].known, sizeof *newer);
  newer[0].known.algorithm = SAQIYA_SLIDING_LOG;
  newer[0].known.capacity = 3;
  newer[0].known.period_us = 1000000;
  newer[1].known = bucket(1, 1, 1000000, 9);
  newer[1].known.size = sizeof *newer;
  CHECK_EQ(create(newer, 2), SAQIYA_OK);
  newer[1].unknown = 1;
  CHECK_EQ(create(newer, 2), SAQIYA_INVALID);
  setup_free(&s);
}

#define BAD(rule)                                 \
  do {                                            \
    const saqiya_rule bad = (rule);               \
    CHECK_EQ(create(&bad, 1), SAQIYA_BAD_POLICY); \
  } while (0)
#define GOOD(rule)                         \
  do {                                     \
    const saqiya_rule good = (rule);       \
    CHECK_EQ(create(&good, 1), SAQIYA_OK); \
  } while (0)

static void test_ranges(void) {
  static const uint32_t windows[] = {SAQIYA_FIXED_WINDOW, SAQIYA_SLIDING_WINDOW, SAQIYA_SLIDING_LOG,
                                     SAQIYA_CONCURRENCY};
  static const int64_t most[] = {SAQIYA_MAX_COST, INT64_C(4294967295), INT64_C(4294967295), 65535};
  static const int bits[] = {50, 50, 47, 47};
  size_t i;
  for (i = 0; i < 4; ++i) {
    const int64_t longest = INT64_C(1) << bits[i];
    GOOD(rule_of(windows[i], 0, 1));
    GOOD(rule_of(windows[i], most[i], longest));
    BAD(rule_of(windows[i], most[i] + 1, longest));
    BAD(rule_of(windows[i], -1, longest));
    BAD(rule_of(windows[i], INT64_MIN, longest));
    BAD(rule_of(windows[i], 1, longest + 1));
    BAD(rule_of(windows[i], 1, 0));
    BAD(rule_of(windows[i], 1, -1));
    BAD(rule_of(windows[i], 1, INT64_MIN));
  }
  GOOD(bucket(1, 1, 1000000, 0));
  GOOD(bucket(1, 1, 1, INT64_C(1) << 50));
  BAD(bucket(1, 1, 1, (INT64_C(1) << 50) + 1));
  BAD(bucket(1, 1, 1000000, -1));
  BAD(bucket(1, 1, 1000000, INT64_MAX));
  GOOD(calendar(SAQIYA_WEEK, 0, ""));
  GOOD(calendar(SAQIYA_YEAR, 0, "America/Santiago"));
  GOOD(calendar(SAQIYA_MONTH, 31, "UTC"));
  BAD(calendar(0, 0, NULL));
  BAD(calendar(5, 0, NULL));
  BAD(calendar(-1, 0, NULL));
  BAD(calendar(SAQIYA_MONTH, 32, NULL));
  BAD(calendar(SAQIYA_MONTH, -1, NULL));
  BAD(calendar(SAQIYA_DAY, 2, NULL));
  BAD(calendar(SAQIYA_DAY, 0, "Nowhere/At all"));
  BAD(calendar(SAQIYA_DAY, 0, "../../etc/passwd"));
}

void test_rules(void) {
  test_every_algorithm();
  test_several();
  test_sizes();
  test_ranges();
}

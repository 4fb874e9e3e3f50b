/* Several limiters in one decision: all or nothing, what each rule says, misuse. */
#include <saqiya/saqiya.h>
#include <string.h>

#include "check.h"
#include "setup.h"

static saqiya_limiter *limiter_of(saqiya_store *store, const char *policy, const char *name) {
  saqiya_limiter_options o;
  saqiya_limiter *limiter = NULL;
  saqiya_limiter_options_init(&o, sizeof o);
  o.name = name;
  CHECK_EQ(saqiya_limiter_create(store, policy, &o, &limiter, NULL), SAQIYA_OK);
  return limiter;
}

static saqiya_item item_of(saqiya_limiter *limiter, const char *key, int64_t cost) {
  saqiya_item item;
  item.limiter = limiter;
  item.key = key;
  item.key_len = strlen(key);
  item.cost = cost;
  return item;
}

static int64_t remaining(saqiya_limiter *limiter, const char *key) {
  saqiya_decision d;
  CHECK_EQ(saqiya_limiter_peek(limiter, key, strlen(key), 0, &d), SAQIYA_OK);
  return d.remaining;
}

static void test_all_or_nothing(void) {
  setup s = setup_open("100/h");
  saqiya_limiter *user = limiter_of(s.store, "1/h", NULL);
  saqiya_item items[2];
  saqiya_decision d;
  saqiya_decision each[2];
  saqiya_ticket tickets[2];
  int i;
  items[0] = item_of(user, "u", 1);
  items[1] = item_of(s.limiter, "all", 1);
  for (i = 0; i < 20; ++i) {
    CHECK_EQ(saqiya_check_all(items, 2, 0, &d, each, tickets), SAQIYA_OK);
    CHECK_EQ(d.outcome, i == 0 ? SAQIYA_ALLOWED : SAQIYA_DENIED);
    CHECK(d.item == 0 && d.rule == 0 && d.limit == 1 && d.remaining == 0);
    CHECK_EQ(each[0].outcome, d.outcome);
    CHECK(each[1].outcome == SAQIYA_ALLOWED && each[1].item == 1);
    if (i == 0) {
      CHECK(tickets[0].n != 0 && tickets[1].n != 0);
    } else {
      CHECK(is_zero(tickets, sizeof tickets));
      CHECK(d.retry_after_us > 0 && d.retry_after_us == each[0].retry_after_us);
    }
  }
  CHECK_EQ(remaining(s.limiter, "all"), 99);
  /* The order does not matter to the outcome. */
  items[1] = items[0];
  items[0] = item_of(s.limiter, "all", 1);
  CHECK_EQ(saqiya_check_all(items, 2, 0, &d, NULL, NULL), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_DENIED && d.item == 1);
  items[1].cost = 2; /* above its limit: never, whatever the others say */
  CHECK_EQ(saqiya_check_all(items, 2, SAQIYA_FOREVER, &d, each, NULL), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_NEVER && d.item == 1 && d.retry_after_us == SAQIYA_FOREVER);
  CHECK_EQ(each[0].outcome, SAQIYA_ALLOWED);
  items[1].cost = 1; /* willing to wait: reserved */
  CHECK_EQ(saqiya_check_all(items, 2, SAQIYA_FOREVER, &d, each, tickets), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.delay_us == each[1].delay_us && d.delay_us > 0);
  CHECK_EQ(saqiya_refund_all(items, 2, tickets, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  CHECK_EQ(remaining(s.limiter, "all"), 99);
  saqiya_limiter_free(user);
  setup_free(&s);
}

static void test_peek_and_refund(void) {
  setup s = setup_open("fixed-window: 10/h; concurrency: 3 ttl 1h");
  saqiya_limiter *other = limiter_of(s.store, "sliding-log: 4/h", NULL);
  saqiya_item items[2];
  saqiya_decision d;
  saqiya_decision each[3];
  saqiya_ticket tickets[3];
  items[0] = item_of(s.limiter, "a", 2);
  items[1] = item_of(other, "b", 1);
  CHECK_EQ(saqiya_peek_all(items, 2, &d, each), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && each[0].remaining == 10 && each[1].remaining == 3);
  CHECK_EQ(each[2].remaining, 4);
  CHECK_EQ(saqiya_check_all(items, 2, 0, &d, each, tickets), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.item == 0 && d.rule == 1 && d.remaining == 1);
  CHECK(each[0].remaining == 8 && each[1].remaining == 1 && each[2].remaining == 3);
  CHECK(each[1].rule == 1 && each[1].item == 0 && each[2].rule == 0 && each[2].item == 1);
  CHECK(tickets[1].algorithm == SAQIYA_CONCURRENCY && tickets[1].lease != 0);
  CHECK_EQ(saqiya_peek_all(items, 2, &d, NULL), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_DENIED && d.rule == 1 && d.item == 0);
  /* One item alone, then the rest: what is spent gives nothing twice. */
  CHECK_EQ(saqiya_limiter_settle(other, "b", 1, tickets + 2, 3, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 1 && tickets[2].flags == 1);
  CHECK_EQ(saqiya_limiter_renew(s.limiter, "a", 1, tickets, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && tickets[1].flags == 0);
  items[0].cost = -7; /* costs do not matter here */
  CHECK_EQ(saqiya_refund_all(items, 2, tickets, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && (tickets[0].flags & tickets[1].flags & 1) == 1);
  CHECK(remaining(s.limiter, "a") == 10 && remaining(other, "b") == 1);
  CHECK_EQ(saqiya_refund_all(items, 2, tickets, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_refund_all(items, 2, tickets, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_DENIED);
  saqiya_limiter_free(other);
  setup_free(&s);
}

/* What has one state is asked once, for the sum. */
static void test_equal_items(void) {
  setup s = setup_open("5/h");
  saqiya_limiter *same = limiter_of(s.store, "5/h", NULL); /* unnamed: the same state */
  saqiya_item items[SAQIYA_MAX_ITEMS + 1];
  saqiya_decision d;
  saqiya_decision each[SAQIYA_MAX_ITEMS + 1];
  saqiya_ticket tickets[SAQIYA_MAX_ITEMS + 1];
  int i;
  for (i = 0; i <= SAQIYA_MAX_ITEMS; ++i) items[i] = item_of(i % 2 ? same : s.limiter, "k", 0);
  items[0].cost = 2;
  items[1].cost = 2;
  CHECK_EQ(saqiya_check_all(items, SAQIYA_MAX_ITEMS, 0, &d, each, tickets), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 1 && each[15].remaining == 1);
  CHECK_EQ(saqiya_check_all(items, 2, 0, &d, each, NULL), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_DENIED && each[0].retry_after_us == each[1].retry_after_us);
  CHECK_EQ(saqiya_limiter_refund(same, "k", 1, tickets + 1, &d), SAQIYA_OK);
  CHECK_EQ(d.remaining, 3);
  CHECK_EQ(saqiya_limiter_refund(s.limiter, "k", 1, tickets, &d), SAQIYA_OK);
  CHECK_EQ(d.remaining, 5);
  items[0].cost = 3;
  items[1].cost = 3;
  CHECK_EQ(saqiya_check_all(items, 2, 0, &d, each, NULL), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_NEVER && each[0].outcome == SAQIYA_NEVER);
  CHECK_EQ(saqiya_check_all(items, SAQIYA_MAX_ITEMS + 1, 0, &d, each, NULL), SAQIYA_INVALID);
  saqiya_limiter_free(same);
  setup_free(&s);
}

static void test_unlimited(void) {
  setup s = setup_open("unlimited");
  saqiya_limiter *some = limiter_of(s.store, "5/h", NULL);
  saqiya_item items[3];
  saqiya_decision d;
  saqiya_decision each[3];
  saqiya_ticket tickets[3];
  saqiya_store_stats stats;
  items[0] = item_of(s.limiter, "k", SAQIYA_MAX_COST);
  items[1] = item_of(some, "k", 2);
  items[2] = items[0];
  memset(tickets, 0x55, sizeof tickets);
  CHECK_EQ(saqiya_check_all(items, 1, 0, &d, each, tickets), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.limit == SAQIYA_UNLIMITED);
  CHECK(each[0].outcome == SAQIYA_ALLOWED && is_zero(tickets, sizeof *tickets));
  CHECK_EQ(saqiya_refund_all(items, 1, tickets, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_DENIED);
  CHECK_EQ(saqiya_acquire_all(items, 1, SAQIYA_FOREVER, &d, each, tickets), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  saqiya_store_stats_init(&stats, sizeof stats);
  CHECK_EQ(saqiya_store_get_stats(s.store, &stats), SAQIYA_OK);
  CHECK_EQ(stats.keys, 0);
  CHECK_EQ(saqiya_check_all(items, 3, 0, &d, each, tickets), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.limit == 5 && d.item == 1 && d.remaining == 3);
  CHECK(each[0].limit == SAQIYA_UNLIMITED && each[1].limit == 5);
  CHECK(each[2].limit == SAQIYA_UNLIMITED && each[2].outcome == SAQIYA_ALLOWED);
  CHECK(tickets[0].n == 0 && tickets[1].n != 0 && tickets[2].n == 0);
  CHECK_EQ(saqiya_refund_all(items, 3, tickets, &d), SAQIYA_OK);
  CHECK(d.outcome == SAQIYA_ALLOWED && d.remaining == 5);
  saqiya_limiter_free(some);
  setup_free(&s);
}

/* One name, one key, two different rules: which one would hold? */
static void test_one_name(void) {
  setup s = setup_open("unlimited");
  saqiya_limiter *five = limiter_of(s.store, "5/h", "n");
  saqiya_limiter *six = limiter_of(s.store, "6/h", "n");
  saqiya_limiter *window = limiter_of(s.store, "fixed-window: 5/h", "n");
  saqiya_limiter *month = limiter_of(s.store, "calendar: 5/month tz Africa/Cairo", "n");
  saqiya_limiter *same_month = limiter_of(s.store, "calendar: 5/month tz Africa/Cairo", "n");
  saqiya_item items[2];
  saqiya_decision d;
  items[0] = item_of(five, "k", 1);
  items[1] = item_of(six, "k", 1);
  CHECK_EQ(saqiya_check_all(items, 2, 0, &d, NULL, NULL), SAQIYA_INVALID);
  items[1] = item_of(six, "other", 1);
  CHECK_EQ(saqiya_check_all(items, 2, 0, &d, NULL, NULL), SAQIYA_OK);
  items[1] = item_of(window, "k", 1); /* another algorithm has a state of its own */
  CHECK_EQ(saqiya_check_all(items, 2, 0, &d, NULL, NULL), SAQIYA_OK);
  items[0] = item_of(month, "k", 1);
  items[1] = item_of(same_month, "k", 1);
  CHECK_EQ(saqiya_check_all(items, 2, 0, &d, NULL, NULL), SAQIYA_OK);
  CHECK_EQ(d.remaining, 3);
  saqiya_limiter_free(five);
  saqiya_limiter_free(six);
  saqiya_limiter_free(window);
  saqiya_limiter_free(month);
  saqiya_limiter_free(same_month);
  setup_free(&s);
}

static void test_misuse(void) {
  setup s = setup_open("10/h; concurrency: 3 ttl 1h");
  setup foreign = setup_open("10/h");
  static const char big[SAQIYA_MAX_KEY + 1] = {0};
  saqiya_item items[2];
  saqiya_decision d;
  saqiya_decision each[4];
  saqiya_ticket tickets[4];
  saqiya_ticket good[4];
#define EVERY(code)                                                                    \
  do {                                                                                 \
    CHECK_EQ(saqiya_check_all(items, 2, 0, &d, each, tickets), (code));                \
    CHECK_EQ(saqiya_peek_all(items, 2, &d, each), (code));                             \
    CHECK_EQ(saqiya_acquire_all(items, 2, SAQIYA_FOREVER, &d, each, tickets), (code)); \
  } while (0)
#define MISUSE(change)                            \
  do {                                            \
    items[0] = item_of(s.limiter, "k", 1);        \
    items[1] = item_of(s.limiter, "l", 1);        \
    change;                                       \
    memset(&d, 0x55, sizeof d);                   \
    memset(each, 0x55, sizeof each);              \
    memset(tickets, 0x55, sizeof tickets);        \
    EVERY(SAQIYA_INVALID);                        \
    CHECK(is_zero(&d, sizeof d));                 \
    CHECK(is_zero(each, 2 * sizeof *each));       \
    CHECK(is_zero(tickets, 2 * sizeof *tickets)); \
  } while (0)
  MISUSE(items[1].limiter = NULL);
  CHECK_EQ(each[2].rule, 0x55555555); /* no room behind the limiters that there are */
  MISUSE(items[1].limiter = foreign.limiter);
  MISUSE(items[1].key = NULL);
  MISUSE(items[1].key = big; items[1].key_len = SAQIYA_MAX_KEY + 1);
  MISUSE(items[1].key_len = UINT64_MAX);
  MISUSE(items[1].cost = -1);
  MISUSE(items[1].cost = SAQIYA_MAX_COST + 1);
#undef MISUSE
#undef EVERY
  items[0] = item_of(s.limiter, "k", 1);
  items[1] = item_of(s.limiter, "l", 1);
#define INVALID(call)                 \
  do {                                \
    memset(&d, 0x55, sizeof d);       \
    CHECK_EQ((call), SAQIYA_INVALID); \
    CHECK(is_zero(&d, sizeof d));     \
  } while (0)
  INVALID(saqiya_check_all(NULL, 2, 0, &d, each, tickets));
  INVALID(saqiya_check_all(items, 0, 0, &d, each, tickets));
  INVALID(saqiya_check_all(items, SIZE_MAX, 0, &d, each, tickets));
  INVALID(saqiya_check_all(items, 2, -2, &d, each, tickets));
  INVALID(saqiya_peek_all(NULL, 2, &d, each));
  INVALID(saqiya_peek_all(items, 0, &d, each));
  INVALID(saqiya_acquire_all(NULL, 2, 1, &d, each, tickets));
  INVALID(saqiya_acquire_all(items, 0, 1, &d, each, tickets));
  INVALID(saqiya_acquire_all(items, 2, -1, &d, each, tickets));
  INVALID(saqiya_refund_all(NULL, 2, tickets, &d));
  INVALID(saqiya_refund_all(items, 0, tickets, &d));
  INVALID(saqiya_refund_all(items, 2, NULL, &d));
#undef INVALID
  CHECK_EQ(saqiya_check_all(items, 2, 0, NULL, each, tickets), SAQIYA_INVALID);
  CHECK_EQ(saqiya_peek_all(items, 2, NULL, each), SAQIYA_INVALID);
  CHECK_EQ(saqiya_acquire_all(items, 2, 1, NULL, each, tickets), SAQIYA_INVALID);
  CHECK(is_zero(each, sizeof each) && is_zero(tickets, sizeof tickets));
  CHECK_EQ(saqiya_check_all(items, 2, 0, &d, NULL, good), SAQIYA_OK);
  items[1].limiter = foreign.limiter;
  CHECK_EQ(saqiya_refund_all(items, 2, good, &d), SAQIYA_INVALID);
  CHECK((good[0].flags | good[1].flags | good[2].flags) == 0); /* misuse spends nothing */
  items[1].limiter = s.limiter;
  CHECK_EQ(saqiya_refund_all(items, 2, good, &d), SAQIYA_OK);
  CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
  setup_free(&foreign);
  setup_free(&s);
}

void test_items_together(void) {
  test_all_or_nothing();
  test_peek_and_refund();
  test_equal_items();
  test_unlimited();
  test_one_name();
  test_misuse();
}

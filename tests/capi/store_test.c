/* Clocks and stores: ranges, ownership, options from older and newer callers. */
#include <saqiya/saqiya.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const int64_t kMaxNow = INT64_C(1) << 52;

static void test_clock(void) {
  saqiya_clock *clock = (saqiya_clock *)&kMaxNow;
  int64_t monotonic = 7;
  int64_t wall = 7;
  CHECK_EQ(saqiya_clock_create_manual(0, NULL), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_create_manual(-1, &clock), SAQIYA_INVALID);
  CHECK(clock == NULL);
  CHECK_EQ(saqiya_clock_create_manual(kMaxNow + 1, &clock), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_create_manual(kMaxNow, &clock), SAQIYA_OK);
  CHECK_EQ(saqiya_clock_advance(clock, 1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_advance(clock, -kMaxNow), SAQIYA_OK);
  CHECK_EQ(saqiya_clock_advance(clock, -1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_advance(clock, INT64_MIN), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_advance(clock, INT64_MAX), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_set(clock, 100), SAQIYA_OK);
  CHECK_EQ(saqiya_clock_set(clock, -1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_set_wall(clock, 500), SAQIYA_OK);
  CHECK_EQ(saqiya_clock_set_wall(clock, kMaxNow + 1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_now(clock, &monotonic, &wall), SAQIYA_OK);
  CHECK_EQ(monotonic, 100);
  CHECK_EQ(wall, 500);
  CHECK_EQ(saqiya_clock_now(clock, NULL, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_clock_now(NULL, &monotonic, &wall), SAQIYA_INVALID);
  CHECK(monotonic == 0 && wall == 0);
  CHECK_EQ(saqiya_clock_set(NULL, 1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_set_wall(NULL, 1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_clock_advance(NULL, 1), SAQIYA_INVALID);
  saqiya_clock_free(clock);
  saqiya_clock_free(NULL);
}

static void test_open(void) {
  static const char *const bad[] = {"",           "memory",        "memory:",       "memory:/",
                                    "Memory://",  "memory://host", "memory://?a=b", " memory://",
                                    "memory:// ", "http://host",   "redis:",        "nonsense"};
  saqiya_error error;
  saqiya_store *store;
  size_t i;
  for (i = 0; i < sizeof bad / sizeof *bad; ++i) {
    store = (saqiya_store *)&error;
    memset(&error, 0x55, sizeof error);
    CHECK_EQ(saqiya_store_open(bad[i], NULL, &store, &error), SAQIYA_BAD_URL);
    CHECK(store == NULL);
    CHECK_EQ(error.code, SAQIYA_BAD_URL);
    CHECK(error.message[0] != '\0' && strlen(error.message) < sizeof error.message);
    CHECK(strchr(error.message, '\n') == NULL);
    CHECK_EQ(saqiya_store_open(bad[i], NULL, &store, NULL), SAQIYA_BAD_URL);
  }
  store = (saqiya_store *)&error;
  CHECK_EQ(saqiya_store_open(NULL, NULL, &store, &error), SAQIYA_INVALID);
  CHECK(store == NULL);
  CHECK_EQ(error.code, SAQIYA_INVALID);
  CHECK_EQ(error.position, -1);
  CHECK_EQ(saqiya_store_open("memory://", NULL, NULL, &error), SAQIYA_INVALID);
  CHECK_EQ(saqiya_store_open("memory://", NULL, &store, &error), SAQIYA_OK);
  CHECK(store != NULL);
  CHECK(is_zero(&error, sizeof error));
  CHECK_EQ(saqiya_store_is_local(store), 1);
  CHECK_EQ(saqiya_store_is_local(NULL), 0);
  saqiya_store_free(store);
  saqiya_store_free(NULL);
  saqiya_store_options_init(NULL, 0);
  saqiya_store_stats_init(NULL, 0);
}

static void test_stats(void) {
  unsigned char bytes[512];
  saqiya_store_stats *stats = (saqiya_store_stats *)(void *)bytes;
  saqiya_store *store = NULL;
  saqiya_limiter *limiter = NULL;
  saqiya_decision d;
  size_t i;
  CHECK_EQ(saqiya_store_open("memory://", NULL, &store, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_create(store, "5/h", NULL, &limiter, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_check(limiter, "k", 1, 1, &d, NULL), SAQIYA_OK);
  memset(bytes, 0xaa, sizeof bytes);
  saqiya_store_stats_init(stats, sizeof *stats);
  CHECK_EQ(stats->size, sizeof *stats);
  CHECK_EQ(saqiya_store_get_stats(store, stats), SAQIYA_OK);
  CHECK_EQ(stats->keys, 1);
  CHECK(stats->bytes > 0 && stats->bytes < 1000000);
  CHECK(stats->evictions == 0 && stats->requests == 0 && stats->failures == 0);
  /* An older caller's struct ended after keys: nothing behind it is touched. */
  memset(bytes, 0xaa, sizeof bytes);
  stats->size = 16;
  CHECK_EQ(saqiya_store_get_stats(store, stats), SAQIYA_OK);
  CHECK_EQ(stats->keys, 1);
  for (i = 16; i < sizeof bytes; ++i) CHECK_EQ(bytes[i], 0xaa);
  /* A newer caller's is longer: what this version does not know is zero. */
  memset(bytes, 0xaa, sizeof bytes);
  stats->size = sizeof bytes;
  CHECK_EQ(saqiya_store_get_stats(store, stats), SAQIYA_OK);
  CHECK_EQ(stats->keys, 1);
  CHECK_EQ(stats->size, sizeof bytes);
  CHECK(is_zero(bytes + sizeof *stats, sizeof bytes - sizeof *stats));
  CHECK_EQ(saqiya_store_get_stats(NULL, stats), SAQIYA_INVALID);
  CHECK(is_zero(bytes + 4, sizeof bytes - 4));
  stats->size = 0;
  CHECK_EQ(saqiya_store_get_stats(store, stats), SAQIYA_INVALID);
  stats->size = 4097;
  CHECK_EQ(saqiya_store_get_stats(store, stats), SAQIYA_INVALID);
  CHECK_EQ(saqiya_store_get_stats(store, NULL), SAQIYA_INVALID);
  saqiya_limiter_free(limiter);
  saqiya_store_free(store);
}

/* A store in this process has no outages to tell of. */
static void test_no_events(void) {
  saqiya_store *store = NULL;
  saqiya_event event;
  CHECK_EQ(saqiya_store_open("memory://", NULL, &store, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_store_has_event(store), 0);
  CHECK_EQ(saqiya_store_has_event(NULL), 0);
  memset(&event, 0x55, sizeof event);
  saqiya_event_init(&event, sizeof event);
  CHECK(event.size == sizeof event && is_zero(&event.kind, sizeof event - sizeof event.size));
  event.kind = 7;
  CHECK_EQ(saqiya_store_next_event(store, &event), SAQIYA_OK);
  CHECK_EQ(event.kind, SAQIYA_EVENT_NONE);
  CHECK_EQ(event.size, sizeof event);
  CHECK_EQ(saqiya_store_next_event(store, NULL), SAQIYA_INVALID);
  CHECK_EQ(saqiya_store_next_event(NULL, &event), SAQIYA_INVALID);
  event.size = 0;
  CHECK_EQ(saqiya_store_next_event(store, &event), SAQIYA_INVALID);
  saqiya_event_init(NULL, sizeof event);
  saqiya_store_free(store);
}

/* In every order of freeing the handles left over work. */
static void test_free_in_any_order(void) {
  int order;
  for (order = 0; order < 6; ++order) {
    saqiya_store_options options;
    saqiya_clock *clock = NULL;
    saqiya_store *store = NULL;
    saqiya_limiter *limiter = NULL;
    saqiya_decision d;
    CHECK_EQ(saqiya_clock_create_manual(0, &clock), SAQIYA_OK);
    saqiya_store_options_init(&options, sizeof options);
    options.clock = clock;
    CHECK_EQ(saqiya_store_open("memory://", &options, &store, NULL), SAQIYA_OK);
    CHECK_EQ(saqiya_limiter_create(store, "1/h", NULL, &limiter, NULL), SAQIYA_OK);
    if (order == 0 || order == 1) saqiya_clock_free(clock);
    if (order == 2 || order == 3) saqiya_store_free(store);
    if (order == 4 || order == 5) saqiya_limiter_free(limiter);
    if (order < 4) {
      CHECK_EQ(saqiya_limiter_check(limiter, "k", 1, 1, &d, NULL), SAQIYA_OK);
      CHECK_EQ(d.outcome, SAQIYA_ALLOWED);
    }
    if (order == 2 || order == 4) saqiya_clock_free(clock);
    if (order == 0 || order == 5) saqiya_store_free(store);
    if (order == 1 || order == 3) saqiya_limiter_free(limiter);
    if (order == 3 || order == 5) saqiya_clock_free(clock);
    if (order == 1 || order == 4) saqiya_store_free(store);
    if (order == 0 || order == 2) saqiya_limiter_free(limiter);
  }
}

void test_clocks_and_stores(void) {
  test_clock();
  test_open();
  test_stats();
  test_no_events();
  test_free_in_any_order();
}

/* Option structs: sizes of older and newer callers, and every range at its edge. */
#include <saqiya/saqiya.h>
#include <string.h>

#include "check.h"

/* A newer caller's struct: ours and a field that this version does not know. */
typedef struct newer_store_options {
  saqiya_store_options known;
  uint64_t unknown;
} newer_store_options;

static int open_with(const void *options) {
  saqiya_store *store = (saqiya_store *)&store;
  saqiya_error error;
  const int code =
      saqiya_store_open("memory://", (const saqiya_store_options *)options, &store, &error);
  CHECK((code == SAQIYA_OK) == (store != NULL));
  CHECK_EQ(error.code, code);
  CHECK((code == SAQIYA_OK) == (error.message[0] == '\0'));
  saqiya_store_free(store);
  return code;
}

static void test_sizes(void) {
  newer_store_options newer;
  uint32_t size;
  memset(&newer, 0, sizeof newer);
  for (size = 0; size < 8; ++size) {
    newer.known.size = size;
    CHECK_EQ(open_with(&newer), SAQIYA_INVALID);
  }
  for (size = 8; size <= sizeof newer; ++size) { /* older, this, newer with zeros */
    newer.known.size = size;                     /* or one that ends within a field */
    CHECK_EQ(open_with(&newer), size % 8 == 0 ? SAQIYA_OK : SAQIYA_INVALID);
  }
  newer.known.size = sizeof newer;
  newer.unknown = 1;
  CHECK_EQ(open_with(&newer), SAQIYA_INVALID);
  newer.known.size = sizeof newer.known; /* what lies behind an older struct is not read */
  CHECK_EQ(open_with(&newer), SAQIYA_OK);
  newer.known.size = 16; /* nor are fields behind its end */
  newer.known.deadline_us = 1;
  CHECK_EQ(open_with(&newer), SAQIYA_OK);
  newer.known.size = UINT32_MAX;
  CHECK_EQ(open_with(&newer), SAQIYA_INVALID);
}

/* A caller of an older version has shorter structs: nothing is written behind their end. */
static void test_nothing_is_written_behind(void) {
  struct {
    uint32_t size;
    uint32_t algorithm;
    int64_t guard;
  } older = {0, 7, -1};
  saqiya_store *store;
  saqiya_limiter *limiter;
  saqiya_rule_init((saqiya_rule *)&older, 8);
  CHECK(older.size == 8 && older.algorithm == 0 && older.guard == -1);
  CHECK_EQ(saqiya_store_open("memory://", NULL, &store, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_create(store, "5/s", NULL, &limiter, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_get_rule(limiter, 0, (saqiya_rule *)&older), SAQIYA_OK);
  CHECK(older.size == 8 && older.algorithm == SAQIYA_TOKEN_BUCKET && older.guard == -1);
  saqiya_limiter_free(limiter);
  saqiya_store_free(store);
}

static void test_store_ranges(void) {
  static const int64_t good_deadlines[] = {0, 1000, INT64_C(3600000000)};
  static const int64_t bad_deadlines[] = {-1, 1, 999, INT64_C(3600000001), INT64_MAX, INT64_MIN};
  static const char prefix64[] = "0123456789012345678901234567890123456789012345678901234567890123";
  static const char prefix65[] =
      "01234567890123456789012345678901234567890123456789012345678901234";
  static const char secret[1025] = {0};
  saqiya_store_options o;
  size_t i;
  for (i = 0; i < sizeof good_deadlines / sizeof *good_deadlines; ++i) {
    saqiya_store_options_init(&o, sizeof o);
    o.deadline_us = good_deadlines[i];
    CHECK_EQ(open_with(&o), SAQIYA_OK);
  }
  for (i = 0; i < sizeof bad_deadlines / sizeof *bad_deadlines; ++i) {
    saqiya_store_options_init(&o, sizeof o);
    o.deadline_us = bad_deadlines[i];
    CHECK_EQ(open_with(&o), SAQIYA_INVALID);
  }
#define EXPECT_CODE(field, value, code)      \
  do {                                       \
    saqiya_store_options_init(&o, sizeof o); \
    o.field = (value);                       \
    CHECK_EQ(open_with(&o), (code));         \
  } while (0)
  EXPECT_CODE(flags, 4, SAQIYA_INVALID);
  EXPECT_CODE(flags, UINT32_MAX, SAQIYA_INVALID);
  EXPECT_CODE(flags, SAQIYA_STORE_HASH_SUBJECTS, SAQIYA_OK);
  EXPECT_CODE(max_keys, 1, SAQIYA_OK);
  EXPECT_CODE(max_keys, UINT64_C(1) << 40, SAQIYA_OK);
  EXPECT_CODE(max_keys, (UINT64_C(1) << 40) + 1, SAQIYA_INVALID);
  EXPECT_CODE(max_keys, UINT64_MAX, SAQIYA_INVALID);
  EXPECT_CODE(prefix, "", SAQIYA_OK);
  EXPECT_CODE(prefix, prefix64, SAQIYA_OK);
  EXPECT_CODE(prefix, prefix65, SAQIYA_INVALID);
  EXPECT_CODE(prefix, "a{b", SAQIYA_INVALID);
  EXPECT_CODE(prefix, "}", SAQIYA_INVALID);
  EXPECT_CODE(connections, 64, SAQIYA_OK);
  EXPECT_CODE(connections, 65, SAQIYA_INVALID);
  EXPECT_CODE(reserved32, 1, SAQIYA_INVALID);
  EXPECT_CODE(secret_len, 1, SAQIYA_INVALID); /* of a null secret */
#undef EXPECT_CODE
  saqiya_store_options_init(&o, sizeof o);
  o.secret = secret;
  o.secret_len = 1024;
  CHECK_EQ(open_with(&o), SAQIYA_OK);
  o.secret_len = 1025;
  CHECK_EQ(open_with(&o), SAQIYA_INVALID);
}

static int create_with(saqiya_store *store, const saqiya_limiter_options *options) {
  saqiya_limiter *limiter = (saqiya_limiter *)store;
  saqiya_error error;
  const int code = saqiya_limiter_create(store, "5/s", options, &limiter, &error);
  CHECK((code == SAQIYA_OK) == (limiter != NULL));
  CHECK_EQ(error.code, code);
  if (code == SAQIYA_OK && options != NULL && options->name != NULL) {
    CHECK_TEXT(saqiya_limiter_name(limiter), options->name);
  }
  if (code != SAQIYA_OK) CHECK_EQ(error.position, -1);
  saqiya_limiter_free(limiter);
  return code;
}

static void test_limiter_options(void) {
  static const char name64[] = "0123456789012345678901234567890123456789012345678901234567890123";
  static const char name65[] = "01234567890123456789012345678901234567890123456789012345678901234";
  static const char *const good[] = {"a", " ", "~", "log in: {\"x\"}", name64};
  static const char *const bad[] = {"", "\n", "\x7f", "\xc3\xa9", name65};
  saqiya_store *store = NULL;
  saqiya_limiter_options o;
  size_t i;
  CHECK_EQ(saqiya_store_open("memory://", NULL, &store, NULL), SAQIYA_OK);
  CHECK_EQ(create_with(store, NULL), SAQIYA_OK);
  saqiya_limiter_options_init(NULL, 0);
  saqiya_limiter_options_init(&o, sizeof o);
  CHECK_EQ(o.size, sizeof o);
  CHECK_EQ(create_with(store, &o), SAQIYA_OK);
  for (i = 0; i < sizeof good / sizeof *good; ++i) {
    o.name = good[i];
    CHECK_EQ(create_with(store, &o), SAQIYA_OK);
  }
  for (i = 0; i < sizeof bad / sizeof *bad; ++i) {
    o.name = bad[i];
    CHECK_EQ(create_with(store, &o), SAQIYA_INVALID);
  }
  o.name = NULL;
  o.flags = 2;
  CHECK_EQ(create_with(store, &o), SAQIYA_INVALID);
  o.flags = SAQIYA_LIMITER_NO_DENY_CACHE;
  CHECK_EQ(create_with(store, &o), SAQIYA_OK);
  o.flags = 0;
  o.deadline_us = 999;
  CHECK_EQ(create_with(store, &o), SAQIYA_INVALID);
  o.deadline_us = 1000;
  CHECK_EQ(create_with(store, &o), SAQIYA_OK);
  o.size = 7;
  CHECK_EQ(create_with(store, &o), SAQIYA_INVALID);
  saqiya_store_free(store);
}

/* What a caller asks for in case Redis does not answer: it is checked on every store. */
static void test_failure_options(void) {
  saqiya_store *store = NULL;
  saqiya_limiter *limiter = NULL;
  saqiya_limiter_options o;
  saqiya_error error;
  uint32_t mode;
  CHECK_EQ(saqiya_store_open("redis://127.0.0.1:1", NULL, &store, NULL), SAQIYA_OK);
#define WITH(mode, share, text)                                                                  \
  (saqiya_limiter_options_init(&o, sizeof o), o.failure = (mode), o.failure_share_ppm = (share), \
   o.fallback = (text), create_with(store, &o))
  for (mode = 0; mode <= SAQIYA_FAILURE_ERROR; ++mode) {
    CHECK_EQ(WITH(mode, 0, NULL), SAQIYA_OK);
    CHECK_EQ(WITH(mode, 1000000, NULL), SAQIYA_OK);
    CHECK_EQ(WITH(mode, 1000001, NULL), SAQIYA_INVALID);
    CHECK_EQ(WITH(mode, 1, NULL), mode <= SAQIYA_FAILURE_LOCAL ? SAQIYA_OK : SAQIYA_INVALID);
    CHECK_EQ(WITH(mode, 0, "1/s"), mode <= SAQIYA_FAILURE_LOCAL ? SAQIYA_OK : SAQIYA_INVALID);
  }
  CHECK_EQ(WITH(SAQIYA_FAILURE_ERROR + 1, 0, NULL), SAQIYA_INVALID);
  CHECK_EQ(WITH(UINT32_MAX, 0, NULL), SAQIYA_INVALID);
  CHECK_EQ(WITH(0, UINT32_MAX, NULL), SAQIYA_INVALID);
  CHECK_EQ(WITH(0, 500000, "1/s"), SAQIYA_INVALID);
  CHECK_EQ(WITH(0, 0, "1/s; 10/day"), SAQIYA_BAD_POLICY);
  CHECK_EQ(WITH(0, 0, "unlimited"), SAQIYA_BAD_POLICY);
#undef WITH
  o.fallback = "1/s burst";
  CHECK_EQ(saqiya_limiter_create(store, "5/s", &o, &limiter, &error), SAQIYA_BAD_POLICY);
  CHECK(limiter == NULL && strncmp(error.message, "fallback: ", 10) == 0);
  CHECK_EQ(error.position, 9); /* in the fallback's text */
  o.fallback = "1/s; 10/day";
  CHECK_EQ(saqiya_limiter_create(store, "5/s; 50/day", &o, &limiter, NULL), SAQIYA_OK);
  saqiya_limiter_free(limiter);
  CHECK_EQ(saqiya_limiter_create(store, "unlimited", &o, &limiter, NULL), SAQIYA_OK);
  saqiya_limiter_free(limiter);
  saqiya_store_free(store);
}

void test_options(void) {
  test_sizes();
  test_nothing_is_written_behind();
  test_store_ranges();
  test_limiter_options();
  test_failure_options();
}

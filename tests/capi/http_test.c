/* Decisions as HTTP through the C API: buffers, flags, null arguments. */
#include <saqiya/saqiya.h>
#include <string.h>

#include "check.h"
#include "setup.h"

typedef int (*writer)(const saqiya_limiter *, const saqiya_decision *, char *, size_t, size_t *);

static int write_all(const saqiya_limiter *l, const saqiya_decision *d, char *buffer, size_t size,
                     size_t *len) {
  return saqiya_http_fields(l, d, 0, buffer, size, len);
}

/* With every size of buffer: either the whole text and its zero, or an empty text and the size. */
static void test_buffers(writer write, const setup *s, const saqiya_decision *d) {
  char buffer[520];
  char whole[520];
  size_t size;
  size_t len = 0;
  size_t needed = 0;
  CHECK_EQ(write(s->limiter, d, NULL, 0, &needed), SAQIYA_TOO_SMALL);
  CHECK(needed > 0 && needed < sizeof whole);
  CHECK_EQ(write(s->limiter, d, whole, sizeof whole, &len), SAQIYA_OK);
  CHECK(len == needed && strlen(whole) == len);
  for (size = 0; size < needed + 3; ++size) {
    memset(buffer, 0x55, sizeof buffer);
    CHECK_EQ(write(s->limiter, d, buffer, size, &len),
             size > needed ? SAQIYA_OK : SAQIYA_TOO_SMALL);
    CHECK_EQ(len, needed);
    CHECK_EQ(buffer[size > needed ? needed + 1 : (size > 0 ? 1 : 0)], 0x55);
    if (size > 0) CHECK_TEXT(buffer, size > needed ? whole : "");
  }
  CHECK_EQ(write(s->limiter, d, NULL, 100, &len), SAQIYA_TOO_SMALL);
  len = 7;
  CHECK_EQ(write(NULL, d, buffer, sizeof buffer, &len), SAQIYA_INVALID);
  CHECK_EQ(len, 0);
  CHECK_EQ(write(s->limiter, NULL, buffer, sizeof buffer, &len), SAQIYA_INVALID);
  CHECK_EQ(write(s->limiter, d, buffer, sizeof buffer, NULL), SAQIYA_INVALID);
}

static void test_fields(void) {
  setup s = setup_open("5/s burst 2");
  saqiya_decision d;
  char buffer[512];
  size_t len = 0;
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 2, &d, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_http_body(s.limiter, &d, buffer, sizeof buffer, &len), SAQIYA_OK);
  CHECK(len == 0 && buffer[0] == '\0');
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, NULL), SAQIYA_OK);
  test_buffers(write_all, &s, &d);
  test_buffers(saqiya_http_body, &s, &d);
  CHECK_EQ(saqiya_http_fields(s.limiter, &d, SAQIYA_HTTP_LEGACY, buffer, sizeof buffer, &len),
           SAQIYA_OK);
  CHECK_TEXT(buffer,
             "Retry-After: 1\r\nX-RateLimit-Limit: 2\r\nX-RateLimit-Remaining: 0\r\n"
             "X-RateLimit-Reset: 1\r\n");
  CHECK_EQ(saqiya_http_fields(s.limiter, &d, SAQIYA_HTTP_DRAFT, buffer, sizeof buffer, &len),
           SAQIYA_OK);
  CHECK_TEXT(buffer,
             "Retry-After: 1\r\nRateLimit: \"default\";r=0;t=1\r\n"
             "RateLimit-Policy: \"default\";q=2;w=1\r\n");
  CHECK_EQ(saqiya_http_fields(s.limiter, &d, 4, buffer, sizeof buffer, &len), SAQIYA_INVALID);
  CHECK_EQ(saqiya_http_fields(s.limiter, &d, UINT32_MAX, buffer, sizeof buffer, &len),
           SAQIYA_INVALID);
  setup_free(&s);
}

static void test_numbers(void) {
  setup s = setup_open("5/s burst 2");
  saqiya_decision d;
  saqiya_http_numbers n;
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 1, &d, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_http_get_numbers(s.limiter, &d, &n), SAQIYA_OK);
  CHECK(n.status == 200 && n.has_limit == 1 && n.limit == 2 && n.remaining == 1);
  CHECK(n.reset_s == 1 && n.retry_after_s == -1 && n.t_s == 1);
  CHECK_EQ(saqiya_http_get_numbers(NULL, &d, &n), SAQIYA_INVALID);
  CHECK(is_zero(&n, sizeof n));
  CHECK_EQ(saqiya_http_get_numbers(s.limiter, NULL, &n), SAQIYA_INVALID);
  CHECK_EQ(saqiya_http_get_numbers(s.limiter, &d, NULL), SAQIYA_INVALID);
  memset(&d, 0, sizeof d); /* outcome none: never admits */
  CHECK_EQ(saqiya_http_get_numbers(s.limiter, &d, &n), SAQIYA_OK);
  CHECK_EQ(n.status, 503);
  CHECK_TEXT(saqiya_http_policy(s.limiter), "\"default\";q=2;w=1");
  CHECK_TEXT(saqiya_http_item(s.limiter, 0), "\"default\";r=");
  CHECK_TEXT(saqiya_http_item(s.limiter, 1), "");
  CHECK_TEXT(saqiya_http_item(s.limiter, SIZE_MAX), "");
  CHECK_TEXT(saqiya_http_policy(NULL), "");
  CHECK_TEXT(saqiya_http_item(NULL, 0), "");
  setup_free(&s);
}

/* The promise of the header: so many bytes for fields, 256 for a body, in the longest case. */
static void test_longest(size_t rules, size_t promised) {
  setup s = setup_open("unlimited");
  char name[SAQIYA_MAX_NAME + 1];
  saqiya_limiter_options o;
  saqiya_limiter *limiter = NULL;
  saqiya_rule rule[SAQIYA_MAX_RULES];
  saqiya_decision d;
  char buffer[2048];
  size_t len = 0;
  size_t i;
  memset(name, '"', SAQIYA_MAX_NAME); /* each is escaped, twice over in the fields */
  name[SAQIYA_MAX_NAME] = '\0';
  saqiya_limiter_options_init(&o, sizeof o);
  o.name = name;
  for (i = 0; i < rules; ++i) {
    saqiya_rule_init(&rule[i], sizeof *rule);
    rule[i].algorithm = i == 0 ? SAQIYA_TOKEN_BUCKET : SAQIYA_FIXED_WINDOW;
    rule[i].capacity = SAQIYA_MAX_COST;
    rule[i].tokens = i == 0 ? 9 : 0;
    rule[i].period_us = i == 0 ? 1 : (INT64_C(1) << 50) - (int64_t)i;
  }
  CHECK_EQ(saqiya_limiter_create_rules(s.store, rule, rules, &o, &limiter, NULL), SAQIYA_OK);
  memset(&d, 0, sizeof d);
  d.outcome = SAQIYA_DENIED;
  d.limit = SAQIYA_MAX_COST;
  d.remaining = SAQIYA_MAX_COST - 1;
  d.retry_after_us = INT64_MAX - 1;
  d.reset_after_us = INT64_MAX - 1;
  d.rule = (int32_t)rules - 1;
  CHECK_EQ(saqiya_http_fields(limiter, &d, 0, buffer, promised, &len), SAQIYA_OK);
  CHECK_EQ(saqiya_http_body(limiter, &d, buffer, 256, &len), SAQIYA_OK);
  saqiya_limiter_free(limiter);
  setup_free(&s);
}

static void test_several_rules(void) {
  setup s = setup_open("5/s burst 2; concurrency: 3 ttl 30s");
  saqiya_decision d;
  char buffer[512];
  size_t len = 0;
  CHECK_TEXT(saqiya_http_item(s.limiter, 0), "\"default-1\";r=");
  CHECK_TEXT(saqiya_http_item(s.limiter, 1), "\"default-2\";r=");
  CHECK_TEXT(saqiya_http_item(s.limiter, 2), "");
  CHECK_EQ(saqiya_limiter_check(s.limiter, "k", 1, 2, &d, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_http_fields(s.limiter, &d, SAQIYA_HTTP_LEGACY, buffer, sizeof buffer, &len),
           SAQIYA_OK);
  CHECK_TEXT(buffer,
             "X-RateLimit-Limit: 2\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 1\r\n");
  CHECK_EQ(saqiya_http_fields(s.limiter, &d, SAQIYA_HTTP_DRAFT, buffer, sizeof buffer, &len),
           SAQIYA_OK);
  CHECK(strstr(buffer, "RateLimit: \"default-1\";r=0;t=1\r\n") != NULL);
  CHECK(strstr(buffer, "RateLimit-Policy: \"default-1\";q=2;w=1,\"default-2\";q=3") != NULL);
  d.rule = 99; /* a decision that is nobody's */
  CHECK_EQ(saqiya_http_fields(s.limiter, &d, 0, buffer, sizeof buffer, &len), SAQIYA_OK);
  CHECK(strstr(buffer, "RateLimit: \"default-2\";r=0") != NULL);
  setup_free(&s);
}

void test_http(void) {
  test_fields();
  test_numbers();
  test_longest(1, 512);
  test_longest(SAQIYA_MAX_RULES, 2048);
  test_several_rules();
}

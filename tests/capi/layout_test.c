/* The ABI that was published: sizes, offsets and numbers never change, fields are only appended. A
 * change here needs a new SOVERSION. (64-bit targets.) */
#include <saqiya/saqiya.h>

#include "check.h"

#define SAME(name, condition) typedef char static_##name[(condition) ? 1 : -1]
#define AT(type, field, offset) SAME(type##_##field, offsetof(type, field) == (offset))

SAME(decision, sizeof(saqiya_decision) == 64);
AT(saqiya_decision, outcome, 0);
AT(saqiya_decision, reason, 4);
AT(saqiya_decision, limit, 8);
AT(saqiya_decision, remaining, 16);
AT(saqiya_decision, retry_after_us, 24);
AT(saqiya_decision, reset_after_us, 32);
AT(saqiya_decision, delay_us, 40);
AT(saqiya_decision, rule, 48);
AT(saqiya_decision, item, 52);
AT(saqiya_decision, source, 56);
AT(saqiya_decision, reserved32, 60);

SAME(ticket, sizeof(saqiya_ticket) == 48);
AT(saqiya_ticket, q, 0);
AT(saqiya_ticket, r, 8);
AT(saqiya_ticket, n, 12);
AT(saqiya_ticket, cost, 16);
AT(saqiya_ticket, epoch, 24);
AT(saqiya_ticket, flags, 32);
AT(saqiya_ticket, algorithm, 36);
AT(saqiya_ticket, lease, 40);

SAME(completion, sizeof(saqiya_completion) == 120);
AT(saqiya_completion, user_data, 0);
AT(saqiya_completion, decision, 8);
AT(saqiya_completion, ticket, 72);

SAME(http_numbers, sizeof(saqiya_http_numbers) == 48);
AT(saqiya_http_numbers, status, 0);
AT(saqiya_http_numbers, has_limit, 4);
AT(saqiya_http_numbers, limit, 8);
AT(saqiya_http_numbers, remaining, 16);
AT(saqiya_http_numbers, reset_s, 24);
AT(saqiya_http_numbers, retry_after_s, 32);
AT(saqiya_http_numbers, t_s, 40);

SAME(error, sizeof(saqiya_error) == 256);
AT(saqiya_error, position, 4);
AT(saqiya_error, message, 8);

SAME(store_options, sizeof(saqiya_store_options) == 64);
AT(saqiya_store_options, flags, 4);
AT(saqiya_store_options, clock, 8);
AT(saqiya_store_options, max_keys, 16);
AT(saqiya_store_options, deadline_us, 24);
AT(saqiya_store_options, prefix, 32);
AT(saqiya_store_options, secret, 40);
AT(saqiya_store_options, secret_len, 48);
AT(saqiya_store_options, connections, 56);

SAME(store_stats, sizeof(saqiya_store_stats) == 264);
AT(saqiya_store_stats, keys, 8);
AT(saqiya_store_stats, failures, 56);
AT(saqiya_store_stats, allowed, 64); /* from here on since the third version */
AT(saqiya_store_stats, cached, 80);
AT(saqiya_store_stats, local_allowed, 88);
AT(saqiya_store_stats, closed, 112);
AT(saqiya_store_stats, outages, 120);
AT(saqiya_store_stats, degraded, 128);
AT(saqiya_store_stats, latency, 136);

SAME(event, sizeof(saqiya_event) == 400);
AT(saqiya_event, kind, 4);
AT(saqiya_event, reason, 8);
AT(saqiya_event, suppressed, 12);
AT(saqiya_event, wall_us, 16);
AT(saqiya_event, duration_us, 24);
AT(saqiya_event, decisions, 32);
AT(saqiya_event, server, 40);
AT(saqiya_event, message, 152);

SAME(limiter_options, sizeof(saqiya_limiter_options) == 40);
AT(saqiya_limiter_options, name, 8);
AT(saqiya_limiter_options, deadline_us, 16);
AT(saqiya_limiter_options, failure, 24); /* from here on since the third version */
AT(saqiya_limiter_options, failure_share_ppm, 28);
AT(saqiya_limiter_options, fallback, 32);

SAME(rule, sizeof(saqiya_rule) == 56);
AT(saqiya_rule, algorithm, 4);
AT(saqiya_rule, capacity, 8);
AT(saqiya_rule, tokens, 16);
AT(saqiya_rule, period_us, 24);
AT(saqiya_rule, queue, 32); /* from here on since the second version */
AT(saqiya_rule, unit, 40);
AT(saqiya_rule, anchor_day, 44);
AT(saqiya_rule, zone, 48);

SAME(key, sizeof(saqiya_key) == 16);

SAME(item, sizeof(saqiya_item) == 32);
AT(saqiya_item, limiter, 0);
AT(saqiya_item, key, 8);
AT(saqiya_item, key_len, 16);
AT(saqiya_item, cost, 24);

SAME(queue_options, sizeof(saqiya_queue_options) == 16);
AT(saqiya_queue_options, in_flight, 12);

SAME(request, sizeof(saqiya_request) == 96);
AT(saqiya_request, op, 4);
AT(saqiya_request, limiter, 8);
AT(saqiya_request, key, 16);
AT(saqiya_request, key_len, 24);
AT(saqiya_request, cost, 32);
AT(saqiya_request, max_wait_us, 40);
AT(saqiya_request, ticket, 48);
AT(saqiya_request, user_data, 56);
AT(saqiya_request, items, 64); /* from here on since the second version */
AT(saqiya_request, item_count, 72);
AT(saqiya_request, each, 80);
AT(saqiya_request, tickets, 88);

SAME(status, SAQIYA_OK == 0 && SAQIYA_INVALID == 1 && SAQIYA_BAD_POLICY == 2 &&
                 SAQIYA_BAD_URL == 3 && SAQIYA_NO_MEMORY == 4 && SAQIYA_QUEUE_FULL == 5 &&
                 SAQIYA_CLOSED == 6 && SAQIYA_TOO_SMALL == 7 && SAQIYA_SYSTEM == 8 &&
                 SAQIYA_INTERNAL == 9);
SAME(outcome, SAQIYA_NONE == 0 && SAQIYA_ALLOWED == 1 && SAQIYA_DENIED == 2 && SAQIYA_NEVER == 3 &&
                  SAQIYA_UNAVAILABLE == 4);
SAME(source, SAQIYA_SOURCE_STORE == 0 && SAQIYA_SOURCE_CACHE == 1 && SAQIYA_SOURCE_LOCAL == 2 &&
                 SAQIYA_SOURCE_OPEN == 3 && SAQIYA_SOURCE_CLOSED == 4);
SAME(failure, SAQIYA_FAILURE_LOCAL == 1 && SAQIYA_FAILURE_OPEN == 2 && SAQIYA_FAILURE_CLOSED == 3 &&
                  SAQIYA_FAILURE_ERROR == 4);
SAME(event_kind, SAQIYA_EVENT_NONE == 0 && SAQIYA_EVENT_OUTAGE == 1 &&
                     SAQIYA_EVENT_RECOVERED == 2 && SAQIYA_EVENT_REFUSED == 3);
SAME(reason, SAQIYA_REASON_NONE == 0 && SAQIYA_REASON_CONNECT == 1 && SAQIYA_REASON_RESOLVE == 2 &&
                 SAQIYA_REASON_AUTH == 3 && SAQIYA_REASON_TIMEOUT == 4 && SAQIYA_REASON_LOST == 5 &&
                 SAQIYA_REASON_REFUSED == 6 && SAQIYA_REASON_READ_ONLY == 7 &&
                 SAQIYA_REASON_PERMISSION == 8 && SAQIYA_REASON_SERVER_MEMORY == 9 &&
                 SAQIYA_REASON_CORRUPT == 10 && SAQIYA_REASON_PROTOCOL == 11 &&
                 SAQIYA_REASON_BUSY == 12 && SAQIYA_REASON_CANCELLED == 13);
SAME(algorithm, SAQIYA_TOKEN_BUCKET == 1 && SAQIYA_NO_LIMIT == 2 && SAQIYA_FIXED_WINDOW == 3 &&
                    SAQIYA_SLIDING_WINDOW == 4 && SAQIYA_SLIDING_LOG == 5 && SAQIYA_CALENDAR == 6 &&
                    SAQIYA_CONCURRENCY == 7);
SAME(unit, SAQIYA_DAY == 1 && SAQIYA_WEEK == 2 && SAQIYA_MONTH == 3 && SAQIYA_YEAR == 4);
SAME(op, SAQIYA_OP_CHECK == 1 && SAQIYA_OP_PEEK == 2 && SAQIYA_OP_REFUND == 3 &&
             SAQIYA_OP_RESET == 4 && SAQIYA_OP_SETTLE == 5 && SAQIYA_OP_RENEW == 6);
SAME(flags, SAQIYA_STORE_TESTING == 1 && SAQIYA_STORE_HASH_SUBJECTS == 2 &&
                SAQIYA_LIMITER_NO_DENY_CACHE == 1 && SAQIYA_HTTP_LEGACY == 1 &&
                SAQIYA_HTTP_DRAFT == 2);
SAME(constants, SAQIYA_MAX_KEY == 65536 && SAQIYA_MAX_NAME == 64 &&
                    SAQIYA_MAX_COST == INT64_C(9007199254740991) &&
                    SAQIYA_UNLIMITED == SAQIYA_MAX_COST && SAQIYA_FOREVER == INT64_MAX &&
                    SAQIYA_MAX_RULES == 8 && SAQIYA_MAX_ITEMS == 16 && SAQIYA_NO_WAIT == -1);
SAME(take, SAQIYA_TAKE_MISUSE == INT64_MIN && SAQIYA_TAKE_NEVER == INT64_MIN + 1 &&
               SAQIYA_TAKE_UNAVAILABLE == INT64_MIN + 2);

void test_layout(void) {
  /* Above, at compile time; here, that the library was compiled with the same header. */
  CHECK_TEXT(saqiya_version(), SAQIYA_VERSION_STRING);
}

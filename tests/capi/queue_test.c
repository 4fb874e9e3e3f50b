/* Queues on the memory store: every request completes once; misuse changes nothing. */
#include <poll.h>
#include <saqiya/saqiya.h>
#include <string.h>

#include "check.h"
#include "setup.h"

static saqiya_request request_of(setup *s, uint32_t op, int64_t cost, uint64_t user_data) {
  saqiya_request r;
  saqiya_request_init(&r, sizeof r);
  r.op = op;
  r.limiter = s->limiter;
  r.key = "k";
  r.key_len = 1;
  r.cost = cost;
  r.user_data = user_data;
  return r;
}

static int create(saqiya_store *store, const saqiya_queue_options *options) {
  saqiya_queue *queue = (saqiya_queue *)&queue;
  saqiya_error error;
  const int code = saqiya_queue_create(store, options, &queue, &error);
  CHECK((code == SAQIYA_OK) == (queue != NULL));
  CHECK_EQ(error.code, code);
  saqiya_queue_free(queue);
  return code;
}

static void test_create(void) {
  setup s = setup_open("10/h");
  saqiya_queue_options o;
  saqiya_queue_options_init(NULL, 0);
  saqiya_queue_options_init(&o, sizeof o);
  CHECK_EQ(o.size, sizeof o);
  CHECK_EQ(create(s.store, NULL), SAQIYA_OK);
  CHECK_EQ(create(NULL, NULL), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_create(s.store, NULL, NULL, NULL), SAQIYA_INVALID);
  o.capacity = 65536;
  o.batch = 512;
  o.in_flight = 64;
  CHECK_EQ(create(s.store, &o), SAQIYA_OK);
  o.capacity = 65537;
  CHECK_EQ(create(s.store, &o), SAQIYA_INVALID);
  o.capacity = 1;
  o.batch = 513;
  CHECK_EQ(create(s.store, &o), SAQIYA_INVALID);
  o.batch = 1;
  o.in_flight = 65;
  CHECK_EQ(create(s.store, &o), SAQIYA_INVALID);
  o.in_flight = 1;
  o.size = 3;
  CHECK_EQ(create(s.store, &o), SAQIYA_INVALID);
  saqiya_queue_free(NULL);
  setup_free(&s);
}

static void test_operations(void) {
  setup s = setup_open("10/h");
  saqiya_queue *queue = NULL;
  saqiya_completion done[8];
  saqiya_request r;
  saqiya_ticket ticket;
  struct pollfd pfd;
  size_t count = 99;
  CHECK_EQ(saqiya_queue_create(s.store, NULL, &queue, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_timeout_us(queue), -1);
  pfd.fd = saqiya_queue_fd(queue);
  pfd.events = POLLIN;
  CHECK(pfd.fd >= 0 && poll(&pfd, 1, 0) == 0);
  CHECK_EQ(saqiya_queue_drain(queue, done, 8, &count), SAQIYA_OK);
  CHECK_EQ(count, 0);
  r = request_of(&s, SAQIYA_OP_CHECK, 4, 11);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  r = request_of(&s, SAQIYA_OP_PEEK, 7, 12);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_pending(queue), 2);
  CHECK_EQ(saqiya_queue_timeout_us(queue), 0);
  CHECK_EQ(saqiya_queue_process(queue), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_wait(queue, 60000000), SAQIYA_OK); /* returns: there is something */
  CHECK_EQ(saqiya_queue_drain(queue, done, 1, &count), SAQIYA_OK);
  CHECK(count == 1 && done[0].user_data == 11 && done[0].decision.remaining == 6);
  CHECK_EQ(done[0].ticket.cost, 4);
  ticket = done[0].ticket;
  CHECK_EQ(saqiya_queue_drain(queue, done, 8, &count), SAQIYA_OK);
  CHECK(count == 1 && done[0].user_data == 12 && done[0].decision.outcome == SAQIYA_DENIED);
  CHECK(is_zero(&done[0].ticket, sizeof done[0].ticket));
  r = request_of(&s, SAQIYA_OP_REFUND, 0, 13);
  r.ticket = &ticket;
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(ticket.flags & 1, 1);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK); /* spent: gives nothing */
  r = request_of(&s, SAQIYA_OP_RESET, 0, 14);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_drain(queue, done, 8, &count), SAQIYA_OK);
  CHECK_EQ(count, 3);
  CHECK_EQ(done[0].decision.outcome, SAQIYA_ALLOWED);
  CHECK_EQ(done[1].decision.outcome, SAQIYA_DENIED);
  CHECK_EQ(done[2].decision.remaining, 10);
  CHECK_EQ(saqiya_queue_pending(queue), 0);
  saqiya_queue_free(queue);
  setup_free(&s);
}

static void test_misuse(void) {
  setup s = setup_open("10/h");
  setup other = setup_open("10/h");
  saqiya_queue *queue = NULL;
  saqiya_completion done[2];
  saqiya_request r;
  saqiya_item items[2];
  saqiya_ticket ticket;
  size_t count = 99;
  memset(items, 0, sizeof items);
  memset(&ticket, 0, sizeof ticket);
  items[0].limiter = s.limiter;
  items[1].limiter = other.limiter;
  CHECK_EQ(saqiya_queue_create(s.store, NULL, &queue, NULL), SAQIYA_OK);
  saqiya_request_init(NULL, 0);
  CHECK_EQ(saqiya_queue_submit(queue, NULL), SAQIYA_INVALID);
#define MISUSE(change)                                        \
  do {                                                        \
    r = request_of(&s, SAQIYA_OP_CHECK, 1, 1);                \
    change;                                                   \
    CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_INVALID); \
  } while (0)
  MISUSE(r.op = 0);
  MISUSE(r.op = SAQIYA_OP_RENEW + 1);
  MISUSE(r.size = 0);
  MISUSE(r.size = 8); /* an older caller's, without a limiter */
  MISUSE(r.limiter = NULL);
  MISUSE(r.limiter = other.limiter); /* of another store */
  MISUSE(r.key = NULL);
  MISUSE(r.key_len = SAQIYA_MAX_KEY + 1);
  MISUSE(r.key_len = UINT64_MAX);
  MISUSE(r.cost = -1);
  MISUSE(r.cost = SAQIYA_MAX_COST + 1);
  MISUSE(r.max_wait_us = -2);
  MISUSE(r.op = SAQIYA_OP_REFUND); /* without a ticket */
  MISUSE(r.op = SAQIYA_OP_SETTLE);
  MISUSE(r.op = SAQIYA_OP_RENEW);
  MISUSE(r.op = SAQIYA_OP_SETTLE; r.ticket = &ticket; r.cost = -1);
  MISUSE(r.item_count = 1); /* of no items */
  MISUSE(r.items = items);  /* none of them */
  MISUSE(r.items = items; r.item_count = SAQIYA_MAX_ITEMS + 1);
  MISUSE(r.items = items; r.item_count = UINT64_MAX);
  MISUSE(r.items = items; r.item_count = 2); /* the second is of another store */
  MISUSE(r.items = items; r.item_count = 1; r.op = SAQIYA_OP_RESET);
  MISUSE(r.items = items; r.item_count = 1; r.op = SAQIYA_OP_SETTLE; r.ticket = &ticket);
  MISUSE(r.items = items; r.item_count = 1; r.op = SAQIYA_OP_RENEW; r.ticket = &ticket);
  MISUSE(r.items = items; r.item_count = 1; r.op = SAQIYA_OP_REFUND);
  items[0].limiter = NULL;
  MISUSE(r.items = items; r.item_count = 1);
  items[0].limiter = s.limiter;
  items[0].cost = -1;
  MISUSE(r.items = items; r.item_count = 1);
  CHECK_EQ(ticket.flags, 0); /* misuse spends nothing */
#undef MISUSE
  r = request_of(&s, SAQIYA_OP_CHECK, 1, 1);
  CHECK_EQ(saqiya_queue_submit(NULL, &r), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_pending(queue), 0);
  CHECK_EQ(saqiya_queue_drain(queue, NULL, 2, &count), SAQIYA_INVALID);
  CHECK_EQ(count, 0);
  CHECK_EQ(saqiya_queue_drain(queue, done, 2, NULL), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_drain(NULL, done, 2, &count), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_drain(queue, NULL, 0, &count), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_wait(queue, -1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_wait(queue, 0), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_wait(NULL, 0), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_process(NULL), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_cancel(NULL, 1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_cancel(queue, 1), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_close(NULL), SAQIYA_INVALID);
  CHECK_EQ(saqiya_queue_fd(NULL), -1);
  CHECK_EQ(saqiya_queue_timeout_us(NULL), -1);
  CHECK_EQ(saqiya_queue_pending(NULL), 0);
  saqiya_queue_free(queue);
  setup_free(&other);
  setup_free(&s);
}

static void test_bound_and_close(void) {
  setup s = setup_open("10/h");
  saqiya_queue_options o;
  saqiya_queue *queue = NULL;
  saqiya_completion done[4];
  saqiya_request r = request_of(&s, SAQIYA_OP_CHECK, 1, 1);
  size_t count = 0;
  saqiya_queue_options_init(&o, sizeof o);
  o.capacity = 2;
  CHECK_EQ(saqiya_queue_create(s.store, &o, &queue, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_QUEUE_FULL);
  CHECK_EQ(saqiya_queue_close(queue), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_close(queue), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_CLOSED);
  CHECK_EQ(saqiya_queue_drain(queue, done, 4, &count), SAQIYA_OK);
  CHECK_EQ(count, 2);
  CHECK_EQ(done[1].decision.remaining, 8); /* the refused one was not charged */
  /* The queue keeps the store alive; the limiter is not needed any more. */
  setup_free(&s);
  CHECK_EQ(saqiya_queue_drain(queue, done, 4, &count), SAQIYA_OK);
  CHECK_EQ(count, 0);
  saqiya_queue_free(queue);
}

static void test_unlimited(void) {
  setup s = setup_open("unlimited");
  saqiya_queue *queue = NULL;
  saqiya_completion done[4];
  saqiya_ticket none;
  saqiya_request r = request_of(&s, SAQIYA_OP_CHECK, 5, 1);
  size_t count = 0;
  memset(&none, 0, sizeof none);
  CHECK_EQ(saqiya_queue_create(s.store, NULL, &queue, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  r.op = SAQIYA_OP_REFUND;
  r.ticket = &none;
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_drain(queue, done, 4, &count), SAQIYA_OK);
  CHECK_EQ(count, 2);
  CHECK_EQ(done[0].decision.outcome, SAQIYA_ALLOWED);
  CHECK(done[0].decision.remaining == SAQIYA_UNLIMITED);
  CHECK_EQ(done[1].decision.outcome, SAQIYA_DENIED);
  saqiya_queue_free(queue);
  setup_free(&s);
}

/* Several rules: tickets and decisions of each come where the caller said, on this store at once.
 */
static void test_several_rules(void) {
  setup s = setup_open("5/s burst 4; fixed-window: 3/h");
  saqiya_queue *queue = NULL;
  saqiya_completion done[4];
  saqiya_ticket tickets[3];
  saqiya_decision each[3];
  saqiya_request r = request_of(&s, SAQIYA_OP_CHECK, 2, 1);
  size_t count = 0;
  CHECK_EQ(saqiya_queue_create(s.store, NULL, &queue, NULL), SAQIYA_OK);
  memset(tickets, 0x55, sizeof tickets);
  memset(each, 0x55, sizeof each);
  r.tickets = tickets;
  r.each = each;
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_drain(queue, done, 4, &count), SAQIYA_OK);
  CHECK(count == 1 && done[0].decision.outcome == SAQIYA_ALLOWED && done[0].decision.rule == 1);
  CHECK(is_zero(&done[0].ticket, sizeof done[0].ticket));
  CHECK(each[0].remaining == 2 && each[1].remaining == 1 && each[1].rule == 1);
  CHECK(tickets[0].algorithm == SAQIYA_TOKEN_BUCKET && tickets[0].n != 0);
  CHECK(tickets[1].algorithm == SAQIYA_FIXED_WINDOW && tickets[1].n != 0);
  CHECK_EQ(tickets[2].n, 0x55555555); /* room behind them is not touched */
  CHECK_EQ(each[2].rule, 0x55555555);
  r = request_of(&s, SAQIYA_OP_SETTLE, 1, 2);
  r.ticket = tickets;
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK(tickets[0].flags & tickets[1].flags & 1);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK); /* spent */
  r = request_of(&s, SAQIYA_OP_PEEK, 2, 3);
  r.each = each;
  r.tickets = tickets;
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_drain(queue, done, 4, &count), SAQIYA_OK);
  CHECK(count == 3 && done[0].decision.outcome == SAQIYA_ALLOWED);
  CHECK_EQ(done[1].decision.outcome, SAQIYA_DENIED);
  CHECK(done[2].decision.outcome == SAQIYA_ALLOWED && done[2].decision.remaining == 2);
  CHECK(each[0].remaining == 3 && each[1].remaining == 2);
  CHECK(is_zero(tickets, 2 * sizeof *tickets)); /* a peek gives none */
  saqiya_queue_free(queue);
  setup_free(&s);
}

static void test_items(void) {
  setup s = setup_open("2/h; concurrency: 1 ttl 30s");
  saqiya_queue *queue = NULL;
  saqiya_limiter *free_one = NULL;
  saqiya_completion done[4];
  saqiya_item items[2];
  saqiya_ticket tickets[3];
  saqiya_decision each[3];
  saqiya_request r;
  size_t count = 0;
  CHECK_EQ(saqiya_queue_create(s.store, NULL, &queue, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_create(s.store, "unlimited", NULL, &free_one, NULL), SAQIYA_OK);
  memset(items, 0, sizeof items);
  items[0].limiter = free_one;
  items[1].limiter = s.limiter;
  items[1].key = "k";
  items[1].key_len = 1;
  items[1].cost = 1;
  saqiya_request_init(&r, sizeof r);
  r.items = items;
  r.item_count = 2;
  r.each = each;
  r.tickets = tickets;
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK); /* the limiter is of no matter */
  CHECK(each[0].remaining == SAQIYA_UNLIMITED && tickets[0].n == 0);
  CHECK(each[1].remaining == 1 && each[2].remaining == 0 && tickets[2].lease != 0);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_drain(queue, done, 4, &count), SAQIYA_OK);
  CHECK(count == 2 && done[0].decision.outcome == SAQIYA_ALLOWED);
  CHECK(done[0].decision.item == 1 && done[0].decision.rule == 1);
  CHECK_EQ(done[1].decision.outcome, SAQIYA_DENIED);
  CHECK(is_zero(tickets, sizeof tickets));
  r.item_count = 1; /* only what is unlimited */
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK(each[0].remaining == SAQIYA_UNLIMITED && each[0].outcome == SAQIYA_ALLOWED);
  CHECK_EQ(saqiya_queue_drain(queue, done, 4, &count), SAQIYA_OK);
  CHECK(count == 1 && done[0].decision.remaining == SAQIYA_UNLIMITED);
  saqiya_limiter_free(free_one);
  saqiya_queue_free(queue);
  setup_free(&s);
}

/* A caller of the first version has a shorter request and a shorter rule. */
static void test_older_request(void) {
  setup s = setup_open("10/h");
  saqiya_queue *queue = NULL;
  saqiya_completion done;
  saqiya_request r = request_of(&s, SAQIYA_OP_CHECK, 4, 1);
  size_t count = 0;
  CHECK_EQ(saqiya_queue_create(s.store, NULL, &queue, NULL), SAQIYA_OK);
  memset(&r.items, 0x55, sizeof r - offsetof(saqiya_request, items)); /* not its */
  r.size = offsetof(saqiya_request, items);
  CHECK_EQ(saqiya_queue_submit(queue, &r), SAQIYA_OK);
  CHECK_EQ(saqiya_queue_drain(queue, &done, 1, &count), SAQIYA_OK);
  CHECK(count == 1 && done.decision.remaining == 6 && done.ticket.cost == 4);
  saqiya_queue_free(queue);
  setup_free(&s);
}

void test_queues(void) {
  test_several_rules();
  test_items();
  test_older_request();

  test_create();
  test_operations();
  test_misuse();
  test_bound_and_close();
  test_unlimited();
}

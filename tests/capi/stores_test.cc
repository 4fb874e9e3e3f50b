// What requests of several rules, and of several limiters, do on both kinds of store, called as
// they block and through queues. Under a manual clock; only acquire waits in real time.
#include <gtest/gtest.h>
#include <saqiya/saqiya.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/redis/server.h"

namespace saqiya::test {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kHour = 3600 * kSecond;
constexpr std::int64_t kStart = 1'800'000'000 * kSecond + 7;

struct Free {
  void operator()(saqiya_clock* clock) const { saqiya_clock_free(clock); }
  void operator()(saqiya_store* store) const { saqiya_store_free(store); }
  void operator()(saqiya_limiter* limiter) const { saqiya_limiter_free(limiter); }
  void operator()(saqiya_queue* queue) const { saqiya_queue_free(queue); }
};
using LimiterHandle = std::unique_ptr<saqiya_limiter, Free>;
using StoreHandle = std::unique_ptr<saqiya_store, Free>;
using QueueHandle = std::unique_ptr<saqiya_queue, Free>;

struct Result {
  saqiya_decision decision{};
  std::vector<saqiya_decision> each;
  std::vector<saqiya_ticket> tickets;
};

// The name of a store, and whether requests go through a queue.
struct Way {
  const char* name;
  bool on_redis;
  bool queued;
};

class Stores : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    saqiya_clock* clock = nullptr;
    ASSERT_EQ(saqiya_clock_create_manual(kStart, &clock), SAQIYA_OK);
    clock_.reset(clock);
    if (GetParam().on_redis) server_.emplace();
    store_ = open(clock);
    saqiya_queue* queue = nullptr;
    ASSERT_EQ(saqiya_queue_create(store_.get(), nullptr, &queue, nullptr), SAQIYA_OK);
    queue_.reset(queue);
  }

  // Null: the system's clock.
  StoreHandle open(saqiya_clock* clock) {
    saqiya_store_options options;
    saqiya_store_options_init(&options, sizeof options);
    options.deadline_us = 20 * kSecond;
    options.clock = clock;
    if (server_ && clock != nullptr) options.flags = SAQIYA_STORE_TESTING;
    saqiya_store* store = nullptr;
    saqiya_error error;
    EXPECT_EQ(
        saqiya_store_open(server_ ? server_->url().c_str() : "memory://", &options, &store, &error),
        SAQIYA_OK)
        << error.message;
    return StoreHandle(store);
  }

  static LimiterHandle make(const StoreHandle& store, const std::string& policy,
                            const char* name = nullptr) {
    saqiya_limiter_options options;
    saqiya_limiter_options_init(&options, sizeof options);
    options.name = name;
    saqiya_limiter* limiter = nullptr;
    saqiya_error error;
    EXPECT_EQ(saqiya_limiter_create(store.get(), policy.c_str(), &options, &limiter, &error),
              SAQIYA_OK)
        << error.message;
    return LimiterHandle(limiter);
  }
  LimiterHandle make(const std::string& policy, const char* name = nullptr) {
    return make(store_, policy, name);
  }

  static saqiya_item item(const LimiterHandle& limiter, const char* key, std::int64_t cost = 1) {
    return {limiter.get(), key, std::char_traits<char>::length(key), cost};
  }

  static std::size_t rules_of(const std::vector<saqiya_item>& items) {
    std::size_t count = 0;
    for (const saqiya_item& i : items) count += saqiya_limiter_rule_count(i.limiter);
    return count;
  }

  // By whichever way the test's parameter says.
  Result ask(std::uint32_t op, const std::vector<saqiya_item>& items, std::int64_t max_wait = 0) {
    Result out;
    saqiya_decision noise;
    std::fill_n(reinterpret_cast<unsigned char*>(&noise), sizeof noise, 0x55);
    out.each.assign(rules_of(items), noise);
    out.tickets.resize(out.each.size());
    if (GetParam().queued) {
      saqiya_request request;
      saqiya_request_init(&request, sizeof request);
      request.op = op;
      request.items = items.data();
      request.item_count = items.size();
      request.max_wait_us = max_wait;
      request.each = out.each.data();
      request.tickets = out.tickets.data();
      out.decision = submit(request).decision;
    } else if (op == SAQIYA_OP_CHECK) {
      EXPECT_EQ(saqiya_check_all(items.data(), items.size(), max_wait, &out.decision,
                                 out.each.data(), out.tickets.data()),
                SAQIYA_OK);
    } else {
      EXPECT_EQ(saqiya_peek_all(items.data(), items.size(), &out.decision, out.each.data()),
                SAQIYA_OK);
    }
    return out;
  }
  Result check(const std::vector<saqiya_item>& items, std::int64_t max_wait = 0) {
    return ask(SAQIYA_OP_CHECK, items, max_wait);
  }
  Result peek(const std::vector<saqiya_item>& items) { return ask(SAQIYA_OP_PEEK, items); }

  saqiya_decision refund(const std::vector<saqiya_item>& items,
                         std::vector<saqiya_ticket>* tickets) {
    saqiya_decision d{};
    if (GetParam().queued) {
      saqiya_request request;
      saqiya_request_init(&request, sizeof request);
      request.op = SAQIYA_OP_REFUND;
      request.items = items.data();
      request.item_count = items.size();
      request.ticket = tickets->data();
      return submit(request).decision;
    }
    EXPECT_EQ(saqiya_refund_all(items.data(), items.size(), tickets->data(), &d), SAQIYA_OK);
    return d;
  }

  // Settle, renew, refund, reset, peek of one limiter.
  saqiya_decision one(std::uint32_t op, const saqiya_item& on, saqiya_ticket* tickets) {
    saqiya_decision d{};
    if (GetParam().queued) {
      saqiya_request request;
      saqiya_request_init(&request, sizeof request);
      request.op = op;
      request.limiter = on.limiter;
      request.key = on.key;
      request.key_len = on.key_len;
      request.cost = on.cost;
      request.ticket = tickets;
      return submit(request).decision;
    }
    int code = SAQIYA_INVALID;
    switch (op) {
      case SAQIYA_OP_SETTLE:
        code = saqiya_limiter_settle(on.limiter, on.key, on.key_len, tickets, on.cost, &d);
        break;
      case SAQIYA_OP_RENEW:
        code = saqiya_limiter_renew(on.limiter, on.key, on.key_len, tickets, &d);
        break;
      case SAQIYA_OP_REFUND:
        code = saqiya_limiter_refund(on.limiter, on.key, on.key_len, tickets, &d);
        break;
      case SAQIYA_OP_PEEK:
        code = saqiya_limiter_peek(on.limiter, on.key, on.key_len, on.cost, &d);
        break;
      default:
        code = saqiya_limiter_reset(on.limiter, on.key, on.key_len, &d);
    }
    EXPECT_EQ(code, SAQIYA_OK);
    return d;
  }

  std::int64_t remaining(const LimiterHandle& limiter, const char* key) {
    return one(SAQIYA_OP_PEEK, item(limiter, key, 0), nullptr).remaining;
  }

  saqiya_completion submit(const saqiya_request& request) {
    EXPECT_EQ(saqiya_queue_submit(queue_.get(), &request), SAQIYA_OK);
    return drain_one();
  }

  saqiya_completion drain_one() {
    saqiya_completion done{};
    std::size_t count = 0;
    for (int i = 0; count == 0 && i < 1'000; ++i) {
      EXPECT_EQ(saqiya_queue_process(queue_.get()), SAQIYA_OK);
      EXPECT_EQ(saqiya_queue_drain(queue_.get(), &done, 1, &count), SAQIYA_OK);
      if (count == 0) saqiya_queue_wait(queue_.get(), kSecond);
    }
    EXPECT_EQ(count, 1U) << "nothing completed";
    return done;
  }

  void advance(std::int64_t by) { ASSERT_EQ(saqiya_clock_advance(clock_.get(), by), SAQIYA_OK); }

  std::optional<testing::RedisServer> server_;
  std::unique_ptr<saqiya_clock, Free> clock_;
  StoreHandle store_;
  QueueHandle queue_;
};

constexpr const char* kPolicies[] = {
    "10/h",
    "fixed-window: 10/h",
    "sliding-window: 10/h",
    "sliding-log: 10/h",
    "calendar: 10/day tz Asia/Kathmandu",
    "concurrency: 10 ttl 1h",
    ("3/s burst 10; 10/min; fixed-window: 10/h; sliding-window: 10/h; sliding-log: 10/h; "
     "calendar: 10/month anchor 31 tz Africa/Cairo; concurrency: 10 ttl 1h"),
};

TEST_P(Stores, EveryAlgorithmFromCheckToReset) {
  for (const char* policy : kPolicies) {
    SCOPED_TRACE(policy);
    const LimiterHandle limiter = make(policy);
    const saqiya_item four = item(limiter, "k", 4);
    Result first = check({four});
    ASSERT_EQ(first.decision.outcome, SAQIYA_ALLOWED);
    EXPECT_EQ(first.decision.remaining, 6);
    for (std::size_t i = 0; i < first.each.size(); ++i) {
      saqiya_rule rule;
      saqiya_rule_init(&rule, sizeof rule);
      ASSERT_EQ(saqiya_limiter_get_rule(limiter.get(), i, &rule), SAQIYA_OK);
      EXPECT_EQ(first.each[i].rule, static_cast<std::int32_t>(i));
      EXPECT_EQ(first.each[i].remaining, 6);
      EXPECT_EQ(first.tickets[i].algorithm, rule.algorithm);
      EXPECT_EQ(first.tickets[i].cost, 4);
      EXPECT_EQ(first.tickets[i].lease != 0, rule.algorithm == SAQIYA_CONCURRENCY);
    }
    const Result refused = check({item(limiter, "k", 7)});
    EXPECT_EQ(refused.decision.outcome, SAQIYA_DENIED);
    EXPECT_EQ(refused.decision.remaining, 6);
    std::int64_t longest = 0;
    for (const saqiya_decision& d : refused.each) longest = std::max(longest, d.retry_after_us);
    EXPECT_EQ(refused.decision.retry_after_us, longest);
    EXPECT_TRUE(std::all_of(refused.tickets.begin(), refused.tickets.end(),
                            [](const saqiya_ticket& t) { return t.n == 0; }));
    EXPECT_EQ(peek({item(limiter, "k", 6)}).decision.outcome, SAQIYA_ALLOWED);
    EXPECT_EQ(check({item(limiter, "k", 11)}).decision.outcome, SAQIYA_NEVER);
    Result second = check({item(limiter, "k", 6)});
    EXPECT_EQ(second.decision.remaining, 0);
    // Beside other rules a lease is left alone, and unspent.
    const bool keeps =
        second.tickets.size() > 1 && second.tickets.back().algorithm == SAQIYA_CONCURRENCY;
    EXPECT_EQ(one(SAQIYA_OP_SETTLE, item(limiter, "k", 2), second.tickets.data()).remaining,
              keeps ? 0 : 4);
    EXPECT_EQ(second.tickets.back().flags & 1, keeps ? 0U : 1U);
    if (keeps) {
      EXPECT_EQ(one(SAQIYA_OP_REFUND, four, second.tickets.data()).remaining, 4);
    }
    EXPECT_EQ(one(SAQIYA_OP_REFUND, four, first.tickets.data()).remaining, 8);
    EXPECT_EQ(one(SAQIYA_OP_REFUND, four, first.tickets.data()).outcome, SAQIYA_DENIED);
    EXPECT_EQ(one(SAQIYA_OP_RESET, four, nullptr).remaining, 10);
    EXPECT_EQ(remaining(limiter, "k"), 10);
  }
}

TEST_P(Stores, AllOrNothingOverLimitersAndKeys) {
  const LimiterHandle user = make("1/h; sliding-log: 3/day");
  const LimiterHandle global = make("100/h", "global");
  const LimiterHandle slots = make("concurrency: 5 ttl 1min");
  const std::vector<saqiya_item> items = {item(user, "u"), item(global, "all", 2),
                                          item(slots, "host")};
  Result allowed = check(items);
  ASSERT_EQ(allowed.decision.outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(allowed.decision.item, 0);
  EXPECT_EQ(allowed.decision.rule, 0);
  EXPECT_EQ(allowed.each[2].remaining, 98);
  EXPECT_EQ(allowed.each[2].item, 1);
  EXPECT_EQ(allowed.each[3].remaining, 4);
  for (int i = 0; i < 19; ++i) {
    const Result refused = check(items);
    ASSERT_EQ(refused.decision.outcome, SAQIYA_DENIED);
    ASSERT_EQ(refused.decision.item, 0);
    ASSERT_EQ(refused.each[1].outcome, SAQIYA_ALLOWED);
    ASSERT_EQ(refused.each[2].outcome, SAQIYA_ALLOWED);
  }
  EXPECT_EQ(remaining(global, "all"), 98);
  EXPECT_EQ(remaining(slots, "host"), 4);
  advance(kHour);
  EXPECT_EQ(check(items).decision.outcome, SAQIYA_ALLOWED);
  // The lease of the first has expired; its tokens have come back; the log still counts it.
  const saqiya_decision d = refund(items, &allowed.tickets);
  EXPECT_EQ(d.outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(refund(items, &allowed.tickets).outcome, SAQIYA_DENIED);
  EXPECT_EQ(remaining(slots, "host"), 4);
  EXPECT_EQ(peek(items).each[1].remaining, 2);
}

TEST_P(Stores, TicketsOfOneItemAlone) {
  const LimiterHandle a = make("10/h; fixed-window: 10/h");
  const LimiterHandle b = make("concurrency: 2 ttl 30s");
  const std::vector<saqiya_item> items = {item(a, "x", 4), item(b, "y")};
  Result r = check(items);
  ASSERT_EQ(r.decision.outcome, SAQIYA_ALLOWED);
  advance(20 * kSecond);
  EXPECT_EQ(one(SAQIYA_OP_RENEW, items[1], &r.tickets[2]).reset_after_us, 30 * kSecond);
  EXPECT_EQ(r.tickets[2].flags & 1, 0U) << "a renewed lease is still held";
  advance(20 * kSecond);
  EXPECT_EQ(remaining(b, "y"), 1);
  EXPECT_EQ(one(SAQIYA_OP_SETTLE, item(a, "x", 1), r.tickets.data()).outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(refund(items, &r.tickets).outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(remaining(b, "y"), 2);
  EXPECT_EQ(remaining(a, "x"), 9);
  EXPECT_EQ(one(SAQIYA_OP_RENEW, items[1], &r.tickets[2]).outcome, SAQIYA_DENIED);
}

TEST_P(Stores, EqualItemsAreAddedUp) {
  const LimiterHandle a = make("5/h", "n");
  const LimiterHandle b = make("5/h", "n");
  Result r = check({item(a, "k", 2), item(b, "k", 2), item(a, "k", 0)});
  ASSERT_EQ(r.decision.outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(r.decision.remaining, 1);
  EXPECT_EQ(r.each[2].remaining, 1);
  EXPECT_EQ(check({item(a, "k"), item(b, "k")}).decision.outcome, SAQIYA_DENIED);
  EXPECT_EQ(remaining(a, "k"), 1);
  EXPECT_EQ(refund({item(a, "k"), item(b, "k"), item(a, "k")}, &r.tickets).remaining, 5);
}

TEST_P(Stores, MostItemsAndMostRules) {
  std::string policy;
  for (int i = 1; i <= SAQIYA_MAX_RULES; ++i) {
    policy += std::string(i > 1 ? "; " : "") + "fixed-window: 10/" + std::to_string(i) + "h";
  }
  const LimiterHandle limiter = make(policy);
  std::vector<std::string> keys;
  for (int i = 0; i < SAQIYA_MAX_ITEMS; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<saqiya_item> items;
  for (const std::string& key : keys) items.push_back(item(limiter, key.c_str(), 10));
  Result r = check(items);
  ASSERT_EQ(r.decision.outcome, SAQIYA_ALLOWED);
  ASSERT_EQ(r.each.size(), 128U);
  EXPECT_EQ(r.each.back().item, SAQIYA_MAX_ITEMS - 1);
  EXPECT_EQ(r.each.back().rule, SAQIYA_MAX_RULES - 1);
  const Result refused = check(items);
  EXPECT_EQ(refused.decision.outcome, SAQIYA_DENIED);
  EXPECT_EQ(refused.decision.item, 0) << "of equals the first";
  EXPECT_EQ(refund(items, &r.tickets).outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(check(items).decision.outcome, SAQIYA_ALLOWED);
}

TEST_P(Stores, UnlimitedItemsArePassedOver) {
  const LimiterHandle none = make("unlimited");
  const LimiterHandle some = make("5/h");
  Result all = check({item(none, "k", 7), item(none, "l")});
  EXPECT_EQ(all.decision.outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(all.decision.limit, SAQIYA_UNLIMITED);
  EXPECT_EQ(all.each[1].limit, SAQIYA_UNLIMITED);
  EXPECT_EQ(refund({item(none, "k")}, &all.tickets).outcome, SAQIYA_DENIED);
  Result r = check({item(none, "k"), item(some, "k", 2), item(none, "k")});
  EXPECT_EQ(r.decision.limit, 5);
  EXPECT_EQ(r.decision.item, 1);
  EXPECT_EQ(r.each[0].outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(r.each[2].remaining, SAQIYA_UNLIMITED);
  EXPECT_EQ(refund({item(none, "k"), item(some, "k"), item(none, "k")}, &r.tickets).remaining, 5);
  EXPECT_EQ(check({item(none, "k"), item(some, "k", 6)}).decision.outcome, SAQIYA_NEVER);
}

TEST_P(Stores, WaitsAreReservedWhereAllAreBuckets) {
  const LimiterHandle bucket = make("1/s");
  const LimiterHandle queue = make("leaky-bucket: 2/s queue 1");
  const LimiterHandle window = make("fixed-window: 100/h");
  const std::vector<saqiya_item> buckets = {item(bucket, "k"), item(queue, "k")};
  EXPECT_EQ(check(buckets).decision.delay_us, 0);
  const Result waits = check(buckets, 10 * kSecond);
  EXPECT_EQ(waits.decision.outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(waits.decision.delay_us, kSecond);
  EXPECT_EQ(waits.each[1].delay_us, kSecond / 2);
  EXPECT_EQ(waits.tickets[0].flags, 2U);
  EXPECT_EQ(check(buckets, 10 * kSecond).decision.item, 1) << "no longer than the queue is";
  // With another algorithm among them only a rule's own queue is waited in.
  const std::vector<saqiya_item> mixed = {item(queue, "l"), item(window, "l")};
  EXPECT_EQ(check(mixed, SAQIYA_NO_WAIT).decision.outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(check(mixed, SAQIYA_NO_WAIT).decision.outcome, SAQIYA_DENIED);
  EXPECT_EQ(check(mixed, 1).decision.delay_us, kSecond / 2);
  EXPECT_EQ(check({item(bucket, "l"), item(window, "l")}, kHour).decision.delay_us, 0);
  EXPECT_EQ(check({item(bucket, "l"), item(window, "l")}, kHour).decision.outcome, SAQIYA_DENIED);
}

TEST_P(Stores, CheckManyHasTheTicketsOfEachRule) {
  const LimiterHandle limiter = make("10/h; sliding-window: 20/h; concurrency: 30 ttl 1h");
  const saqiya_key keys[] = {{"a", 1}, {"b", 1}, {"a", 1}, {"a", 1}};
  saqiya_decision decisions[4];
  saqiya_ticket tickets[12];
  ASSERT_EQ(saqiya_limiter_check_many(limiter.get(), keys, 4, 5, decisions, tickets), SAQIYA_OK);
  EXPECT_EQ(decisions[2].remaining, 0);
  EXPECT_EQ(decisions[3].outcome, SAQIYA_DENIED);
  EXPECT_EQ(decisions[3].rule, 0);
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(tickets[i].cost, 5);
    EXPECT_EQ(tickets[i].algorithm, i % 3 == 0 ? 1U : i % 3 == 1 ? 4U : 7U);
  }
  for (int i = 9; i < 12; ++i) EXPECT_EQ(tickets[i].n, 0U);
  EXPECT_EQ(one(SAQIYA_OP_REFUND, item(limiter, "a"), tickets + 6).remaining, 5);
  EXPECT_EQ(one(SAQIYA_OP_REFUND, item(limiter, "b"), tickets + 3).remaining, 10);
  ASSERT_EQ(saqiya_limiter_check_many(limiter.get(), keys, 2, 5, decisions, nullptr), SAQIYA_OK);
  EXPECT_EQ(decisions[1].remaining, 5);
}

TEST_P(Stores, QueuedRequestsMixAndKeepTheirOrder) {
  const LimiterHandle bucket = make("10/h");
  const LimiterHandle rules = make("sliding-log: 10/h; concurrency: 10 ttl 1h");
  std::vector<saqiya_ticket> tickets(60);
  std::vector<saqiya_decision> each(60);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const saqiya_item items[] = {item(bucket, "k"), item(rules, "k")};
    saqiya_request request;
    saqiya_request_init(&request, sizeof request);
    request.user_data = i;
    if (i % 2 == 0) {
      request.items = items;
      request.item_count = 2;
      request.each = &each[i * 3];
      request.tickets = &tickets[i * 3];
    } else {
      request.limiter = bucket.get();
      request.key = "k";
      request.key_len = 1;
    }
    ASSERT_EQ(saqiya_queue_submit(queue_.get(), &request), SAQIYA_OK);
  }
  EXPECT_EQ(saqiya_queue_pending(queue_.get()), 20U);
  std::vector<bool> seen(20);
  int allowed = 0;
  for (int n = 0; n < 20; ++n) {
    const saqiya_completion done = drain_one();
    const auto i = static_cast<std::size_t>(done.user_data);
    ASSERT_LT(i, 20U);
    EXPECT_FALSE(seen[i]);
    seen[i] = true;
    const bool ok = done.decision.outcome == SAQIYA_ALLOWED;
    EXPECT_EQ(ok, i < 10) << "in the order of submission";
    allowed += ok ? 1 : 0;
    EXPECT_EQ(done.ticket.n != 0, ok && i % 2 == 1);
    if (i % 2 == 0) {
      EXPECT_EQ(tickets[i * 3 + 2].lease != 0, ok);
      EXPECT_EQ(each[i * 3 + 2].item, 1);
    }
  }
  EXPECT_EQ(allowed, 10);
  EXPECT_EQ(remaining(rules, "k"), 5);
}

// A holder releases; the waiter, who looks again and again, gets the slot long before it expires.
TEST_P(Stores, AcquireGetsASlotThatIsReleased) {
  const StoreHandle store = open(nullptr);
  const LimiterHandle limiter = make(store, "concurrency: 1 ttl 600s");
  const saqiya_item slot = item(limiter, "k");
  saqiya_decision d;
  saqiya_ticket held;
  ASSERT_EQ(saqiya_limiter_acquire(limiter.get(), "k", 1, 1, 0, &d, &held), SAQIYA_OK);
  ASSERT_EQ(d.outcome, SAQIYA_ALLOWED);
  std::atomic<bool> waits{false};
  saqiya_decision got{};
  std::thread waiter([&] {
    waits = true;
    saqiya_acquire_all(&slot, 1, 500 * kSecond, &got, nullptr, nullptr);
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(saqiya_limiter_refund(limiter.get(), "k", 1, &held, &d), SAQIYA_OK);
  waiter.join();
  EXPECT_EQ(got.outcome, SAQIYA_ALLOWED);
}

TEST_P(Stores, AcquireWaitsForEveryAlgorithm) {
  const StoreHandle store = open(nullptr);
  const LimiterHandle a = make(store, "leaky-bucket: 50/s queue 5; sliding-log: 2/50ms");
  const LimiterHandle b = make(store, "fixed-window: 1/20ms; sliding-window: 3/60ms");
  const LimiterHandle c = make(store, "concurrency: 2 ttl 30ms");
  const saqiya_item items[] = {item(a, "k"), item(b, "k"), item(c, "k")};
  saqiya_decision d;
  std::vector<saqiya_decision> each(5);
  std::vector<saqiya_ticket> tickets(5);
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(saqiya_acquire_all(items, 3, 600 * kSecond, &d, each.data(), tickets.data()),
              SAQIYA_OK);
    ASSERT_EQ(d.outcome, SAQIYA_ALLOWED) << saqiya_reason_name(d.reason);
    ASSERT_TRUE(std::all_of(tickets.begin(), tickets.end(),
                            [](const saqiya_ticket& t) { return t.n != 0; }));
  }
  const LimiterHandle day = make(store, "sliding-log: 1/d");
  ASSERT_EQ(saqiya_limiter_acquire(day.get(), "k", 1, 1, 0, &d, nullptr), SAQIYA_OK);
  ASSERT_EQ(saqiya_limiter_acquire(day.get(), "k", 1, 1, kSecond, &d, nullptr), SAQIYA_OK);
  EXPECT_EQ(d.outcome, SAQIYA_DENIED) << "not in time, so at once";
}

// A queue that is longer than the caller's patience, in a policy that cannot reserve: what was
// charged is given back.
TEST_P(Stores, AcquireGivesBackWhatIsTooLate) {
  const StoreHandle store = open(nullptr);
  const LimiterHandle limiter = make(store, "leaky-bucket: 1/h queue 5; sliding-log: 10/d");
  saqiya_decision d;
  ASSERT_EQ(saqiya_limiter_acquire(limiter.get(), "k", 1, 1, kSecond, &d, nullptr), SAQIYA_OK);
  ASSERT_EQ(d.outcome, SAQIYA_ALLOWED);
  for (int i = 0; i < 3; ++i) {
    saqiya_ticket tickets[2];
    ASSERT_EQ(saqiya_limiter_acquire(limiter.get(), "k", 1, 1, kSecond, &d, tickets), SAQIYA_OK);
    EXPECT_EQ(d.outcome, SAQIYA_DENIED);
    EXPECT_GT(d.retry_after_us, kSecond);
    EXPECT_EQ(tickets[0].n, 0U);
  }
  saqiya_decision each[2];
  const saqiya_item on = item(limiter, "k");
  ASSERT_EQ(saqiya_peek_all(&on, 1, &d, each), SAQIYA_OK);
  EXPECT_EQ(each[1].remaining, 9);
  EXPECT_LE(each[0].reset_after_us, kHour);
}

TEST_P(Stores, AnswersOfAStoreThatIsGone) {
  if (!GetParam().on_redis) {
    EXPECT_EQ(saqiya_store_is_local(store_.get()), 1);  // it cannot go
    return;
  }
  const LimiterHandle a = make("10/h; concurrency: 2 ttl 1h");
  const LimiterHandle b = make("fixed-window: 3/h");
  const std::vector<saqiya_item> items = {item(a, "k"), item(b, "k")};
  Result before = check(items);
  ASSERT_EQ(before.decision.outcome, SAQIYA_ALLOWED);
  server_->kill();
  const Result r = check(items);
  EXPECT_EQ(r.decision.outcome, SAQIYA_UNAVAILABLE);
  EXPECT_NE(r.decision.reason, SAQIYA_REASON_NONE);
  for (const saqiya_decision& d : r.each) EXPECT_EQ(d.outcome, SAQIYA_UNAVAILABLE);
  for (const saqiya_ticket& t : r.tickets) EXPECT_EQ(t.n, 0U);
  EXPECT_EQ(check({item(a, "k"), item(b, "k", 4)}).decision.outcome, SAQIYA_NEVER);
  EXPECT_EQ(refund(items, &before.tickets).outcome, SAQIYA_UNAVAILABLE);
  EXPECT_EQ(before.tickets[0].flags & 1, 1U);
  saqiya_decision d;
  ASSERT_EQ(saqiya_acquire_all(items.data(), 2, 100 * kSecond, &d, nullptr, nullptr), SAQIYA_OK);
  EXPECT_EQ(d.outcome, SAQIYA_UNAVAILABLE) << "at once";
}

INSTANTIATE_TEST_SUITE_P(Both, Stores,
                         ::testing::Values(Way{"Memory", false, false},
                                           Way{"MemoryQueue", false, true},
                                           Way{"Redis", true, false},
                                           Way{"RedisQueue", true, true}),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace saqiya::test

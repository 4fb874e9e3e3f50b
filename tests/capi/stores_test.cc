// What requests of several rules, and of several limiters, do on both kinds of store.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/capi/stores.h"

namespace saqiya::test {
namespace {

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
INSTANTIATE_TEST_SUITE_P(Both, Stores, kEveryWay, name_of);

}  // namespace
}  // namespace saqiya::test

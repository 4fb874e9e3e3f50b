// Groups in a queue: what is sent again, what is refused, what another store's tickets do.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr Micros kStart = 1'790'000'000'000'000;

// A calendar's windows were not the server's while the batch behind is on the wire: only that one
// request goes again, and every reply finds its own.
TEST(RedisGroupQueue, WhatGoesAgainTakesNothingElseAlong) {
  const std::string now = ":" + std::to_string(kStart) + "\r\n";
  std::vector<std::string> counts;  // of keys in each batch
  FakeServer server([&](const Command& command) {
    counts.push_back(command[2]);
    switch (counts.size()) {
      case 1:  // the warm-up
        return say("*2\r\n" + now + ":-100\r\n");
      case 2:  // the calendar
        return stay_silent();
      case 3:  // two buckets
        return say("*2\r\n" + now + "-SAQIYARANGE none of the calendar windows\r\n");
      case 4:  // the calendar again
        return say("*3\r\n" + now + ":-100\r\n:-200\r\n*4\r\n" + now +
                   ":1\r\n:" + std::to_string(kStart + 5) + "\r\n:0\r\n");
      default:
        return hang_up();
    }
  });
  const auto store = open(server.url(), patient());
  const auto bucket = make_limiter(store, "5/s");
  const auto calendar = make_limiter(store, "calendar: 5/day");
  auto queue = open_queue(store);
  queue->submit(check(*bucket, "warm"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  queue->submit(check(*calendar, "u"), 1);
  queue->process();
  queue->submit(check(*bucket, "a"), 2);
  queue->submit(check(*bucket, "b"), 3);
  const std::vector<Completion> all = collect(*queue, 3);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].user_data, 2U);
  EXPECT_EQ(all[1].user_data, 3U);
  EXPECT_EQ(all[2].user_data, 1U);
  for (const Completion& c : all) EXPECT_EQ(c.decision.outcome, Outcome::kAllowed) << c.user_data;
  EXPECT_EQ(all[2].decision.remaining, 4);
  EXPECT_EQ(counts, (std::vector<std::string>{"1", "1", "2", "1"}));
  EXPECT_EQ(queue->pending(), 0U);
  EXPECT_EQ(store->stats().connects, 1U);
}

// A ticket says which table was charged: one of the memory store gives nothing here.
TEST(RedisGroupQueue, TicketsOfAnotherStoreChangeNothing) {
  RedisServer server;
  const auto clock = std::make_shared<ManualClock>(kStart);
  StoreOptions options;
  options.clock = clock;
  const auto memory = open("memory://", options);
  const auto redis = open(server.url(), timed(clock));
  for (const char* text : {"3/h; fixed-window: 3/h", "fixed-window: 3/h", "sliding-window: 3/h",
                           "sliding-log: 3/h", "calendar: 3/day"}) {
    SCOPED_TRACE(text);
    const auto here = make_limiter(memory, text, "n");
    const auto there = make_limiter(redis, text, "n");
    std::vector<Ticket> tickets(here->rules().size());
    Request taken = check(*here, "u");
    taken.tickets_out = tickets;
    ASSERT_EQ(outcome(taken), Outcome::kAllowed);
    ASSERT_EQ(outcome(check(*there, "u", 2)), Outcome::kAllowed);
    Request change = check(*there, "u", 3);
    change.tickets = tickets;
    for (const Op op : {Op::kRefund, Op::kSettle}) {
      change.op = op;
      EXPECT_EQ(outcome(change), Outcome::kDenied);
    }
    EXPECT_EQ(ask(peek(*there, "u")).decision.remaining, 1);
    ASSERT_EQ(outcome(reset(*there, "u")), Outcome::kAllowed);
  }
}

// What each rule would have said when the store fails: which it is, and never where it can never
// be.
TEST(RedisGroupQueue, FailuresNameTheirRules) {
  const auto store = open("redis://127.0.0.1:1");
  const auto two = make_limiter(store, "5/s; fixed-window: 3/h");
  const auto none = make_limiter(store, "unlimited");
  auto queue = open_queue(store);
  const std::vector<Item> items = {{none.get(), "u", 1}, {two.get(), "u", 4}};
  std::vector<Decision> each(3);
  Request request;
  request.items = items;
  request.each = each;
  ASSERT_EQ(queue->submit(request, 1), SubmitResult::kOk);
  queue->close();
  const std::vector<Completion> all = collect(*queue, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].decision.outcome, Outcome::kNever);
  EXPECT_EQ(all[0].decision.item, 1);
  EXPECT_EQ(all[0].decision.rule, 1);
  EXPECT_EQ(each[0].outcome, Outcome::kAllowed);
  EXPECT_EQ(each[1].outcome, Outcome::kUnavailable);
  EXPECT_EQ(each[1].item, 1);
  EXPECT_EQ(each[2].outcome, Outcome::kNever);
  EXPECT_EQ(each[2].rule, 1);
}

// Its limiters may be freed as soon as a request is submitted, unlimited ones, too: they are asked
// once more what they would have said when the store cannot.
TEST(RedisGroupQueue, LimitersMayGoBeforeTheStoreFails) {
  StoreOptions options;
  options.deadline = 50'000;
  for (const bool unlimited_first : {false, true}) {
    const auto store = open("redis://127.0.0.1:1", options);
    auto limited = make_limiter(store, "10/h", "limited");
    auto unlimited = make_limiter(store, "unlimited", std::string(100, 'u'));
    std::vector<Item> items = {{limited.get(), "a", 1}, {unlimited.get(), "a", 1}};
    if (unlimited_first) std::swap(items[0], items[1]);
    Request request;
    request.items = items;
    auto queue = open_queue(store);
    ASSERT_EQ(queue->submit(request, 1), SubmitResult::kOk);
    const std::weak_ptr<Limiter> held = unlimited;
    limited.reset();
    unlimited.reset();
    EXPECT_FALSE(held.expired());
    const std::vector<Completion> all = collect(*queue, 1);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].decision.outcome, Outcome::kUnavailable);
    EXPECT_EQ(all[0].decision.reason, Reason::kConnect);
    queue.reset();
    EXPECT_TRUE(held.expired());
  }
}

}  // namespace
}  // namespace saqiya::testing

// A program over a Redis server that dies and comes back: what each failure policy decides, every
// counter, every event.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saqiya/saqiya.hpp"
#include "tests/redis/server.h"

namespace {

namespace sq = saqiya::api;
using saqiya::testing::RedisServer;
using sq::Micros;

constexpr char kPassword[] = "pa55w0rd";

// A limiter with a failure policy.
sq::LimiterOptions with(std::uint32_t failure, std::uint32_t share_ppm = 0,
                        const char* fallback = nullptr) {
  sq::LimiterOptions options;
  options.failure = failure;
  options.failure_share_ppm = share_ppm;
  options.fallback = fallback;
  return options;
}

class CapiFailureTest : public ::testing::Test {
 protected:
  static sq::StoreOptions patient() {
    sq::StoreOptions options;
    options.deadline_us = 20'000'000;
    return options;
  }

  // Until Redis decides again; how many checks that took before.
  std::uint64_t ask_until_back(sq::Limiter& limiter) {
    std::uint64_t tries = 0;
    for (;; ++tries) {
      const sq::Decision d = limiter.check("back");
      if (d.source == SAQIYA_SOURCE_STORE && d.outcome != SAQIYA_UNAVAILABLE) break;
      timespec pause = {0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
    return tries;
  }

  std::vector<sq::Event> events() {
    std::vector<sq::Event> all;
    while (store_.has_event()) all.push_back(store_.next_event());
    for (const sq::Event& event : all) {
      EXPECT_EQ(std::string_view(event.message).find(kPassword), std::string_view::npos);
      EXPECT_EQ(std::string_view(event.server), server_name());
      EXPECT_GT(event.wall_us, 1'600'000'000'000'000);
    }
    EXPECT_EQ(store_.next_event().kind, std::uint32_t{SAQIYA_EVENT_NONE});
    return all;
  }
  std::string server_name() const { return "127.0.0.1:" + std::to_string(server_.port()); }

  RedisServer server_{{"--requirepass", kPassword}};
  sq::Store store_{server_.url(std::string(":") + kPassword + "@"), patient()};
};

TEST_F(CapiFailureTest, EveryPolicyAndEveryCounter) {
  sq::Limiter local(store_, "100/h", with(0, 250'000));
  sq::Limiter fallback(store_, "101/h", with(SAQIYA_FAILURE_LOCAL, 0, "3/h"));
  sq::Limiter open(store_, "102/h", with(SAQIYA_FAILURE_OPEN));
  sq::Limiter closed(store_, "103/h", with(SAQIYA_FAILURE_CLOSED));
  sq::Limiter error(store_, "104/h", with(SAQIYA_FAILURE_ERROR));
  for (sq::Limiter* limiter : {&local, &fallback, &open, &closed, &error}) {
    const sq::Decision d = limiter->check("k");
    EXPECT_EQ(d.outcome, SAQIYA_ALLOWED);
    EXPECT_EQ(d.source, SAQIYA_SOURCE_STORE);
    EXPECT_EQ(d.reason, SAQIYA_REASON_NONE);
  }
  EXPECT_EQ(store_.stats().allowed, 5U);
  EXPECT_EQ(store_.stats().degraded, 0U);
  EXPECT_FALSE(store_.has_event());

  server_.kill();
  for (int i = 0; i < 40; ++i) {
    const sq::Decision a = local.check("k");
    EXPECT_EQ(a.outcome, i < 25 ? SAQIYA_ALLOWED : SAQIYA_DENIED);
    EXPECT_EQ(a.source, SAQIYA_SOURCE_LOCAL);
    EXPECT_EQ(a.limit, 25);
    EXPECT_NE(a.reason, SAQIYA_REASON_NONE);
    const sq::Decision b = fallback.check("k");
    EXPECT_EQ(b.outcome, i < 3 ? SAQIYA_ALLOWED : SAQIYA_DENIED);
    const sq::Decision c = open.check("k");
    EXPECT_EQ(c.outcome, SAQIYA_ALLOWED);
    EXPECT_EQ(c.source, SAQIYA_SOURCE_OPEN);
    EXPECT_EQ(c.limit, 0);
    const sq::Decision d = closed.check("k");
    EXPECT_EQ(d.outcome, SAQIYA_DENIED);
    EXPECT_EQ(d.source, SAQIYA_SOURCE_CLOSED);
    EXPECT_GE(d.retry_after_us, 1'000'000);
    EXPECT_LE(d.retry_after_us, 5'000'000);
    const sq::Decision e = error.check("k");
    EXPECT_EQ(e.outcome, SAQIYA_UNAVAILABLE);
    EXPECT_EQ(e.source, SAQIYA_SOURCE_STORE);
    EXPECT_EQ(closed.check("k", 104).outcome, SAQIYA_NEVER);
  }
  saqiya_store_stats stats = store_.stats();
  EXPECT_EQ(stats.degraded, 1U);
  EXPECT_EQ(stats.outages, 1U);
  EXPECT_EQ(stats.local_allowed, 28U);
  EXPECT_EQ(stats.local_denied, 52U);
  EXPECT_EQ(stats.opened, 40U);
  EXPECT_EQ(stats.closed, 40U);
  EXPECT_EQ(stats.allowed, 5U);
  EXPECT_EQ(stats.denied, 0U);
  EXPECT_EQ(stats.cached, 0U);

  server_.start();
  const std::uint64_t tries = ask_until_back(open);
  const std::uint64_t failures = stats.failures + tries;
  stats = store_.stats();
  EXPECT_EQ(stats.degraded, 0U);
  EXPECT_EQ(stats.outages, 1U);
  EXPECT_EQ(stats.opened, 40U + tries);
  EXPECT_EQ(stats.allowed, 6U);
  EXPECT_EQ(stats.failures, failures);
  std::uint64_t answered = 0;
  for (const std::uint64_t count : stats.latency) answered += count;
  EXPECT_EQ(answered, 6U);
  EXPECT_EQ(local.check("k").limit, 100) << "Redis decides again, by the whole limit";
  EXPECT_EQ(closed.check("k").outcome, SAQIYA_ALLOWED);

  const std::vector<sq::Event> told = events();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].kind, std::uint32_t{SAQIYA_EVENT_OUTAGE});
  EXPECT_EQ(told[0].reason, SAQIYA_REASON_CONNECT);
  EXPECT_EQ(told[1].kind, std::uint32_t{SAQIYA_EVENT_RECOVERED});
  EXPECT_EQ(told[1].decisions, failures);
  EXPECT_GT(told[1].duration_us, 0);
  EXPECT_EQ(told[1].suppressed, 0U);
}

TEST_F(CapiFailureTest, QueuesToo) {
  sq::Limiter local(store_, "2/h; fixed-window: 10/h");
  sq::Limiter closed(store_, "103/h", with(SAQIYA_FAILURE_CLOSED));
  sq::Queue queue(store_);
  server_.kill();
  const auto ask = [&](const sq::Request& request) {
    sq::Completion completion;
    EXPECT_TRUE(queue.submit(request));
    for (queue.process(); queue.drain(&completion, 1) == 0; queue.process()) {
      queue.wait(std::chrono::seconds(1));
    }
    return completion.decision;
  };
  for (int i = 0; i < 4; ++i) {
    const sq::Decision d = ask({local, "k"});
    EXPECT_EQ(d.outcome, i < 2 ? SAQIYA_ALLOWED : SAQIYA_DENIED);
    EXPECT_EQ(d.source, SAQIYA_SOURCE_LOCAL);
  }
  EXPECT_EQ(local.check("k").outcome, SAQIYA_DENIED) << "one table for both ways";
  sq::Items items = {{local, "other"}, {closed, "k"}};
  const sq::Decision d = ask(sq::Request(items));
  EXPECT_EQ(d.source, SAQIYA_SOURCE_CLOSED);
  EXPECT_EQ(d.item, 1);
  items.pop_back();
  sq::Tickets tickets;
  tickets.reset(2);
  sq::Request request(items);
  request.tickets = tickets.data();
  EXPECT_EQ(ask(request).outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(ask(sq::Request(items)).outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(ask(sq::Request(items)).outcome, SAQIYA_DENIED);
  // What was charged locally is given back there, on Redis nothing is known of it.
  server_.start();
  ask_until_back(closed);
  EXPECT_EQ(local.refund("other", tickets).source, SAQIYA_SOURCE_LOCAL);
  EXPECT_EQ(local.check("other").remaining, 1);
  server_.kill();
  EXPECT_EQ(local.check("other").outcome, SAQIYA_ALLOWED) << "the table has lived on";
  EXPECT_EQ(local.check("other").outcome, SAQIYA_DENIED);
}

TEST_F(CapiFailureTest, TicketsAreNotSpentByWhatWasNotDone) {
  sq::Limiter limiter(store_, "10/h");
  sq::Limiter error(store_, "10/day", with(SAQIYA_FAILURE_ERROR));
  sq::Tickets tickets;
  sq::Tickets both;
  limiter.check("k", 4, &tickets);
  const sq::Items items = {{limiter, "j", 2}, {error, "j", 2}};
  EXPECT_TRUE(sq::allowed(sq::check_all(items, &both)));
  server_.kill();
  EXPECT_EQ(error.check("k").outcome, SAQIYA_UNAVAILABLE);
  for (int i = 0; i < 3; ++i) {
    const sq::Decision d = limiter.refund("k", tickets);
    EXPECT_EQ(d.outcome, SAQIYA_UNAVAILABLE);
    EXPECT_EQ(d.reason, SAQIYA_REASON_CONNECT);
    EXPECT_EQ(tickets[0].flags, 0U);
    EXPECT_EQ(sq::refund_all(items, both).outcome, SAQIYA_UNAVAILABLE);
  }
  server_.start();
  ask_until_back(error);
  // The server has lost its memory, but the ticket was sent to it.
  EXPECT_EQ(limiter.refund("k", tickets).outcome, SAQIYA_DENIED);
  EXPECT_EQ(tickets[0].flags, 1U);
  EXPECT_EQ(both[0].flags, 0U);
}

// A script is refused for want of memory before it writes anything: the refund is made later.
TEST_F(CapiFailureTest, ARefundWithoutMemoryIsMadeLater) {
  for (const char* policy : {"10/h", "sliding-log: 10/h", "10/h; fixed-window: 10/day"}) {
    SCOPED_TRACE(policy);
    sq::Limiter limiter(store_, policy);
    sq::Tickets tickets;
    EXPECT_EQ(limiter.check("k", 4, &tickets).remaining, 6);
    EXPECT_EQ(limiter.check("k", 3).remaining, 3);
    auto client = server_.client();
    client({"AUTH", kPassword});
    client({"CONFIG", "SET", "maxmemory", "1"});
    EXPECT_EQ(limiter.refund("k", tickets).reason, SAQIYA_REASON_SERVER_MEMORY);
    client({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_EQ(limiter.peek("k").remaining, 3);
    EXPECT_EQ(limiter.refund("k", tickets).outcome, SAQIYA_ALLOWED);
    EXPECT_EQ(limiter.peek("k").remaining, 7);
    EXPECT_EQ(limiter.refund("k", tickets).outcome, SAQIYA_DENIED);  // once
  }
}

TEST_F(CapiFailureTest, ARefusalIsRemembered) {
  sq::Limiter limiter(store_, "1/h");
  EXPECT_EQ(limiter.check("k").outcome, SAQIYA_ALLOWED);
  constexpr std::uint64_t kFlood = 20'000;
  std::uint64_t from_redis = 0;
  for (std::uint64_t i = 0; i < kFlood; ++i) {
    const sq::Decision d = limiter.check("k");
    ASSERT_EQ(d.outcome, SAQIYA_DENIED);
    ASSERT_GT(d.retry_after_us, 3'500'000'000);
    ASSERT_EQ(d.limit, 1);
    from_redis += d.source == SAQIYA_SOURCE_STORE;
  }
  const saqiya_store_stats stats = store_.stats();
  EXPECT_EQ(stats.denied, from_redis);
  EXPECT_EQ(stats.cached, kFlood - from_redis);
  EXPECT_EQ(stats.requests, 1 + from_redis);
  EXPECT_LT(from_redis, kFlood / 10) << "one a second";
  EXPECT_EQ(limiter.reset("k").outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(limiter.check("k").outcome, SAQIYA_ALLOWED) << "a reset is seen at once";
  // A queue has it, too.
  EXPECT_EQ(limiter.check("k").source, SAQIYA_SOURCE_STORE);
  sq::Queue queue(store_);
  queue.submit({limiter, "k"});
  sq::Completion completion;
  ASSERT_EQ(queue.drain(&completion, 1), 1U) << "answered within submit";
  EXPECT_EQ(completion.decision.source, SAQIYA_SOURCE_CACHE);
}

TEST_F(CapiFailureTest, ARefusalIsNotRememberedWhereTokensComeBack) {
  sq::LimiterOptions options;
  options.flags = SAQIYA_LIMITER_NO_DENY_CACHE;
  sq::Limiter without(store_, "1/h", options);
  sq::Limiter refunding(store_, "1/day");
  sq::Tickets tickets;
  without.check("k");
  refunding.check("k", 1, &tickets);
  EXPECT_EQ(refunding.check("k").source, SAQIYA_SOURCE_STORE);
  EXPECT_EQ(refunding.check("k").source, SAQIYA_SOURCE_CACHE);
  EXPECT_EQ(refunding.refund("k", tickets).outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(refunding.check("k").outcome, SAQIYA_ALLOWED);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(without.check("k").source, SAQIYA_SOURCE_STORE);
    EXPECT_EQ(refunding.check("k").source, SAQIYA_SOURCE_STORE);
  }
}

// A server that answers but refuses is no outage: told once, however often it refuses.
TEST_F(CapiFailureTest, ARefusingServerIsTold) {
  sq::Limiter limiter(store_, "5/h");
  EXPECT_EQ(limiter.check("k").source, SAQIYA_SOURCE_STORE);
  auto client = server_.client();
  client({"AUTH", kPassword});
  client({"CONFIG", "SET", "maxmemory", "1"});
  for (int i = 0; i < 20; ++i) {
    const sq::Decision d = limiter.check("k");
    EXPECT_EQ(d.source, SAQIYA_SOURCE_LOCAL);
    EXPECT_EQ(d.reason, SAQIYA_REASON_SERVER_MEMORY);
    EXPECT_EQ(d.outcome, i < 5 ? SAQIYA_ALLOWED : SAQIYA_DENIED);
  }
  EXPECT_EQ(store_.stats().failures, 20U);
  EXPECT_EQ(store_.stats().degraded, 0U);
  EXPECT_EQ(store_.stats().outages, 0U);
  const std::vector<sq::Event> told = events();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].kind, std::uint32_t{SAQIYA_EVENT_REFUSED});
  EXPECT_EQ(told[0].reason, SAQIYA_REASON_SERVER_MEMORY);
  client({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(limiter.check("k").source, SAQIYA_SOURCE_STORE);
}

}  // namespace

// Every algorithm on the memory store.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/limited.h"
#include "tests/support/sanitizers.h"
#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::expect_same_numbers;
using test::Limited;
using test::MemorySetup;
using test::StepCell;

constexpr Micros kSecond = 1'000'000;
constexpr Micros kDay = 86'400 * kSecond;
// Midnight, so that days begin with it.
constexpr Micros kMidnight = 20'000 * kDay;

constexpr std::array<const char*, 6> kOnes = {
    "4/day",           "fixed-window: 4/day",   "sliding-window: 4/day", "sliding-log: 4/day",
    "calendar: 4/day", "concurrency: 4 ttl 1d",
};

Decision change(const Limited& rate, Op op, std::string_view key, const Ticket& ticket,
                std::int64_t actual = 0) {
  Request request = rate.request(op, key, actual);
  request.tickets = {&ticket, 1};
  Answer answer;
  rate.limiter().store().execute(request, &answer);
  return answer.decision;
}

TEST(MemoryRules, FourADayThenTheNextDay) {
  for (const char* text : kOnes) {
    const MemorySetup setup(1'000, kMidnight);
    const Limited rate(setup.store, text);
    EXPECT_EQ(rate.admitted("k", 20), 4) << text;
    EXPECT_EQ(rate.peek("k").remaining, 0) << text;
    EXPECT_EQ(rate.peek("other").remaining, 4) << text;
    EXPECT_EQ(setup.store->stats().keys, 1U) << text;
    ASSERT_TRUE(setup.clock->advance(2 * kDay));
    EXPECT_EQ(rate.admitted("k", 20), 4) << text;
    rate.reset("k");
    EXPECT_EQ(setup.store->stats().keys, 0U) << text;
    EXPECT_EQ(rate.admitted("k", 20), 4) << text;
  }
}

TEST(MemoryRules, RefusalsPeeksAndCostZeroStoreNothing) {
  for (const char* text : kOnes) {
    const MemorySetup setup;
    const Limited rate(setup.store, text);
    rate.peek("a");
    EXPECT_EQ(rate.check("b", 0).outcome, Outcome::kAllowed) << text;
    EXPECT_EQ(rate.check("c", 5).outcome, Outcome::kNever) << text;
    rate.reset("d");
    Ticket none;
    EXPECT_EQ(rate.refund("e", &none).outcome, Outcome::kDenied) << text;
    EXPECT_EQ(setup.store->stats().keys, 0U) << text;
  }
}

TEST(MemoryRules, TicketsAreGivenBackOnceAndOnlyToTheirTable) {
  for (const char* text : kOnes) {
    const MemorySetup setup;
    const MemorySetup other;
    const Limited rate(setup.store, text, "same");
    const Limited elsewhere(other.store, text, "same");
    Ticket ticket;
    EXPECT_EQ(rate.check("k", 3, 0, &ticket).remaining, 1) << text;
    elsewhere.check("k", 3);
    Ticket copy = ticket;
    EXPECT_EQ(elsewhere.refund("k", &copy).outcome, Outcome::kDenied) << text;
    EXPECT_EQ(change(rate, Op::kSettle, "k", ticket, 1).remaining, 3) << text;
    rate.reset("k");
    rate.check("k", 3, 0, &ticket);
    const Decision given = rate.refund("k", &ticket);
    EXPECT_EQ(given.outcome, Outcome::kAllowed) << text;
    EXPECT_EQ(given.remaining, 4) << text;
    EXPECT_EQ(rate.refund("k", &ticket).outcome, Outcome::kDenied) << text;
    EXPECT_EQ(rate.admitted("k", 20), 4) << text;
  }
}

TEST(MemoryRules, LeasesHaveNumbersOfTheirOwn) {
  const MemorySetup setup;
  const Limited rate(setup.store, "concurrency: 100 ttl 1min");
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 100; ++i) {
    Ticket ticket;
    rate.check("k", 1, 0, &ticket);
    EXPECT_NE(ticket.lease, 0U);
    ids.push_back(ticket.lease);
    // Kept alive for ever.
    ASSERT_TRUE(setup.clock->advance(kSecond));
    if (i == 0) continue;
    ASSERT_EQ(change(rate, Op::kRenew, "k", ticket).outcome, Outcome::kAllowed);
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(rate.peek("k").remaining, 100 - 60);
}

// Dead entries are dropped all the time; the reference keeps every state for ever.
TEST(MemoryRules, DroppingDeadEntriesChangesNoAnswer) {
  constexpr int kEvents = test::kSanitized ? 20'000 : 60'000;
  constexpr unsigned kKeys = 1'000;
  const char* const texts[] = {"7/s burst 3",           "fixed-window: 3/s",
                               "sliding-window: 5/2s",  "sliding-log: 5/s",
                               "concurrency: 5 ttl 1s", "leaky-bucket: 10/s queue 3"};
  std::mt19937 random(22);
  for (const char* text : texts) {
    const MemorySetup setup;
    const Limited rate(setup.store, text);
    const Rule& rule = rate.limiter().rules()[0];
    std::vector<std::unique_ptr<StepCell>> cells;
    for (unsigned k = 0; k < kKeys; ++k) cells.push_back(std::make_unique<StepCell>(rule));
    std::vector<Ticket> tickets(kKeys);
    std::vector<Ticket> wanted(kKeys);
    std::uint64_t fewest = kKeys;
    for (int i = 0; i < kEvents; ++i) {
      // Busy times and idle ones.
      const unsigned most = i / 5'000 % 2 == 0 ? 1'000 : 20'000;
      ASSERT_TRUE(setup.clock->advance(static_cast<Micros>(random() % most)));
      const Micros now = rule.uses_wall_clock() ? setup.clock->wall() : setup.clock->monotonic();
      // A few keys are asked often.
      const std::size_t k = random() % (random() % 2 == 0 ? kKeys : 10);
      const std::string key = "user:" + std::to_string(k);
      const auto cost = static_cast<std::int64_t>(random() % 4);
      switch (random() % 8) {
        case 0:
          expect_same_numbers(rate.refund(key, &tickets[k]), cells[k]->refund(&wanted[k], now));
          break;
        case 1: {
          const Decision settled = change(rate, Op::kSettle, key, tickets[k], cost);
          tickets[k].flags |= Ticket::kSpent;
          expect_same_numbers(settled, cells[k]->settle(&wanted[k], cost, now));
          break;
        }
        case 2:
          expect_same_numbers(change(rate, Op::kRenew, key, tickets[k]),
                              cells[k]->renew(wanted[k], now));
          break;
        case 3:
          expect_same_numbers(rate.peek(key, cost), cells[k]->peek(cost, now));
          break;
        default:
          expect_same_numbers(rate.check(key, cost, 0, &tickets[k]),
                              cells[k]->check(cost, now, &wanted[k]));
      }
      if (HasFatalFailure()) FAIL() << text << ", event " << i;
      if (i % 1'000 == 999) fewest = std::min(fewest, setup.store->stats().keys);
    }
    EXPECT_LT(fewest, kKeys / 2) << text;
  }
}

TEST(MemoryRules, AWallStepChangesNothingInTheMonotonicClock) {  // C23
  for (const char* text : {"4/day", "sliding-log: 4/day", "concurrency: 4 ttl 1d"}) {
    const MemorySetup setup;
    const Limited rate(setup.store, text);
    EXPECT_EQ(rate.admitted("k", 20), 4);
    const Decision before = rate.check("k");
    for (const Micros wall : {Micros{0}, kMaxNow, kMidnight}) {
      ASSERT_TRUE(setup.clock->set_wall(wall));
      expect_same_numbers(rate.check("k"), before);
      // Newcomers have everything swept that is dead.
      for (int i = 0; i < 200; ++i) rate.check("new:" + std::to_string(i));
      expect_same_numbers(rate.check("k"), before);
    }
  }
}

TEST(MemoryRules, AWallThatGoesBackStaysInTheNewestWindow) {  // C23
  for (const char* text : {"fixed-window: 4/h", "sliding-window: 4/h", "calendar: 4/day"}) {
    const MemorySetup setup(64, kMidnight);  // one shard
    const Limited rate(setup.store, text);
    EXPECT_EQ(rate.admitted("k", 20), 4) << text;
    // Back by a day: the window under way goes on.
    ASSERT_TRUE(setup.clock->set_wall(kMidnight - kDay));
    EXPECT_EQ(rate.admitted("k", 20), 0) << text;
    // On by ten days: others come, and k's entry is dropped. Then back again.
    ASSERT_TRUE(setup.clock->set_wall(kMidnight + 10 * kDay));
    for (int i = 0; i < 200; ++i) rate.check("new:" + std::to_string(i));
    ASSERT_TRUE(setup.clock->set_wall(kMidnight - kDay));
    // At most the limit more until the newest window that was dropped is over again.
    EXPECT_EQ(rate.admitted("k", 20), 4) << text;
    ASSERT_TRUE(setup.clock->set_wall(kMidnight - kDay / 2));
    EXPECT_EQ(rate.admitted("k", 20), 0) << text;
    ASSERT_TRUE(setup.clock->set_wall(kMidnight));
    EXPECT_EQ(rate.admitted("k", 20), 0) << text;
  }
}

TEST(MemoryRules, MonotonicTimeAloneEndsNoWindow) {
  for (const char* text : {"fixed-window: 4/h", "sliding-window: 4/h", "calendar: 4/day"}) {
    const MemorySetup setup(64, kMidnight);
    const Limited rate(setup.store, text);
    const Limited bucket(setup.store, "1/s");
    EXPECT_EQ(rate.admitted("k", 20), 4) << text;
    ASSERT_TRUE(setup.clock->set(kMidnight + 10 * kDay));
    ASSERT_TRUE(setup.clock->set_wall(kMidnight));
    for (int i = 0; i < 40; ++i) bucket.check("new:" + std::to_string(i));
    EXPECT_EQ(rate.admitted("k", 20), 0) << text;
  }
}

TEST(MemoryRules, LogsAreCountedInBytesAndForgottenWhenDead) {
  const MemorySetup setup;
  const Limited rate(setup.store, "sliding-log: 1000/min");
  const std::uint64_t empty = setup.store->stats().bytes;
  for (int k = 0; k < 100; ++k) {
    for (int i = 0; i < 1'000; ++i) {
      ASSERT_TRUE(setup.clock->advance(1));
      ASSERT_TRUE(rate.admits("user:" + std::to_string(k)));
    }
  }
  const std::uint64_t full = setup.store->stats().bytes;
  EXPECT_GE(full, empty + 100 * 1'000 * 12);
  EXPECT_LE(full, empty + 100 * 1'000 * 20);
  ASSERT_TRUE(setup.clock->advance(61 * kSecond));
  const Limited others(setup.store, "1/s");
  for (int i = 0; i < 60'000; ++i) others.check("other:" + std::to_string(i));
  EXPECT_EQ(setup.store->stats().keys, 60'000U);
  EXPECT_LE(setup.store->stats().bytes, empty + 60'000 * 80);
}

TEST(MemoryRules, LogsKeepToTheBound) {
  constexpr std::uint64_t kBound = 20'000;
  const MemorySetup setup(kBound);
  const Limited rate(setup.store, "sliding-log: 100/min");
  const std::uint64_t empty = setup.store->stats().bytes;
  std::uint64_t most = 0;
  for (int i = 0; i < 200'000; ++i) {
    ASSERT_TRUE(setup.clock->advance(1));
    rate.check("user:" + std::to_string(i % 2'000));
    if (i % 500 == 0) most = std::max(most, setup.store->stats().bytes - empty);
  }
  EXPECT_GT(setup.store->stats().evictions, 0U);
  EXPECT_LE(most, kBound * 72);
}

TEST(MemoryRules, ManyAtOnce) {
  for (const char* text : kOnes) {
    const MemorySetup setup;
    const Limited rate(setup.store, text);
    const Limited both(setup.store, "sliding-log: 3/day; fixed-window: 5/day");
    std::vector<Request> requests(8, rate.request(Op::kCheck, "k"));
    for (Request& request : requests) request.want_ticket = false;
    requests[3] = both.request(Op::kCheck, "k", 2);
    requests[6] = both.request(Op::kCheck, "k", 2);
    std::vector<Answer> answers(8);
    setup.store->execute_many(requests, answers);
    std::vector<Outcome> outcomes;
    for (const Answer& answer : answers) outcomes.push_back(answer.decision.outcome);
    constexpr Outcome kYes = Outcome::kAllowed;
    constexpr Outcome kNo = Outcome::kDenied;
    EXPECT_EQ(outcomes, (std::vector<Outcome>{kYes, kYes, kYes, kYes, kYes, kNo, kNo, kNo}))
        << text;
    EXPECT_EQ(both.peek("k").remaining, 1);
  }
}

TEST(MemoryRules, AChangedPeriodKeepsTheWindowUnderWay) {
  const MemorySetup setup(1'000, kMidnight);
  for (const char* kind : {"fixed-window: ", "sliding-window: "}) {
    const Limited hour(setup.store, kind + std::string("4/h"), kind[0] == 'f' ? "f" : "s");
    EXPECT_EQ(hour.admitted("k", 20), 4);
    const Limited day(setup.store, kind + std::string("4/day"), kind[0] == 'f' ? "f" : "s");
    EXPECT_EQ(day.peek("k").remaining, 0);
    const Limited minute(setup.store, kind + std::string("4/min"), kind[0] == 'f' ? "f" : "s");
    EXPECT_EQ(minute.peek("k").remaining, 0);
  }
}

}  // namespace
}  // namespace saqiya

// The sliding log: by example, and against a plain vector of charges.
#include "core/sliding_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/bucket_harness.h"
#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::Random;
using test::random_up_to;
using test::StepCell;
using test::window_rule;

constexpr Micros kSecond = 1'000'000;

Rule log_rule(std::int64_t limit, Micros period) {
  return window_rule(Algorithm::kSlidingLog, limit, period);
}

TEST(SlidingLog, TheFirstFreePlaceDecides) {  // C12
  StepCell cell(log_rule(10, 10 * kSecond));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(cell.check(1, i * kSecond).remaining, 9 - i);
  const auto before = cell.stored();
  const Decision d = cell.check(1, 9'500'000);
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.remaining, 0);
  EXPECT_EQ(d.retry_after, 500'000);
  EXPECT_EQ(d.reset_after, 9'500'000);
  EXPECT_EQ(cell.check(3, 9'500'000).retry_after, 2'500'000);
  EXPECT_EQ(cell.stored(), before);
  EXPECT_EQ(cell.check(1, 10 * kSecond - 1).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.check(1, 10 * kSecond).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.list->size(), 10U);  // the oldest is gone
}

TEST(SlidingLog, NeverAndCostZeroWriteNothing) {
  StepCell cell(log_rule(3, kSecond));
  EXPECT_EQ(cell.check(4, 5).outcome, Outcome::kNever);
  EXPECT_EQ(cell.check(0, 5).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.list, nullptr);
  cell.check(2, 5);
  EXPECT_EQ(cell.check(4, 6).remaining, 1);
  EXPECT_EQ(cell.check(kMaxCount, 6).outcome, Outcome::kNever);
  EXPECT_EQ(StepCell(log_rule(0, 100)).check(0, 5).outcome, Outcome::kNever);
}

TEST(SlidingLog, ChargesOfOneInstantAreOneEntry) {
  StepCell cell(log_rule(10, kSecond));
  Ticket a;
  Ticket b;
  cell.check(2, 7, &a);
  cell.check(3, 7, &b);
  EXPECT_EQ(cell.state.list->size(), 1U);
  EXPECT_EQ(a.q, 7);
  EXPECT_EQ(a.algorithm, 5U);
  EXPECT_EQ(cell.refund(&a, 8).remaining, 7);
  EXPECT_EQ(cell.refund(&b, 8).remaining, 10);
  EXPECT_TRUE(cell.state.list->empty());
  EXPECT_EQ(dead_at(cell.rule, cell.state), 0);
}

TEST(SlidingLog, AClockThatGoesBackChargesAtTheNewestInstant) {  // C23
  StepCell cell(log_rule(3, 100));
  cell.check(1, 1000);
  Ticket ticket;
  EXPECT_EQ(cell.check(2, 950, &ticket).reset_after, 150);
  EXPECT_EQ(ticket.q, 1000);
  EXPECT_EQ(cell.check(1, 950).retry_after, 150);
  EXPECT_EQ(cell.check(3, 1100).outcome, Outcome::kAllowed);
  StepCell dropped(log_rule(3, 100));
  dropped.floor = 1000;
  EXPECT_EQ(dropped.peek(1, 950).reset_after, 0);
  EXPECT_EQ(dropped.check(3, 950, &ticket).reset_after, 150);
  EXPECT_EQ(ticket.q, 1000);
  EXPECT_EQ(dropped.check(1, 1099).outcome, Outcome::kDenied);
}

TEST(SlidingLog, RefundAndSettle) {
  StepCell cell(log_rule(10, 100));
  Ticket a;
  Ticket b;
  cell.check(4, 0, &a);
  cell.check(5, 50, &b);
  Ticket copy = a;
  EXPECT_EQ(cell.settle(&a, 3, 60).remaining, 2);
  EXPECT_EQ(cell.settle(&b, 40, 60).remaining, 0);
  EXPECT_EQ(cell.state.list->total(), 43);
  EXPECT_EQ(cell.check(10, 60).retry_after, 90);
  EXPECT_EQ(cell.refund(&copy, 100).outcome, Outcome::kDenied);  // no longer counts
  EXPECT_EQ(cell.check(10, 150).outcome, Outcome::kAllowed);
}

TEST(SlidingLog, WhatCountsStaysBelowTwoTo32) {
  StepCell cell(log_rule(kMaxSlidingLimit, kMaxListPeriod));
  Ticket a;
  Ticket b;
  cell.check(kMaxSlidingLimit - 5, 0, &a);
  cell.check(4, kMaxNow / 64, &b);
  EXPECT_EQ(cell.settle(&b, kMaxCount, kMaxNow / 64).remaining, 0);
  EXPECT_EQ(cell.state.list->total(), kMaxSlidingLimit);
  EXPECT_EQ(cell.state.list->cost(1), 5U);
  EXPECT_EQ(cell.refund(&a, kMaxNow / 64).remaining, kMaxSlidingLimit - 5);
}

// Every charge by itself; a change is made to the charges of its instant together.
class Reference {
 public:
  explicit Reference(const Rule& rule) : limit_(rule.limit), period_(rule.period) {}

  std::int64_t used(Micros now) const {
    std::int64_t sum = 0;
    for (const Charged& c : all_) sum += c.at + period_ > now ? c.cost : 0;
    return sum;
  }
  bool fits(std::int64_t cost, Micros now) const { return used(now) + cost <= limit_; }
  Micros charge(std::int64_t cost, Micros now) {
    drop(now);
    const Micros at = all_.empty() ? now : std::max(now, all_.back().at);
    all_.push_back({at, cost});
    return at;
  }
  Micros reset_after(Micros now) const {
    return used(now) == 0 ? 0 : all_.back().at + period_ - now;
  }
  bool change(Micros at, std::int64_t delta, Micros now) {
    std::int64_t sum = 0;
    for (const Charged& c : all_) sum += c.at == at ? c.cost : 0;
    if (sum == 0 || at + period_ <= now) return false;
    std::int64_t changed = std::max<std::int64_t>(0, sum + delta);
    changed = std::min(changed, kMaxSlidingLimit - used(now) + sum);
    if (changed == sum) return true;
    const auto place =
        std::find_if(all_.begin(), all_.end(), [&](const Charged& c) { return c.at == at; });
    place->cost = changed;
    all_.erase(std::remove_if(place + 1, all_.end(), [&](const Charged& c) { return c.at == at; }),
               all_.end());
    if (changed == 0) all_.erase(place);
    drop(now);
    return true;
  }

 private:
  struct Charged {
    Micros at;
    std::int64_t cost;
  };
  void drop(Micros now) {
    all_.erase(std::remove_if(all_.begin(), all_.end(),
                              [&](const Charged& c) { return c.at + period_ <= now; }),
               all_.end());
  }
  std::int64_t limit_;
  Micros period_;
  std::vector<Charged> all_;
};

TEST(SlidingLog, EqualsTheReferenceOverLongTraces) {  // C10
  Random random(1);
  int outcomes[5] = {};
  int changes = 0;
  for (int world = 0; world < 200; ++world) {
    const bool small = world % 2 == 0;
    const std::int64_t limit = 1 + random_up_to(random, small ? 50 : kMaxSlidingLimit - 1);
    StepCell cell(log_rule(limit, 1 + random_up_to(random, small ? 100 : kMaxListPeriod - 1)));
    const Micros period = cell.rule.period;
    Reference reference(cell.rule);
    std::vector<Ticket> tickets(1);
    Micros now = random_up_to(random, kMaxNow / 2);
    for (int i = 0; i < 300; ++i) {
      if (random() % 4 == 0) {
        Ticket ticket = tickets[random() % tickets.size()];
        const std::int64_t actual = random() % 2 == 0 ? 0 : random_up_to(random, limit + 3);
        // A delta of 0 is done whatever there is.
        const bool done = ticket.n != 0 && (actual == ticket.cost ||
                                            reference.change(ticket.q, actual - ticket.cost, now));
        const Decision d = cell.settle(&ticket, actual, now);
        ASSERT_EQ(d.outcome, done ? Outcome::kAllowed : Outcome::kDenied);
        ASSERT_EQ(d.remaining, std::max<std::int64_t>(0, limit - reference.used(now)));
        ASSERT_EQ(d.reset_after, reference.reset_after(now));
        changes += done ? 1 : 0;
      } else {
        const std::int64_t cost = random_up_to(random, limit);
        const bool fits = cost == 0 || reference.fits(cost, now);
        Ticket ticket;
        const Decision d = cell.check(cost, now, &ticket);
        ASSERT_EQ(d.outcome, fits ? Outcome::kAllowed : Outcome::kDenied);
        ++outcomes[static_cast<int>(d.outcome)];
        if (fits && cost > 0) {
          ASSERT_EQ(ticket.q, reference.charge(cost, now));
          tickets.push_back(ticket);
        }
        if (!fits) {
          ASSERT_GT(d.retry_after, 0);
          ASSERT_FALSE(reference.fits(cost, now + d.retry_after - 1));
          ASSERT_TRUE(reference.fits(cost, now + d.retry_after));
        }
        ASSERT_EQ(d.remaining, std::max<std::int64_t>(0, limit - reference.used(now)));
        ASSERT_EQ(d.reset_after, reference.reset_after(now));
      }
      const auto step = static_cast<Micros>(random_up_to(random, period / 3 + 1));
      now = std::clamp<Micros>(random() % 12 == 0 ? now - step : now + step, 0, kMaxNow);
    }
  }
  EXPECT_GT(outcomes[1], 3'000);
  EXPECT_GT(outcomes[2], 3'000);
  EXPECT_GT(changes, 1'000);
}

}  // namespace
}  // namespace saqiya

// The sliding window counter: by example, and against a reference that knows only the rule's words.
#include "core/sliding_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/bucket_harness.h"
#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::Random;
using test::random_up_to;
using test::StepCell;
using test::Wide;
using test::window_rule;

Rule sliding(std::int64_t limit, Micros period) {
  return window_rule(Algorithm::kSlidingWindow, limit, period);
}

TEST(SlidingWindow, WeighsTheWindowBefore) {
  StepCell cell(sliding(10, 100));
  EXPECT_EQ(cell.check(8, 1010).remaining, 2);
  const Decision d = cell.peek(0, 1010);
  EXPECT_EQ(d.reset_after, 190);  // counts until the end of the next window, 1200
  // 8 * 75 / 100 = 6 at 1125, so 4 are left.
  const Decision next = cell.check(3, 1125);
  EXPECT_EQ(next.outcome, Outcome::kAllowed);
  EXPECT_EQ(next.remaining, 1);
  EXPECT_EQ(next.reset_after, 175);
  // The sum is rounded up: at 1126 it is 5.92, counted as 6.
  EXPECT_EQ(cell.peek(1, 1126).remaining, 1);
  // 8 * 62 / 100 = 4.96 is the first that leaves room for 2 beside 3.
  const auto before = cell.stored();
  const Decision refused = cell.check(2, 1126);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, 1138 - 1126);
  EXPECT_EQ(cell.stored(), before);
  EXPECT_EQ(cell.check(2, 1137).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.check(2, 1138).outcome, Outcome::kAllowed);
}

TEST(SlidingWindow, AFullWindowReachesIntoTheNext) {
  StepCell cell(sliding(10, 100));
  cell.check(10, 1000);
  // One is free once 10 * x / 100 <= 9: at x = 90 of the next window.
  EXPECT_EQ(cell.check(1, 1050).retry_after, 60);
  EXPECT_EQ(cell.check(1, 1109).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.peek(1, 1110).outcome, Outcome::kAllowed);
  // All of them only when nothing of it is left.
  EXPECT_EQ(cell.check(10, 1050).retry_after, 150);
  EXPECT_EQ(cell.check(10, 1199).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.check(10, 1200).outcome, Outcome::kAllowed);
}

TEST(SlidingWindow, NeverAndCostZeroWriteNothing) {
  StepCell cell(sliding(3, 100));
  cell.check(1, 0);
  const auto before = cell.stored();
  EXPECT_EQ(cell.check(4, 5).outcome, Outcome::kNever);
  EXPECT_EQ(cell.check(4, 5).remaining, 2);
  EXPECT_EQ(cell.check(0, 5).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.stored(), before);
  EXPECT_EQ(StepCell(sliding(0, 100)).check(0, 5).outcome, Outcome::kNever);
}

TEST(SlidingWindow, AClockThatGoesBackGivesNothing) {  // C23
  StepCell cell(sliding(10, 100));
  cell.check(4, 1010);
  cell.check(6, 1150);  // 4 * 50 / 100 = 2
  EXPECT_EQ(cell.peek(1, 500).remaining, 0);
  EXPECT_EQ(cell.peek(1, 500).outcome, Outcome::kDenied);
  StepCell dropped(sliding(10, 100));
  dropped.floor = 1200;
  EXPECT_EQ(dropped.check(10, 1000).outcome, Outcome::kAllowed);
  EXPECT_EQ(dropped.state.end, 1300);
  EXPECT_EQ(dropped.check(1, 1200).outcome, Outcome::kDenied);
}

TEST(SlidingWindow, ChangesFindTheirWindow) {
  StepCell cell(sliding(10, 100));
  Ticket old;
  Ticket before;
  Ticket now;
  cell.check(1, 950, &old);
  cell.check(4, 1050, &before);
  cell.check(2, 1110, &now);
  EXPECT_EQ(old.q, 1000);
  EXPECT_EQ(before.q, 1100);
  EXPECT_EQ(now.q, 1200);
  EXPECT_EQ(now.algorithm, 4U);
  EXPECT_EQ(cell.refund(&old, 1120).outcome, Outcome::kDenied);
  Ticket copy = before;
  EXPECT_EQ(cell.settle(&copy, 5, 1150).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.previous, 5);
  const Decision d = cell.refund(&before, 1150);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 10 - 1 - 2);  // ceil(1 * 50 / 100)
  EXPECT_EQ(cell.settle(&now, 30, 1150).remaining, 0);
  EXPECT_EQ(cell.state.used, 30);
  // Two windows on, nothing is left of it to change.
  EXPECT_EQ(cell.check(10, 1400).outcome, Outcome::kAllowed);
}

TEST(SlidingWindow, AChangeInTheNextWindowBeforeAnyCharge) {
  StepCell cell(sliding(10, 100));
  Ticket ticket;
  cell.check(8, 1050, &ticket);
  EXPECT_EQ(cell.settle(&ticket, 4, 1150).remaining, 8);
  EXPECT_EQ(cell.state.end, 1200);
  EXPECT_EQ(cell.state.previous, 4);
  EXPECT_EQ(cell.state.used, 0);
  EXPECT_EQ(dead_at(cell.rule, cell.state), 1200);
}

// What the rule says, in exact integers and without formulas for waits.
class Reference {
 public:
  Reference(const Rule& rule, const State& state, Micros now) : limit_(rule.limit) {
    const Micros fresh = now - now % rule.period + rule.period;
    end_ = fresh;
    if (state.used > 0 || state.previous > 0) {
      if (now < state.end) {
        end_ = state.end;
        previous_ = state.previous;
        current_ = state.used;
      } else if (now < state.end + rule.period) {
        end_ = state.end + rule.period;
        previous_ = state.used;
      }
    }
    const Wide x = std::min(end_ - now, rule.period);
    weighted_ = test::ceil_div(Wide{previous_} * x, rule.period);
  }
  bool fits(std::int64_t cost) const { return weighted_ + current_ + cost <= limit_; }
  std::int64_t remaining() const {
    return static_cast<std::int64_t>(std::max<Wide>(0, limit_ - weighted_ - current_));
  }

 private:
  Wide limit_;
  Micros end_;
  std::int64_t previous_ = 0;
  std::int64_t current_ = 0;
  Wide weighted_;
};

// Small numbers, every instant tried: retry_after is the first at which the cost passes, also when
// the period has changed and the window's end is not aligned.
TEST(SlidingWindow, TheWaitIsTheFirstInstantThatPasses) {
  Random random(1);
  int denied = 0;
  for (int i = 0; i < 60'000; ++i) {
    StepCell cell(sliding(1 + static_cast<std::int64_t>(random() % 12),
                          1 + static_cast<Micros>(random() % 30)));
    cell.state.end = static_cast<Micros>(random() % 90);
    if (random() % 4 != 0) cell.state.end -= cell.state.end % cell.rule.period;
    cell.state.previous = static_cast<std::int64_t>(random() % 15);
    cell.state.used = static_cast<std::int64_t>(random() % 15);
    const auto now = static_cast<Micros>(random() % 90);
    const std::int64_t cost =
        1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(cell.rule.limit));
    const Reference reference(cell.rule, cell.state, now);
    const Decision d = cell.peek(cost, now);
    ASSERT_EQ(d.remaining, reference.remaining());
    ASSERT_EQ(d.outcome == Outcome::kAllowed, reference.fits(cost));
    if (d.outcome == Outcome::kAllowed) continue;
    ++denied;
    Micros t = now;
    while (!Reference(cell.rule, cell.state, t).fits(cost)) ++t;
    ASSERT_EQ(d.retry_after, t - now)
        << "limit " << cell.rule.limit << " period " << cell.rule.period << " end "
        << cell.state.end << " previous " << cell.state.previous << " used " << cell.state.used
        << " now " << now << " cost " << cost;
    ASSERT_LE(d.retry_after, d.reset_after);
  }
  EXPECT_GT(denied, 10'000);
}

TEST(SlidingWindow, EqualsTheReferenceOverLongTraces) {
  Random random(2);
  int outcomes[5] = {};
  for (int world = 0; world < 300; ++world) {
    const std::int64_t limit = 1 + random_up_to(random, kMaxSlidingLimit - 1);
    StepCell cell(sliding(limit, 1 + random_up_to(random, kMaxSpan - 1)));
    Micros now = random_up_to(random, kMaxNow / 2);
    for (int i = 0; i < 200; ++i) {
      const std::int64_t cost = random_up_to(random, limit);
      const Reference reference(cell.rule, cell.state, now);
      const bool fits = cost == 0 || reference.fits(cost);
      const Decision before = cell.peek(cost, now);
      ASSERT_EQ(before.remaining, reference.remaining());
      ASSERT_EQ(before.outcome == Outcome::kAllowed, fits);
      ++outcomes[static_cast<int>(before.outcome)];
      if (!fits) {
        ASSERT_FALSE(Reference(cell.rule, cell.state, now + before.retry_after - 1).fits(cost));
        ASSERT_TRUE(Reference(cell.rule, cell.state, now + before.retry_after).fits(cost));
      }
      const Decision d = cell.check(cost, now);
      ASSERT_EQ(d.outcome, before.outcome);
      ASSERT_EQ(d.retry_after, before.retry_after);
      ASSERT_EQ(d.remaining, Reference(cell.rule, cell.state, now).remaining());
      if (d.outcome == Outcome::kDenied && random() % 2 == 0) {
        now += d.retry_after;
      } else {
        now += random_up_to(random, cell.rule.period * 2);
      }
      now = std::min(now, kMaxNow);
    }
  }
  EXPECT_GT(outcomes[1], 5'000);
  EXPECT_GT(outcomes[2], 5'000);
}

TEST(SlidingWindow, FewerThanTwiceTheLimitInAnyWindow) {  // C27
  Random random(3);
  for (int world = 0; world < 200; ++world) {
    const std::int64_t limit = 1 + static_cast<std::int64_t>(random() % 6);
    const Micros period = 2 + static_cast<Micros>(random() % 12);
    StepCell cell(sliding(limit, period));
    std::vector<std::int64_t> admitted(200, 0);
    for (Micros now = 0; now < 200; ++now) {
      if (random() % 3 == 0) continue;
      while (cell.check(1, now).outcome == Outcome::kAllowed) {
        ++admitted[static_cast<std::size_t>(now)];
      }
    }
    for (Micros start = 0; start + period <= 200; ++start) {
      std::int64_t sum = 0;
      for (Micros t = start; t < start + period; ++t) sum += admitted[static_cast<std::size_t>(t)];
      ASSERT_LT(sum, 2 * limit) << "limit " << limit << " period " << period;
    }
  }
}

}  // namespace
}  // namespace saqiya

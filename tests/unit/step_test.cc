// What holds for every algorithm's step, over random traces that prefer the edges of the ranges.
#include "core/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/calendar.h"
#include "tests/support/bucket_harness.h"
#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::Random;
using test::random_up_to;
using test::StepCell;
using test::window_rule;

Rule random_rule(Algorithm algorithm, Random& random) {
  const bool small = random() % 2 == 0;
  const auto limit = [&](std::int64_t most) { return random_up_to(random, small ? 20 : most); };
  const auto period = [&](Micros most) {
    return 1 + random_up_to(random, (small ? 200 : most) - 1);
  };
  switch (algorithm) {
    case Algorithm::kTokenBucket: {
      Rule rule;
      rule.bucket = test::random_rule(random);
      return rule;
    }
    case Algorithm::kFixedWindow:
      return window_rule(algorithm, limit(kMaxCount), period(kMaxSpan));
    case Algorithm::kSlidingWindow:
      return window_rule(algorithm, limit(kMaxSlidingLimit), period(kMaxSpan));
    case Algorithm::kSlidingLog:
      return window_rule(algorithm, limit(kMaxSlidingLimit), period(kMaxListPeriod));
    case Algorithm::kConcurrency:
      return window_rule(algorithm, limit(kMaxLeases), period(kMaxListPeriod));
    case Algorithm::kCalendar:
      break;
  }
  Rule rule = window_rule(algorithm, limit(kMaxCount), 0);
  std::string error;
  const Calendar::Unit units[] = {Calendar::Unit::kDay, Calendar::Unit::kWeek,
                                  Calendar::Unit::kMonth, Calendar::Unit::kYear};
  rule.calendar = Calendar::make(units[random() % 4], "UTC", 1, &error);
  return rule;
}

// How far the clock may move for something to happen.
Micros span_of(const Rule& rule) {
  if (rule.is_bucket()) return std::max<Micros>(1, rule.bucket.span.q);
  return rule.algorithm == Algorithm::kCalendar ? Micros{400} * 86'400'000'000 : rule.period;
}

void expect_in_range(const Decision& d, const Rule& rule) {
  ASSERT_EQ(d.limit, rule.capacity());
  ASSERT_LE(0, d.remaining);
  ASSERT_LE(d.remaining, d.limit);
  ASSERT_LE(0, d.reset_after);
  ASSERT_EQ(d.outcome == Outcome::kNever, d.retry_after == kForever);
  ASSERT_EQ(d.outcome == Outcome::kAllowed, d.retry_after == 0);
  if (d.outcome == Outcome::kDenied) {
    ASSERT_LT(0, d.retry_after);
    ASSERT_LE(d.retry_after, d.reset_after);
  }
}

void expect_same_numbers(const Decision& a, const Decision& b) {
  ASSERT_EQ(a.limit, b.limit);
  ASSERT_EQ(a.remaining, b.remaining);
  ASSERT_EQ(a.reset_after, b.reset_after);
}

class Trace {
 public:
  Trace(Algorithm algorithm, Random& random)
      : random_(random), cell_(random_rule(algorithm, random)) {
    now_ = random_up_to(random, kMaxNow);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      move_clock();
      if (random_() % 4 == 0) {
        ASSERT_NO_FATAL_FAILURE(change());
      } else {
        ASSERT_NO_FATAL_FAILURE(check());
      }
      ASSERT_NO_FATAL_FAILURE(dead_equals_absent());
    }
  }

  int outcomes[5] = {};
  int changes = 0;

 private:
  void move_clock() {
    const Micros step = random_up_to(random_, span_of(cell_.rule));
    switch (random_() % 10) {
      case 0:
        now_ -= step;
        break;
      case 1:
        now_ = retry_at_;
        break;
      case 2:
        break;
      default:
        now_ += step / 4;
    }
    now_ = std::clamp<Micros>(now_, 0, kMaxNow);
  }

  // As the numbers say by themselves, of the state as it is.
  Decision described() {
    Decision d;
    describe(cell_.rule, cell_.seen(now_), now_, &d);
    return d;
  }

  void check() {
    const std::int64_t capacity = cell_.rule.capacity();
    std::int64_t cost = random_up_to(random_, capacity);
    if (random_() % 20 == 0) cost = random_up_to(random_, kMaxCount);
    if (random_() % 3 == 0) cost = std::min<std::int64_t>(capacity, 1);
    const auto before = cell_.stored();
    const Decision untouched = described();
    const Decision peeked = cell_.peek(cost, now_);
    ASSERT_EQ(cell_.stored(), before);
    ASSERT_NO_FATAL_FAILURE(expect_same_numbers(peeked, untouched));
    Ticket ticket;
    const Decision d = cell_.check(cost, now_, &ticket);
    ++outcomes[static_cast<int>(d.outcome)];
    ASSERT_NO_FATAL_FAILURE(expect_in_range(d, cell_.rule));
    ASSERT_EQ(d.outcome, peeked.outcome);
    ASSERT_EQ(d.retry_after, peeked.retry_after);
    ASSERT_EQ(d.delay, peeked.delay);
    // What a decision tells of the charge is what is found afterwards.
    ASSERT_NO_FATAL_FAILURE(expect_same_numbers(d, described()));
    const bool charged = d.outcome == Outcome::kAllowed && cost > 0;
    ASSERT_EQ(ticket.n != 0, charged);
    if (!charged) {
      ASSERT_EQ(cell_.stored(), before);
    } else {
      tickets_.push_back(ticket);
    }
    if (d.outcome == Outcome::kDenied) {
      retry_at_ = now_ + d.retry_after;
      ASSERT_EQ(cell_.peek(cost, retry_at_ - 1).outcome, Outcome::kDenied);
      ASSERT_EQ(cell_.peek(cost, retry_at_).outcome, Outcome::kAllowed);
    }
  }

  void change() {
    if (tickets_.empty()) return;
    const std::size_t which = random_() % tickets_.size();
    Ticket& ticket = tickets_[which];
    std::int64_t actual = 0;
    if (random_() % 2 == 0) actual = random_up_to(random_, cell_.rule.capacity() + 5);
    if (random_() % 20 == 0) actual = random_up_to(random_, kMaxCount);
    const auto before = cell_.stored();
    const Decision untouched = described();
    if (cell_.rule.algorithm == Algorithm::kConcurrency && random_() % 3 == 0) {
      changes += cell_.renew(ticket, now_).outcome == Outcome::kAllowed ? 1 : 0;
      return;
    }
    const std::int64_t cost = ticket.cost;
    const bool spent = ticket.flags != 0;
    const Decision d = cell_.settle(&ticket, actual, now_);
    ASSERT_GE(d.remaining, 0);
    ASSERT_LE(d.remaining, d.limit);
    if (d.outcome == Outcome::kDenied || actual == cost) {
      ASSERT_EQ(cell_.stored(), before);
      ASSERT_TRUE(spent || actual != cost || d.outcome == Outcome::kAllowed);
      return;
    }
    ASSERT_FALSE(spent);
    ++changes;
    if (actual < cost) {
      ASSERT_GE(d.remaining, untouched.remaining);
    } else {
      ASSERT_LE(d.remaining, untouched.remaining);
    }
    ASSERT_EQ(cell_.settle(&ticket, 0, now_).outcome, Outcome::kDenied);
  }

  // A store may drop what is dead.
  void dead_equals_absent() {
    const Micros dead = dead_at(cell_.rule, cell_.state);
    if (dead == 0 || dead > kMaxNow * 2) return;
    Ask ask;
    const Seen seen = look(cell_.rule, ask, cell_.state, dead, 0);
    const Seen absent = look(cell_.rule, ask, State{}, dead, 0);
    ASSERT_EQ(seen.over, absent.over);
    ASSERT_EQ(seen.end, absent.end);
    ASSERT_EQ(seen.used, 0);
    ASSERT_EQ(seen.previous, 0);
    Decision d;
    if (dead <= now_) return;
    describe(cell_.rule, look(cell_.rule, ask, cell_.state, dead - 1, 0), dead - 1, &d);
    ASSERT_EQ(d.reset_after, 1);
  }

  Random& random_;
  StepCell cell_;
  Micros now_ = 0;
  Micros retry_at_ = 0;
  std::vector<Ticket> tickets_;
};

class Steps : public testing::TestWithParam<Algorithm> {};

TEST_P(Steps, KeepTheirPromises) {
  Random random(static_cast<std::uint64_t>(GetParam()));
  int outcomes[5] = {};
  int changes = 0;
  for (int world = 0; world < 400; ++world) {
    Trace trace(GetParam(), random);
    trace.run(120);
    if (HasFatalFailure()) FAIL() << "world " << world;
    for (int i = 0; i < 5; ++i) outcomes[i] += trace.outcomes[i];
    changes += trace.changes;
  }
  EXPECT_GT(outcomes[1], 3'000);
  EXPECT_GT(outcomes[2], 3'000);
  EXPECT_GT(outcomes[3], 500);
  EXPECT_GT(changes, 500);
}

std::string name_of(const testing::TestParamInfo<Algorithm>& info) {
  static const char* const names[] = {
      "",           "TokenBucket", "",           "FixedWindow", "SlidingWindow",
      "SlidingLog", "Calendar",    "Concurrency"};
  return names[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, Steps,
                         testing::Values(Algorithm::kTokenBucket, Algorithm::kFixedWindow,
                                         Algorithm::kSlidingWindow, Algorithm::kSlidingLog,
                                         Algorithm::kCalendar, Algorithm::kConcurrency),
                         name_of);

// Refunding what has just been charged leaves the state as it was.
TEST_P(Steps, ARefundAtOnceRestoresTheState) {
  Random random(7 + static_cast<std::uint64_t>(GetParam()));
  int done = 0;
  for (int i = 0; i < 3'000; ++i) {
    StepCell cell(random_rule(GetParam(), random));
    const Micros now = random_up_to(random, kMaxNow);
    cell.check(random_up_to(random, cell.rule.capacity()) / 2, now);
    const Micros then = std::min(kMaxNow, now + random_up_to(random, span_of(cell.rule)) / 2);
    const Decision before = cell.peek(0, then);
    Ticket ticket;
    if (cell.check(1 + random_up_to(random, cell.rule.capacity()) / 2, then, &ticket).outcome !=
        Outcome::kAllowed) {
      continue;
    }
    const Decision d = cell.refund(&ticket, then);
    ASSERT_EQ(d.outcome, Outcome::kAllowed);
    ASSERT_NO_FATAL_FAILURE(expect_same_numbers(d, before));
    ++done;
  }
  EXPECT_GT(done, 1'000);
}

}  // namespace
}  // namespace saqiya

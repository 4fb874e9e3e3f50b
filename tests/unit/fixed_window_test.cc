// Fixed windows and calendars by example, each number worked out by hand.
#include "core/fixed_window.h"

#include <gtest/gtest.h>

#include <string>

#include "core/calendar.h"
#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::StepCell;
using test::window_rule;

constexpr Micros kSecond = 1'000'000;
constexpr Micros kDay = 86'400 * kSecond;

Rule fixed(std::int64_t limit, Micros period) {
  return window_rule(Algorithm::kFixedWindow, limit, period);
}

TEST(FixedWindow, CountsUntilTheEndOfTheAlignedWindow) {
  StepCell cell(fixed(3, 10 * kSecond));
  const Decision first = cell.check(2, 107 * kSecond);
  EXPECT_EQ(first.outcome, Outcome::kAllowed);
  EXPECT_EQ(first.limit, 3);
  EXPECT_EQ(first.remaining, 1);
  EXPECT_EQ(first.reset_after, 3 * kSecond);
  EXPECT_EQ(first.retry_after, 0);
  EXPECT_EQ(first.delay, 0);
  const auto before = cell.stored();
  const Decision refused = cell.check(2, 109 * kSecond);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.remaining, 1);
  EXPECT_EQ(refused.retry_after, kSecond);
  EXPECT_EQ(refused.reset_after, kSecond);
  EXPECT_EQ(cell.stored(), before);
  EXPECT_EQ(cell.check(2, 110 * kSecond - 1).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.check(3, 110 * kSecond).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.check(1, 110 * kSecond).retry_after, 10 * kSecond);
}

TEST(FixedWindow, NeverAndCostZeroWriteNothing) {
  StepCell cell(fixed(3, kSecond));
  cell.check(1, 0);
  const auto before = cell.stored();
  const Decision never = cell.check(4, 5);
  EXPECT_EQ(never.outcome, Outcome::kNever);
  EXPECT_EQ(never.retry_after, kForever);
  EXPECT_EQ(never.remaining, 2);
  EXPECT_EQ(never.reset_after, kSecond - 5);
  EXPECT_EQ(cell.check(0, 5).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.check(kMaxCount, 5).outcome, Outcome::kNever);
  EXPECT_EQ(cell.stored(), before);
  StepCell closed(fixed(0, kSecond));
  EXPECT_EQ(closed.check(0, 5).outcome, Outcome::kNever);
  EXPECT_EQ(closed.check(1, 5).outcome, Outcome::kNever);
}

TEST(FixedWindow, APeekTellsWhatACheckWould) {
  StepCell cell(fixed(3, kSecond));
  const Decision open = cell.peek(3, 0);
  EXPECT_EQ(open.outcome, Outcome::kAllowed);
  EXPECT_EQ(open.remaining, 3);
  EXPECT_EQ(open.reset_after, 0);
  cell.check(1, 0);
  EXPECT_EQ(cell.peek(3, 1).retry_after, kSecond - 1);
}

TEST(FixedWindow, AWindowUnderWayOutlivesAChangedPeriod) {
  StepCell cell(fixed(3, 60 * kSecond));
  cell.check(3, 10 * kSecond);
  cell.rule.period = kSecond;
  EXPECT_EQ(cell.check(1, 11 * kSecond).retry_after, 49 * kSecond);
  EXPECT_EQ(cell.check(1, 60 * kSecond).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.end, 61 * kSecond);
}

TEST(FixedWindow, AClockThatGoesBackBeginsNoNewWindow) {  // C23
  StepCell cell(fixed(3, 10 * kSecond));
  cell.check(3, 105 * kSecond);
  EXPECT_EQ(cell.check(1, 85 * kSecond).retry_after, 25 * kSecond);
  EXPECT_EQ(cell.check(1, 110 * kSecond).outcome, Outcome::kAllowed);
}

TEST(FixedWindow, AnAbsentStateIsAsNewAsTheLastThatWasDropped) {
  StepCell cell(fixed(3, 10 * kSecond));
  cell.floor = 110 * kSecond;
  const Decision d = cell.check(3, 105 * kSecond);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.reset_after, 15 * kSecond);  // the window [110, 120)
  EXPECT_EQ(cell.check(1, 110 * kSecond).outcome, Outcome::kDenied);
}

TEST(FixedWindow, RefundAndSettle) {
  StepCell cell(fixed(10, 10 * kSecond));
  Ticket a;
  Ticket b;
  cell.check(4, 0, &a);
  cell.check(5, kSecond, &b);
  EXPECT_EQ(a.q, 10 * kSecond);
  EXPECT_EQ(a.n, 1U);
  EXPECT_EQ(a.algorithm, 3U);
  EXPECT_EQ(a.epoch, StepCell::kEpoch);
  const Decision settled = cell.settle(&b, 2, 2 * kSecond);
  EXPECT_EQ(settled.outcome, Outcome::kAllowed);
  EXPECT_EQ(settled.remaining, 4);
  EXPECT_EQ(settled.reset_after, 8 * kSecond);
  EXPECT_EQ(cell.settle(&b, 1, 2 * kSecond).outcome, Outcome::kDenied);  // spent
  const Decision up = cell.settle(&a, 90, 3 * kSecond);
  EXPECT_EQ(up.outcome, Outcome::kAllowed);
  EXPECT_EQ(up.remaining, 0);
  EXPECT_EQ(cell.state.used, 92);
  // Debt ends with its window.
  EXPECT_EQ(cell.check(1, 4 * kSecond).retry_after, 6 * kSecond);
  EXPECT_EQ(cell.check(10, 10 * kSecond).outcome, Outcome::kAllowed);
}

TEST(FixedWindow, AChangeCountsOnlyInItsOwnWindow) {
  StepCell cell(fixed(10, 10 * kSecond));
  Ticket late;
  cell.check(4, 0, &late);
  Ticket copy = late;
  EXPECT_EQ(cell.refund(&late, 10 * kSecond).outcome, Outcome::kDenied);
  cell.check(5, 10 * kSecond);
  EXPECT_EQ(cell.refund(&copy, 11 * kSecond).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.state.used, 5);
}

TEST(FixedWindow, NoStateIsCreatedAndNoneIsKeptOfNothing) {
  StepCell cell(fixed(10, 10 * kSecond));
  Ticket ticket;
  cell.check(4, 0, &ticket);
  Ticket copy = ticket;
  EXPECT_EQ(cell.refund(&ticket, 1).outcome, Outcome::kAllowed);
  EXPECT_EQ(dead_at(cell.rule, cell.state), 0);
  EXPECT_EQ(cell.settle(&copy, 9, 1).outcome, Outcome::kDenied);
}

TEST(FixedWindow, TheCountStaysInItsRange) {
  StepCell cell(fixed(kMaxCount, kMaxSpan));
  Ticket ticket;
  cell.check(kMaxCount, kMaxNow, &ticket);
  Ticket copy = ticket;
  Ticket more = ticket;
  more.cost = 1;
  EXPECT_EQ(cell.settle(&more, kMaxCount, kMaxNow).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.used, kMaxCount);
  EXPECT_EQ(cell.check(kMaxCount, kMaxNow).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.refund(&ticket, kMaxNow).remaining, kMaxCount);
  cell.check(1, kMaxNow);
  EXPECT_EQ(cell.refund(&copy, kMaxNow).remaining, kMaxCount);  // not below nothing
}

TEST(CalendarWindow, EndsWithTheCivilDayOrMonth) {
  Rule rule = window_rule(Algorithm::kCalendar, 2, 0);
  std::string error;
  rule.calendar = Calendar::make(Calendar::Unit::kMonth, "UTC", 1, &error);
  ASSERT_NE(rule.calendar, nullptr) << error;
  StepCell cell(rule);
  const Micros now = 15 * kDay;  // 16 January 1970
  Ticket ticket;
  EXPECT_EQ(cell.check(1, now, &ticket).reset_after, 16 * kDay);
  EXPECT_EQ(ticket.algorithm, 6U);
  EXPECT_EQ(cell.check(2, now).retry_after, 16 * kDay);
  EXPECT_EQ(cell.check(2, 31 * kDay).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.end, 59 * kDay);  // 1 March
  EXPECT_EQ(cell.refund(&ticket, 31 * kDay).outcome, Outcome::kDenied);
}

}  // namespace
}  // namespace saqiya

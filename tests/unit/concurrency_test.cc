// Leases by example.
#include "core/concurrency.h"

#include <gtest/gtest.h>

#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::StepCell;
using test::window_rule;

constexpr Micros kSecond = 1'000'000;

Rule leases(std::int64_t limit, Micros ttl) {
  return window_rule(Algorithm::kConcurrency, limit, ttl);
}

TEST(Concurrency, ALeaseRunsOutByItself) {
  StepCell cell(leases(2, 30 * kSecond));
  Ticket ticket;
  const Decision first = cell.check(1, 100 * kSecond, &ticket);
  EXPECT_EQ(first.outcome, Outcome::kAllowed);
  EXPECT_EQ(first.remaining, 1);
  EXPECT_EQ(first.reset_after, 30 * kSecond);
  EXPECT_EQ(ticket.q, 130 * kSecond);
  EXPECT_EQ(ticket.algorithm, 7U);
  EXPECT_EQ(ticket.n, 1U);
  EXPECT_EQ(ticket.lease, 1000U);
  EXPECT_EQ(cell.check(1, 110 * kSecond).remaining, 0);
  const auto before = cell.stored();
  const Decision refused = cell.check(1, 120 * kSecond);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, 10 * kSecond);
  EXPECT_EQ(refused.reset_after, 20 * kSecond);
  EXPECT_EQ(cell.check(2, 120 * kSecond).retry_after, 20 * kSecond);
  EXPECT_EQ(cell.stored(), before);
  EXPECT_EQ(cell.check(1, 130 * kSecond - 1).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.check(1, 130 * kSecond).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.list->size(), 2U);  // the one that ran out is gone
}

TEST(Concurrency, ReleaseOnlyOnceAndOnlyItsOwn) {
  StepCell cell(leases(2, 30 * kSecond));
  Ticket a;
  Ticket b;
  cell.check(1, 0, &a);
  cell.check(1, 0, &b);
  Ticket copy = a;
  EXPECT_EQ(cell.refund(&a, kSecond).remaining, 1);
  EXPECT_EQ(cell.refund(&a, kSecond).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.refund(&copy, kSecond).outcome, Outcome::kDenied);  // gone, not spent
  EXPECT_EQ(cell.seen(kSecond).used, 1);
  EXPECT_EQ(cell.refund(&b, kSecond).outcome, Outcome::kAllowed);
  EXPECT_TRUE(cell.state.list->empty());
  EXPECT_EQ(dead_at(cell.rule, cell.state), 0);
  EXPECT_EQ(cell.check(2, kSecond).outcome, Outcome::kAllowed);
}

TEST(Concurrency, AReleaseAfterTheLeaseRanOutGivesNothing) {
  StepCell cell(leases(1, 30 * kSecond));
  Ticket a;
  cell.check(1, 0, &a);
  cell.check(1, 30 * kSecond);
  const Decision d = cell.refund(&a, 31 * kSecond);
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.remaining, 0);
}

TEST(Concurrency, RenewMovesTheExpiry) {
  StepCell cell(leases(3, 30 * kSecond));
  Ticket a;
  Ticket b;
  cell.check(1, 0, &a);
  cell.check(1, 10 * kSecond, &b);
  const Decision d = cell.renew(a, 20 * kSecond);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 1);
  EXPECT_EQ(d.reset_after, 30 * kSecond);
  EXPECT_EQ(cell.state.list->id(0), b.lease);
  EXPECT_EQ(cell.state.list->at(1), 50 * kSecond);
  EXPECT_EQ(cell.check(2, 20 * kSecond).retry_after, 20 * kSecond);  // b goes first now
  EXPECT_EQ(cell.renew(b, 40 * kSecond).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.renew(a, 49 * kSecond).outcome, Outcome::kAllowed);
  // The ticket's expiry is out of date by now; the lease is found all the same.
  EXPECT_EQ(cell.refund(&a, 78 * kSecond).remaining, 3);
  EXPECT_EQ(cell.renew(a, 78 * kSecond).outcome, Outcome::kDenied);
}

TEST(Concurrency, SettleChangesTheLeasesCost) {
  StepCell cell(leases(10, 30 * kSecond));
  Ticket a;
  Ticket b;
  cell.check(4, 0, &a);
  cell.check(4, 0, &b);
  EXPECT_EQ(cell.settle(&a, 1, 1).remaining, 5);
  EXPECT_EQ(cell.settle(&b, kMaxCount, 1).remaining, 0);
  EXPECT_EQ(cell.state.list->total(), 1 + kMaxLeases);
  const Decision d = cell.check(10, 1);
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.retry_after, 30 * kSecond - 1);
}

TEST(Concurrency, AClockThatGoesBackLeavesLeasesSorted) {
  StepCell cell(leases(3, 30 * kSecond));
  Ticket late;
  Ticket early;
  cell.check(1, 100 * kSecond, &late);
  cell.check(1, 50 * kSecond, &early);
  EXPECT_EQ(cell.state.list->id(0), early.lease);
  EXPECT_EQ(cell.check(2, 50 * kSecond).retry_after, 30 * kSecond);
  EXPECT_EQ(cell.renew(late, 40 * kSecond).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.list->id(0), late.lease);
  EXPECT_EQ(cell.seen(40 * kSecond).used, 2);
}

TEST(Concurrency, RenewIsOnlyForLeases) {
  StepCell cell(window_rule(Algorithm::kFixedWindow, 3, kSecond));
  Ticket ticket;
  cell.check(1, 0, &ticket);
  EXPECT_EQ(cell.renew(ticket, 1).outcome, Outcome::kDenied);
}

}  // namespace
}  // namespace saqiya

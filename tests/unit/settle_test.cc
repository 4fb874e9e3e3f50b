// Settling up and down of token buckets, and which tickets the steps accept. Refunds of whole
// buckets' charges: refund_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "core/calendar.h"
#include "tests/support/bucket_harness.h"
#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::bucket_rule;
using test::StepCell;
using test::Wide;
using test::window_rule;

constexpr Micros kSecond = 1'000'000;
constexpr Micros kStart = 1'790'000'000 * kSecond;

TEST(SettleBucket, DownGivesTheDifferenceBack) {
  StepCell cell(bucket_rule(10, 10, kSecond));
  Ticket ticket;
  cell.check(8, kStart, &ticket);
  const Decision d = cell.settle(&ticket, 3, kStart);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 7);
  EXPECT_EQ(d.reset_after, 300'000);
  EXPECT_EQ(d.retry_after, 0);
  EXPECT_EQ(cell.settle(&ticket, 1, kStart).outcome, Outcome::kDenied);
}

TEST(SettleBucket, UpMayExceedTheCapacity) {
  StepCell cell(bucket_rule(10, 10, kSecond));
  Ticket ticket;
  cell.check(8, kStart, &ticket);
  const Decision d = cell.settle(&ticket, 25, kStart);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 0);
  EXPECT_EQ(d.reset_after, 2'500'000);
  EXPECT_EQ(cell.check(1, kStart).retry_after, 1'600'000);
}

TEST(SettleBucket, UpChargesOnlyWhatTimeHasNotGivenBack) {
  StepCell cell(bucket_rule(10, 10, kSecond));
  Ticket ticket;
  cell.check(2, kStart, &ticket);  // until 0.2 s
  cell.check(8, kStart);           // full again at 1 s
  // Had it cost 5, three tokens more would be back at 0.5 s: at 0.4 s one of them is missing.
  EXPECT_EQ(cell.settle(&ticket, 5, kStart + 400'000).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.bucket.q, kStart + 1'100'000);
}

TEST(SettleBucket, UpTooLateOrOnAFullBucketChargesNothing) {
  StepCell cell(bucket_rule(10, 10, kSecond));
  Ticket a;
  Ticket b;
  cell.check(2, kStart, &a);
  b = a;
  const auto before = cell.stored();
  EXPECT_EQ(cell.settle(&a, 9, kStart + 200'000).outcome, Outcome::kDenied);  // full
  EXPECT_EQ(cell.stored(), before);
  cell.check(10, kStart + 900'000);
  EXPECT_EQ(cell.settle(&b, 9, kStart + 900'000).outcome, Outcome::kDenied);  // late
  StepCell empty(bucket_rule(10, 10, kSecond));
  b.flags = 0;
  EXPECT_EQ(empty.settle(&b, 9, kStart).outcome, Outcome::kDenied);
  EXPECT_EQ(empty.state.bucket, BucketState{});
}

TEST(SettleBucket, ToTheSameCostIsDoneAndWritesNothing) {
  StepCell cell(bucket_rule(10, 3, kSecond));
  Ticket ticket;
  cell.check(2, kStart, &ticket);
  const auto before = cell.stored();
  EXPECT_EQ(cell.settle(&ticket, 2, kStart).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.stored(), before);
}

TEST(SettleBucket, DebtEndsAtTheLargestSpan) {
  StepCell cell(bucket_rule(1, 1, kMaxSpan));
  Ticket ticket;
  cell.check(1, kMaxNow, &ticket, kMaxSpan);
  EXPECT_EQ(cell.settle(&ticket, kMaxCount, kMaxNow).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.bucket.q, kMaxNow + kMaxSpan);
  // A reservation may have taken it further already; then it stays there.
  cell.check(1, kMaxNow, &ticket, kMaxSpan);
  EXPECT_EQ(cell.state.bucket.q, kMaxNow + 2 * kMaxSpan);
  EXPECT_EQ(cell.settle(&ticket, kMaxCount, kMaxNow).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.bucket.q, kMaxNow + 2 * kMaxSpan);
}

TEST(SettleBucket, AReservationIsGivenBackOnlyWhileItIsTheLast) {
  StepCell cell(bucket_rule(1, 1, kSecond));
  Ticket first;
  Ticket last;
  cell.check(1, kStart);
  cell.check(1, kStart, &first, 10 * kSecond);
  cell.check(1, kStart, &last, 10 * kSecond);
  EXPECT_EQ(first.flags, Ticket::kReservation);
  EXPECT_EQ(first.algorithm, 1U);
  EXPECT_EQ(cell.refund(&first, kStart).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.refund(&last, kStart).outcome, Outcome::kAllowed);
  EXPECT_EQ(cell.state.bucket.q, kStart + 2 * kSecond);
}

// At once, settling to an actual cost leaves what charging that cost would have left.
TEST(SettleBucket, AtOnceEqualsHavingChargedTheActualCost) {
  test::Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    Rule rule;
    rule.bucket = test::random_rule(random);
    const std::int64_t capacity = rule.bucket.capacity;
    const Micros now = test::random_up_to(random, kMaxNow);
    const std::int64_t first = test::random_up_to(random, capacity);
    const std::int64_t cost = test::random_up_to(random, capacity - first);
    const std::int64_t actual = test::random_up_to(random, capacity - first);
    if (cost == 0) continue;
    StepCell settled(rule);
    StepCell direct(rule);
    settled.check(first, now);
    direct.check(first, now);
    Ticket ticket;
    ASSERT_EQ(settled.check(cost, now, &ticket).outcome, Outcome::kAllowed);
    ASSERT_EQ(direct.check(actual, now).outcome, Outcome::kAllowed);
    const Decision d = settled.settle(&ticket, actual, now);
    ASSERT_EQ(d.outcome, Outcome::kAllowed);
    ASSERT_EQ(d.remaining, direct.peek(0, now).remaining);
    ASSERT_EQ(d.reset_after, direct.peek(0, now).reset_after);
    if (first + actual > 0) {
      ASSERT_EQ(settled.stored(), direct.stored());
    }
  }
}

// The rule's words in 128 bits, also when N differs: add = min(inc, ticket + inc - now).
TEST(SettleBucket, UpEqualsTheReference) {
  test::Random random(2);
  int done = 0;
  for (int i = 0; i < 50'000; ++i) {
    Rule rule;
    rule.bucket = test::random_rule(random);
    const TokenBucket& b = rule.bucket;
    if (b.capacity == 0) continue;
    const Wide n = b.tokens;
    const Micros now = test::random_up_to(random, kMaxNow);
    StepCell cell(rule);
    cell.state.bucket = {now + test::random_up_to(random, kMaxSpan * 2) - (i % 2), 0, b.tokens};
    cell.state.bucket.r = static_cast<std::uint32_t>(random() % b.tokens);
    Ticket ticket;
    ticket.n = random() % 3 == 0 ? 1 + static_cast<std::uint32_t>(random() % 5) : b.tokens;
    ticket.r = static_cast<std::uint32_t>(random() % ticket.n);
    ticket.q = std::max<Micros>(
        0, now + test::random_up_to(random, kMaxSpan) - test::random_up_to(random, kMaxSpan));
    ticket.cost = 1 + test::random_up_to(random, b.capacity);
    const std::int64_t more = 1 + test::random_up_to(random, b.capacity);
    const bool same = ticket.n == b.tokens;
    const Wide present = Wide{now} * n;
    const Wide until = same ? ticket.q * n + ticket.r : (ticket.q + (ticket.r > 0 ? 1 : 0)) * n;
    const Wide inc = Wide{more} * b.period;
    const Wide add = std::min(inc, until + inc - present);
    const Wide state = cell.state.bucket.q * n + cell.state.bucket.r;
    const bool expected = state > present && add > 0;
    const Wide next = std::min(state + add, std::max(state, present + Wide{kMaxSpan} * n));
    const auto before = cell.stored();
    const Decision d = cell.settle(&ticket, ticket.cost + more, now);
    ASSERT_EQ(d.outcome, expected ? Outcome::kAllowed : Outcome::kDenied);
    if (expected) {
      ++done;
      ASSERT_TRUE(cell.state.bucket.q * n + cell.state.bucket.r == next);
    } else {
      ASSERT_EQ(cell.stored(), before);
    }
  }
  EXPECT_GT(done, 10'000);
}

Rule rule_of(Algorithm algorithm) {
  if (algorithm == Algorithm::kTokenBucket) return bucket_rule(10, 1, kSecond);
  Rule rule = window_rule(algorithm, 10, kSecond);
  if (algorithm == Algorithm::kCalendar) {
    std::string error;
    rule.calendar = Calendar::make(Calendar::Unit::kDay, "UTC", 1, &error);
  }
  return rule;
}

constexpr Algorithm kAll[] = {Algorithm::kTokenBucket,   Algorithm::kFixedWindow,
                              Algorithm::kSlidingWindow, Algorithm::kSlidingLog,
                              Algorithm::kCalendar,      Algorithm::kConcurrency};

TEST(Tickets, OfAnotherAlgorithmGiveNothing) {
  for (const Algorithm of : kAll) {
    StepCell cell(rule_of(of));
    Ticket ticket;
    cell.check(2, kStart, &ticket);
    EXPECT_EQ(ticket.algorithm, static_cast<std::uint32_t>(of));
    for (const Algorithm other : kAll) {
      Change change;
      EXPECT_EQ(make_change(rule_of(other), ticket, 0, &change), of == other);
      EXPECT_EQ(make_renewal(rule_of(other), ticket, &change),
                of == other && of == Algorithm::kConcurrency);
    }
    ticket.algorithm = 0;  // as old tickets of token buckets have it
    Change change;
    EXPECT_EQ(make_change(cell.rule, ticket, 0, &change), of == Algorithm::kTokenBucket);
  }
}

TEST(Tickets, OfNothingThatIsCharged) {
  for (const Algorithm of : kAll) {
    StepCell cell(rule_of(of));
    Ticket ticket;
    cell.check(0, kStart, &ticket);
    EXPECT_EQ(ticket.n, 0U);
    EXPECT_EQ(cell.refund(&ticket, kStart).outcome, Outcome::kDenied);
    cell.check(10, kStart, &ticket);
    EXPECT_EQ(ticket.cost, 10);
    cell.check(1, kStart, &ticket);
    EXPECT_EQ(ticket.n, 0U);
  }
}

TEST(Tickets, MalformedOnesGiveNothing) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  for (const Algorithm of : kAll) {
    const Rule rule = rule_of(of);
    StepCell cell(rule);
    Ticket good;
    cell.check(2, kStart, &good);
    const auto refused = [&](auto&& spoil) {
      Ticket ticket = good;
      spoil(&ticket);
      Change change;
      return !make_change(rule, ticket, 0, &change) &&
             !make_change(rule, ticket, kMaxCount, &change);
    };
    EXPECT_FALSE(refused([](Ticket*) {}));
    EXPECT_TRUE(refused([](Ticket* t) { t->n = 0; }));
    EXPECT_TRUE(refused([](Ticket* t) { t->flags = Ticket::kSpent; }));
    EXPECT_TRUE(refused([](Ticket* t) { t->algorithm = 99; }));
    EXPECT_TRUE(refused([](Ticket* t) { t->r = t->n; }));
    for (const std::int64_t bad : {std::int64_t{-1}, kLeast, kMost, kMaxNow * 2 + 1}) {
      EXPECT_TRUE(refused([&](Ticket* t) { t->q = bad; }));
    }
    for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, kLeast}) {
      EXPECT_TRUE(refused([&](Ticket* t) { t->cost = bad; }));
    }
    if (of != Algorithm::kTokenBucket) {
      EXPECT_TRUE(refused([](Ticket* t) { t->cost = kMaxCount + 1; }));
      EXPECT_TRUE(refused([](Ticket* t) { t->n = 2; }));
    }
    // Whatever else a forged one says, nothing overflows.
    for (const std::int64_t cost : {std::int64_t{1}, kMaxCount, kMost}) {
      for (const std::int64_t actual : {std::int64_t{0}, kMaxCount}) {
        Ticket forged = good;
        forged.cost = cost;
        const Decision d = cell.settle(&forged, actual, kStart);
        EXPECT_GE(d.remaining, 0);
        EXPECT_LE(d.remaining, 10);
      }
    }
  }
}

}  // namespace
}  // namespace saqiya

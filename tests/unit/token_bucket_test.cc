// The bucket's arithmetic by example, each number worked out by hand. The random comparison with
// the reference is tests/fuzz/step_reference_test.cc.
#include "core/token_bucket.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/support/bucket_harness.h"

namespace saqiya {
namespace {

using test::CoreBucket;
using test::make_rule;

constexpr Micros kSecond = 1'000'000;
constexpr Micros kStart = 1'790'000'000 * kSecond;

std::int64_t allowed_of(CoreBucket& bucket, const TokenBucket& rule, int tries, Micros now) {
  std::int64_t allowed = 0;
  for (int i = 0; i < tries; ++i) {
    if (bucket.check(rule, 1, now, 0, nullptr).outcome == Outcome::kAllowed) ++allowed;
  }
  return allowed;
}

TEST(TokenBucket, ReducesTheRateAndKeepsTheRemainderOfTheSpan) {
  const TokenBucket fifth = make_rule(20, 5, kSecond);
  EXPECT_EQ(fifth.tokens, 1U);
  EXPECT_EQ(fifth.period, 200'000);
  EXPECT_EQ(fifth.span, (Fraction{4 * kSecond, 0}));
  const TokenBucket sevenths = make_rule(4, 7, 60 * kSecond);
  EXPECT_EQ(sevenths.tokens, 7U);
  EXPECT_EQ(sevenths.span, (Fraction{34'285'714, 2}));  // 240,000,000 / 7
}

TEST(TokenBucket, AdmitsTheCapacityAtOnceThenOnePerInterval) {  // C14
  const TokenBucket rule = make_rule(6, 1, 10 * kSecond);
  CoreBucket bucket;
  EXPECT_EQ(allowed_of(bucket, rule, 10, kStart), 6);
  EXPECT_EQ(allowed_of(bucket, rule, 1, kStart + 9'999'000), 0);
  EXPECT_EQ(allowed_of(bucket, rule, 1, kStart + 10 * kSecond - 1), 0);
  EXPECT_EQ(allowed_of(bucket, rule, 2, kStart + 10 * kSecond), 1);
}

TEST(TokenBucket, RefusalTakesNothingAndTellsTheTrueRemaining) {  // C8
  const TokenBucket rule = make_rule(10, 10, kSecond);
  CoreBucket bucket;
  EXPECT_EQ(bucket.check(rule, 8, kStart, 0, nullptr).remaining, 2);
  const BucketState before = bucket.state;
  const Decision refused = bucket.check(rule, 5, kStart, 0, nullptr);
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.remaining, 2);
  EXPECT_EQ(refused.retry_after, 300'000);
  EXPECT_EQ(bucket.state, before);
  const Decision one = bucket.check(rule, 1, kStart, 0, nullptr);
  EXPECT_EQ(one.outcome, Outcome::kAllowed);
  EXPECT_EQ(one.remaining, 1);
}

TEST(TokenBucket, CostAboveCapacityIsNeverWithAndWithoutState) {  // C6, C7
  const TokenBucket rule = make_rule(10, 10, kSecond);
  CoreBucket bucket;
  for (const std::int64_t remaining : {10, 5}) {
    const BucketState before = bucket.state;
    const Decision d = bucket.check(rule, 100, kStart, kMaxSpan, nullptr);
    EXPECT_EQ(d.outcome, Outcome::kNever);
    EXPECT_EQ(d.retry_after, kForever);
    EXPECT_EQ(d.remaining, remaining);
    EXPECT_EQ(bucket.state, before);
    bucket.check(rule, 5, kStart, 0, nullptr);
  }
}

TEST(TokenBucket, CapacityZeroRefusesEverything) {  // C21
  for (const TokenBucket& rule : {make_rule(0, 5, kSecond), make_rule(0, 0, kSecond)}) {
    CoreBucket bucket;
    for (const std::int64_t cost : {std::int64_t{0}, std::int64_t{1}, kMaxCount}) {
      const Decision d = bucket.check(rule, cost, kStart, 0, nullptr);
      EXPECT_EQ(d.outcome, Outcome::kNever);
      EXPECT_EQ(d.remaining, 0);
      EXPECT_EQ(d.reset_after, 0);
    }
    EXPECT_EQ(bucket.state, BucketState{});
  }
}

TEST(TokenBucket, CostZeroIsAllowedInAnyDebtAndWritesNothing) {  // C40
  const TokenBucket rule = make_rule(2, 1, kSecond);
  CoreBucket bucket;
  Ticket ticket;
  EXPECT_EQ(bucket.check(rule, 0, kStart, 0, &ticket).outcome, Outcome::kAllowed);
  EXPECT_EQ(ticket.n, 0U);
  EXPECT_EQ(bucket.state, BucketState{});
  for (int i = 0; i < 5; ++i) bucket.check(rule, 1, kStart, 10 * kSecond, nullptr);
  const BucketState before = bucket.state;
  const Decision d = bucket.check(rule, 0, kStart, 10 * kSecond, nullptr);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 0);
  EXPECT_EQ(d.delay, 0);
  EXPECT_EQ(d.reset_after, 5 * kSecond);
  EXPECT_EQ(bucket.state, before);
}

TEST(TokenBucket, RetryAfterIsTheFirstInstantThatPasses) {  // C11
  const TokenBucket rule = make_rule(4, 7, 60 * kSecond);
  CoreBucket bucket;
  EXPECT_EQ(bucket.check(rule, 4, kStart, 0, nullptr).outcome, Outcome::kAllowed);
  for (const std::int64_t cost : {1, 2, 3, 4}) {
    const Decision d = bucket.peek(rule, cost, kStart, 0);
    ASSERT_EQ(d.outcome, Outcome::kDenied);
    EXPECT_EQ(bucket.peek(rule, cost, kStart + d.retry_after - 1, 0).outcome, Outcome::kDenied);
    EXPECT_EQ(bucket.peek(rule, cost, kStart + d.retry_after, 0).outcome, Outcome::kAllowed);
  }
}

TEST(TokenBucket, DelaysRunOnAtTheRate) {
  const TokenBucket rule = make_rule(1, 3, kSecond);
  CoreBucket bucket;
  const Micros delays[] = {0, 333'334, 666'667, kSecond, 1'333'334};
  for (const Micros delay : delays) {
    const Decision d = bucket.check(rule, 1, kStart, 2 * kSecond, nullptr);
    EXPECT_EQ(d.outcome, Outcome::kAllowed);
    EXPECT_EQ(d.delay, delay);
  }
  const Decision d = bucket.check(rule, 1, kStart, kSecond, nullptr);
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.retry_after, 666'667);  // the slot is at 5/3 s; 1 s may be waited for
  EXPECT_EQ(d.delay, 0);
}

TEST(TokenBucket, ALongWaitCountsAsTwoToThe50) {
  const TokenBucket rule = make_rule(1, 1, kSecond);
  CoreBucket saturated;
  CoreBucket longest;
  for (int i = 0; i < 3; ++i) {
    const Decision a = saturated.check(rule, 1, kStart, kForever, nullptr);
    const Decision b = longest.check(rule, 1, kStart, kMaxSpan, nullptr);
    EXPECT_EQ(a.delay, b.delay);
    EXPECT_EQ(a.delay, i * kSecond);
  }
  EXPECT_EQ(saturated.state, longest.state);
}

TEST(TokenBucket, PeekSaysWhatCheckWouldAndChangesNothing) {
  const TokenBucket rule = make_rule(3, 3, kSecond);
  CoreBucket bucket;
  for (Micros now = kStart; now < kStart + 2 * kSecond; now += 70'001) {
    const BucketState before = bucket.state;
    const Decision peeked = bucket.peek(rule, 2, now, 100'000);
    ASSERT_EQ(bucket.state, before);
    const Decision untouched = bucket.peek(rule, 0, now, 0);
    const Decision checked = bucket.check(rule, 2, now, 100'000, nullptr);
    EXPECT_EQ(peeked.outcome, checked.outcome);
    EXPECT_EQ(peeked.retry_after, checked.retry_after);
    EXPECT_EQ(peeked.delay, checked.delay);
    EXPECT_EQ(peeked.remaining, untouched.remaining);
    EXPECT_EQ(peeked.reset_after, untouched.reset_after);
  }
}

TEST(TokenBucket, NothingIsLostBetweenPolls) {  // C15
  CoreBucket bucket;
  const TokenBucket one = make_rule(1, 1, kSecond);
  bucket.check(one, 1, kStart, 0, nullptr);
  std::int64_t allowed = 0;
  for (Micros t = 1'000; t <= 10 * kSecond; t += 1'000) {
    allowed += allowed_of(bucket, one, 1, kStart + t);
  }
  EXPECT_EQ(allowed, 10);

  CoreBucket tenth;
  const TokenBucket per_three = make_rule(10, 10, 30 * kSecond);
  EXPECT_EQ(allowed_of(tenth, per_three, 10, kStart), 10);
  for (int second = 1; second <= 30; ++second) {
    const Decision d = tenth.peek(per_three, 1, kStart + second * kSecond, 0);
    EXPECT_EQ(d.remaining, second / 3);
  }
}

TEST(TokenBucket, ThreeASecondIs259200ADay) {  // C15, polled at odd intervals
  const TokenBucket rule = make_rule(3, 3, kSecond);
  CoreBucket bucket;
  allowed_of(bucket, rule, 3, kStart);
  std::int64_t allowed = 0;
  for (Micros t = 33'333; t < 86'400 * kSecond; t += 33'333) {
    allowed += allowed_of(bucket, rule, 1, kStart + t);
  }
  allowed += allowed_of(bucket, rule, 3, kStart + 86'400 * kSecond);
  EXPECT_EQ(allowed, 259'200);
}

TEST(TokenBucket, AClockThatGoesBackGivesNothing) {  // C23
  const TokenBucket rule = make_rule(10, 1, kSecond);
  CoreBucket bucket;
  std::int64_t allowed = 0;
  for (int i = 0; i < 3'600; i += 2) {
    allowed += allowed_of(bucket, rule, 20, kStart + i * kSecond + 11 * kSecond);
    allowed += allowed_of(bucket, rule, 20, kStart + i * kSecond);
  }
  EXPECT_LE(allowed, 10 + 3'598 + 11);
  EXPECT_GE(allowed, 3'598);

  CoreBucket eight_hours;
  allowed_of(eight_hours, rule, 10, kStart);
  const Micros back = kStart - 8 * 3'600 * kSecond;
  const Decision shut = eight_hours.peek(rule, 10, back, 0);
  EXPECT_EQ(shut.outcome, Outcome::kDenied);
  EXPECT_EQ(shut.remaining, 0);
  EXPECT_EQ(shut.retry_after, (8 * 3'600 + 10) * kSecond);
}

TEST(TokenBucket, TheUsedShareSurvivesAChangeOfTheLimit) {  // C159
  const TokenBucket hundred = make_rule(100, 100, 60 * kSecond);
  const TokenBucket ten = make_rule(10, 10, 60 * kSecond);
  CoreBucket lowered;
  lowered.check(hundred, 30, kStart, 0, nullptr);
  EXPECT_EQ(lowered.peek(ten, 1, kStart, 0).remaining, 7);
  CoreBucket raised;
  raised.check(ten, 10, kStart, 0, nullptr);
  const Decision d = raised.peek(hundred, 1, kStart, 0);
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.retry_after, 600'000);
}

TEST(TokenBucket, AStateOfAnotherNIsUnderAMicrosecondLaterNeverEarlier) {
  const TokenBucket thirds = make_rule(3, 3, kSecond);
  const TokenBucket sevenths = make_rule(7, 7, kSecond);
  CoreBucket bucket;
  bucket.check(thirds, 1, kStart, 0, nullptr);
  EXPECT_EQ(bucket.state, (BucketState{kStart + 333'333, 1, 3}));
  EXPECT_EQ(full_at(bucket.state, 7), (Fraction{kStart + 333'334, 0}));
  EXPECT_EQ(full_at(bucket.state, 3), (Fraction{kStart + 333'333, 1}));
  EXPECT_EQ(bucket.peek(sevenths, 1, kStart, 0).reset_after, 333'334);
  EXPECT_EQ(full_at(BucketState{kStart, 0, 3}, 7), (Fraction{kStart, 0}));
}

}  // namespace
}  // namespace saqiya

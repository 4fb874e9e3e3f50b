// A token bucket with a queue: checks that come too early are allowed, with a delay.
#include <gtest/gtest.h>

#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::bucket_rule;
using test::StepCell;

constexpr Micros kSecond = 1'000'000;
constexpr Micros kStart = 1'790'000'000 * kSecond;

TEST(LeakyQueue, AdmitsWithADelayUntilTheQueueIsFull) {
  StepCell cell(bucket_rule(1, 10, kSecond, 3));
  for (int i = 0; i < 4; ++i) {
    const Decision d = cell.check(1, kStart);
    EXPECT_EQ(d.outcome, Outcome::kAllowed);
    EXPECT_EQ(d.delay, i * 100'000);
    EXPECT_EQ(d.limit, 1);
    EXPECT_EQ(d.remaining, 0);
    EXPECT_EQ(d.reset_after, (i + 1) * 100'000);
  }
  const auto before = cell.stored();
  const Decision full = cell.check(1, kStart);
  EXPECT_EQ(full.outcome, Outcome::kDenied);
  EXPECT_EQ(full.retry_after, 100'000);
  EXPECT_EQ(full.delay, 0);
  EXPECT_EQ(cell.stored(), before);
  EXPECT_EQ(cell.check(1, kStart + 99'999).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.check(1, kStart + 100'000).delay, 300'000);
}

TEST(LeakyQueue, TheCallersWaitOnlyShortensTheQueues) {
  StepCell cell(bucket_rule(1, 10, kSecond, 3));
  cell.check(1, kStart);
  EXPECT_EQ(cell.peek(1, kStart, kNoWait).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.peek(1, kStart, 0).delay, 100'000);
  EXPECT_EQ(cell.peek(1, kStart, 99'999).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.peek(1, kStart, 100'000).delay, 100'000);
  for (int i = 0; i < 3; ++i) cell.check(1, kStart);
  EXPECT_EQ(cell.peek(1, kStart, kMaxSpan).outcome, Outcome::kDenied);
  // A plain bucket waits as long as the caller does, and not at all when that does not.
  StepCell plain(bucket_rule(1, 10, kSecond));
  plain.check(1, kStart);
  EXPECT_EQ(plain.peek(1, kStart, kNoWait).outcome, Outcome::kDenied);
  EXPECT_EQ(plain.peek(1, kStart, 0).outcome, Outcome::kDenied);
  EXPECT_EQ(plain.peek(1, kStart, 100'000).delay, 100'000);
}

TEST(LeakyQueue, ThirdsOfASecondAreNeitherGainedNorLost) {
  StepCell cell(bucket_rule(1, 3, kSecond, 50));
  EXPECT_EQ(cell.rule.bucket.queue_wait, (Fraction{16'666'666, 2}));
  EXPECT_EQ(cell.check(1, kStart).delay, 0);
  for (std::int64_t i = 1; i <= 50; ++i) {
    EXPECT_EQ(cell.check(1, kStart).delay, (i * kSecond + 2) / 3);
  }
  EXPECT_EQ(cell.check(1, kStart).retry_after, 333'334);
  EXPECT_EQ(cell.check(1, kStart + 333'333).outcome, Outcome::kDenied);
  EXPECT_EQ(cell.check(1, kStart + 333'334).outcome, Outcome::kAllowed);
}

TEST(LeakyQueue, TheQueuesRange) {
  TokenBucket rule;
  std::string error;
  EXPECT_EQ(TokenBucket::make(1, 1, 1, kMaxSpan, &rule, &error), RangeFault::kNone);
  EXPECT_EQ(TokenBucket::make(1, 1, 1, kMaxSpan + 1, &rule, &error), RangeFault::kQueue);
  EXPECT_EQ(TokenBucket::make(1, 1, 1, -1, &rule, &error), RangeFault::kQueue);
  EXPECT_EQ(TokenBucket::make(1, 8, 1, kMaxCount, &rule, &error), RangeFault::kNone);
  EXPECT_EQ(TokenBucket::make(1, 16, 1, kMaxCount + 1, &rule, &error), RangeFault::kQueue);
}

}  // namespace
}  // namespace saqiya

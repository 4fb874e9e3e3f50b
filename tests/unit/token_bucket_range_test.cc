// The ranges of a rule: exact at the edge, a clear error one notch outside. C18, C20.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "core/token_bucket.h"
#include "tests/support/bucket_harness.h"

namespace saqiya {
namespace {

using test::CoreBucket;
using test::expect_same;
using test::make_rule;
using test::ReferenceBucket;

constexpr std::int64_t kTwoTo32 = std::int64_t{1} << 32;
constexpr std::int64_t kTwoTo50 = std::int64_t{1} << 50;
constexpr std::int64_t kTwoTo53 = std::int64_t{1} << 53;
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();

struct Numbers {
  std::int64_t capacity;
  std::int64_t tokens;
  std::int64_t period;
};

TEST(TokenBucketRange, AtTheEdgesEveryAnswerIsExact) {
  const Numbers edges[] = {
      {1, 1, 1},
      {kTwoTo50, 1, 1},
      {1, 1, kTwoTo50},
      {1, kTwoTo32 - 1, 1},
      {1, kTwoTo32 - 1, kTwoTo50},
      {kTwoTo32 - 1, kTwoTo32 - 1, kTwoTo50},
      {kTwoTo53 - 1, 8, 1},
      {kTwoTo53 - 1, kTwoTo32 - 1, 1},
      {kTwoTo53 - 1, kTwoTo32 - 1, 536'870'911},
      {2, 2, kTwoTo50 - 1},
      {1, kTwoTo53, kTwoTo50},  // 8/1 once reduced
      {5, 4, 4 * kTwoTo50 / 5},
      {1, 3, 3 * kTwoTo50},
  };
  const Micros instants[] = {0, 1, kMaxNow / 2 - 1, kMaxNow - kTwoTo50, kMaxNow - 1, kMaxNow};
  for (const Numbers& e : edges) {
    SCOPED_TRACE(testing::Message() << e.capacity << " " << e.tokens << " " << e.period);
    const TokenBucket rule = make_rule(e.capacity, e.tokens, e.period);
    for (const Micros wait : {Micros{0}, Micros{1}, kTwoTo50 - 1, kTwoTo50, kLargest}) {
      CoreBucket bucket;
      ReferenceBucket reference;
      for (const Micros now : instants) {
        for (const std::int64_t cost : {rule.capacity, std::int64_t{1}, rule.capacity - 1}) {
          Ticket ticket;
          test::ReferenceTicket wanted;
          expect_same(bucket.check(rule, cost, now, wait, &ticket),
                      reference.check(test::as_reference(rule), cost, now, wait, &wanted));
          ASSERT_FALSE(HasFatalFailure()) << "cost " << cost << " now " << now << " wait " << wait;
        }
      }
    }
  }
}

TEST(TokenBucketRange, OneNotchOutsideNamesTheLimit) {
  struct Row {
    Numbers given;
    RangeFault fault;
    const char* mentions;
  };
  const Row rows[] = {
      {{-1, 1, 1}, RangeFault::kCapacity, "capacity"},
      {{kSmallest, 1, 1}, RangeFault::kCapacity, "capacity"},
      {{kTwoTo53, kTwoTo32 - 1, 1}, RangeFault::kCapacity, "2^53"},
      {{kLargest, kTwoTo32 - 1, 1}, RangeFault::kCapacity, "2^53"},
      {{1, -1, 1}, RangeFault::kTokens, "token count"},
      {{1, kSmallest, 1}, RangeFault::kTokens, "token count"},
      {{1, 0, 1}, RangeFault::kTokens, "token count"},
      {{1, kTwoTo32, 1}, RangeFault::kTokens, "2^32"},
      {{1, kTwoTo32, 3}, RangeFault::kTokens, "2^32"},
      {{1, kLargest, 1}, RangeFault::kTokens, "2^32"},
      {{1, 1, 0}, RangeFault::kPeriod, "period"},
      {{1, 1, -1}, RangeFault::kPeriod, "period"},
      {{1, 1, kSmallest}, RangeFault::kPeriod, "period"},
      {{0, 0, 0}, RangeFault::kPeriod, "period"},
      {{1, 1, kTwoTo50 + 1}, RangeFault::kPeriod, "2^50"},
      {{1, 1, kLargest}, RangeFault::kPeriod, "2^50"},
      {{2, 1, kTwoTo50}, RangeFault::kSpan, "2^50"},
      {{kTwoTo50 + 1, 1, 1}, RangeFault::kSpan, "2^50"},
      {{kTwoTo53 - 1, 7, 1}, RangeFault::kSpan, "2^50"},
      {{5, 4, 4 * kTwoTo50 / 5 + 1}, RangeFault::kSpan, "2^50"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message()
                 << row.given.capacity << " " << row.given.tokens << " " << row.given.period);
    TokenBucket rule = make_rule(3, 2, 5);
    std::string error;
    EXPECT_EQ(
        TokenBucket::make(row.given.capacity, row.given.tokens, row.given.period, 0, &rule, &error),
        row.fault);
    EXPECT_THAT(error, testing::HasSubstr(row.mentions));
    EXPECT_EQ(rule.capacity, 3);  // untouched
    EXPECT_EQ(rule.period, 5);
  }
}

TEST(TokenBucketRange, ACenturyOfSilenceFillsTheBucket) {  // C18
  constexpr Micros kHour = 3'600'000'000;
  for (const Micros idle : {12 * kHour, 365 * 24 * kHour, 100 * 365 * 24 * kHour}) {
    for (const Numbers& n : {Numbers{10, 1, 1'000'000}, Numbers{3, 3, 1'000'000}}) {
      const TokenBucket rule = make_rule(n.capacity, n.tokens, n.period);
      CoreBucket bucket;
      bucket.check(rule, n.capacity, 0, 0, nullptr);
      const Decision d = bucket.check(rule, 1, idle, 0, nullptr);
      EXPECT_EQ(d.outcome, Outcome::kAllowed);
      EXPECT_EQ(d.remaining, n.capacity - 1);
    }
  }
}

TEST(TokenBucketRange, LongWindowsAreEnforced) {  // C39
  constexpr Micros kDay = 86'400'000'000;
  for (const Micros period : {30 * kDay, 365 * kDay, 1'000'000'000 * Micros{1'000'000}}) {
    const TokenBucket rule = make_rule(1, 1, period);
    CoreBucket bucket;
    EXPECT_EQ(bucket.check(rule, 1, 0, 0, nullptr).outcome, Outcome::kAllowed);
    const Decision d = bucket.check(rule, 1, kDay, 0, nullptr);
    EXPECT_EQ(d.outcome, Outcome::kDenied);
    EXPECT_EQ(d.retry_after, period - kDay);
    EXPECT_EQ(bucket.check(rule, 1, period, 0, nullptr).outcome, Outcome::kAllowed);
  }
}

TEST(TokenBucketRange, AnHourlyTokenIsNotAnHourlyRefill) {
  constexpr Micros kHour = 3'600'000'000;
  const TokenBucket rule = make_rule(10, 1, kHour);
  CoreBucket bucket;
  bucket.check(rule, 10, 0, 0, nullptr);
  EXPECT_EQ(bucket.peek(rule, 1, 2 * kHour, 0).remaining, 2);
}

}  // namespace
}  // namespace saqiya

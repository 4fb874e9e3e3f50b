// Shares of policies: rounded down, exact where the ranges have room for it.
#include "core/share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/support/limited.h"

namespace saqiya {
namespace {

__extension__ using Wide = __int128;

TokenBucket shared(std::string_view text, std::uint32_t share) {
  return share_of(test::policy_of(text), share).rules.front().bucket;
}

TEST(Share, OfTheWholeIsThePolicy) {
  const Policy policy = test::policy_of("5/s burst 20; 1000/day");
  const Policy same = share_of(policy, kWholeShare);
  EXPECT_EQ(same.text, policy.text);
  EXPECT_EQ(same.rules[0].bucket.capacity, 20);
  EXPECT_EQ(same.rules[1].bucket.tokens, policy.rules[1].bucket.tokens);
}

TEST(Share, LimitsAreRoundedDownButNotBelowOne) {
  EXPECT_EQ(shared("100/min", 250'000).capacity, 25);
  EXPECT_EQ(shared("99/min", 250'000).capacity, 24);
  EXPECT_EQ(shared("3/min", 250'000).capacity, 1);
  EXPECT_EQ(shared("100/min", 1).capacity, 1);
  EXPECT_EQ(shared("0/s", 250'000).capacity, 0);
  const Policy large = test::policy_of("fixed-window: 9007199254740991/day");
  EXPECT_EQ(share_of(large, 999'999).rules[0].limit, 9'007'190'247'541'736);
}

TEST(Share, RatesAreExact) {
  const TokenBucket quarter = shared("100/min", 250'000);
  EXPECT_EQ(quarter.tokens, 1U);
  EXPECT_EQ(quarter.period, 2'400'000);
  const TokenBucket third = shared("3/s", 333'333);
  EXPECT_EQ(third.tokens, 999'999U);
  EXPECT_EQ(third.period, 1'000'000'000'000);
}

TEST(Share, QueuesStayQueues) {
  const TokenBucket queue = shared("leaky-bucket: 10/s queue 50", 100'000);
  EXPECT_EQ(queue.capacity, 1);
  EXPECT_EQ(queue.queue, 5);
  EXPECT_EQ(queue.queue_wait.q, 5'000'000);
  EXPECT_EQ(shared("leaky-bucket: 10/s queue 5", 100'000).queue, 1);
  EXPECT_EQ(shared("10/s", 100'000).queue, 0);
}

TEST(Share, OfEveryOtherAlgorithm) {
  for (const char* text :
       {"fixed-window: 100/min", "sliding-window: 100/min", "sliding-log: 100/min",
        "calendar: 100/day", "concurrency: 100 ttl 30s"}) {
    const Policy policy = test::policy_of(text);
    EXPECT_EQ(share_of(policy, 250'000).rules[0].limit, 25) << text;
    EXPECT_EQ(share_of(policy, 1).rules[0].limit, 1) << text;
    EXPECT_EQ(share_of(policy, 250'000).rules[0].period, policy.rules[0].period) << text;
  }
  EXPECT_TRUE(share_of(test::policy_of("unlimited"), 1).is_unlimited());
}

// Never faster than the share, hardly slower, and always a rule that keeps the ranges.
TEST(Share, OfRandomBucketsIsNeverMore) {
  std::mt19937_64 random(7);
  const auto some = [&](std::int64_t most) {
    const auto bits = std::uniform_int_distribution<int>(0, 52)(random);
    const std::int64_t top = std::max<std::int64_t>(1, std::min(most, std::int64_t{1} << bits));
    return std::uniform_int_distribution<std::int64_t>(1, top)(random);
  };
  for (int i = 0; i < 200'000; ++i) {
    TokenBucket rule;
    std::string error;
    const std::int64_t tokens = some((std::int64_t{1} << 32) - 1);
    const Micros period = some(kMaxSpan);
    const std::int64_t queue = i % 3 == 0 ? some(kMaxCount) : 0;
    if (TokenBucket::make(some(kMaxCount), tokens, period, queue, &rule, &error) !=
        RangeFault::kNone) {
      continue;
    }
    const auto share = static_cast<std::uint32_t>(std::min<std::int64_t>(some(1'000'000), 999'999));
    Policy policy;
    policy.rules.resize(1);
    policy.rules[0].bucket = rule;
    const TokenBucket part = share_of(policy, share).rules[0].bucket;
    ASSERT_GE(part.capacity, 1);
    ASSERT_LE(part.capacity, std::max<Wide>(1, Wide{rule.capacity} * share / kWholeShare));
    ASSERT_LE(part.queue, std::max<Wide>(rule.queue > 0, Wide{rule.queue} * share / kWholeShare));
    ASSERT_LE(part.span.q, kMaxSpan);
    ASSERT_LE(part.queue_wait.q, kMaxSpan);
    ASSERT_LE(part.period, kMaxSpan);
    // part.tokens / part.period <= rule.tokens * share / (rule.period * 10^6), unless that is below
    // one in 2^50 us; and the times of one token differ by less than a millionth or a microsecond.
    const long double exact = static_cast<long double>(rule.period) * kWholeShare /
                              (static_cast<long double>(rule.tokens) * share);
    const long double time = static_cast<long double>(part.period) / part.tokens;
    if (exact >= static_cast<long double>(kMaxSpan)) {
      ASSERT_EQ(part.period, kMaxSpan);
      ASSERT_EQ(part.tokens, 1U);
      continue;
    }
    ASSERT_GE(time, exact * (1 - 1e-15L)) << rule.tokens << "/" << rule.period << " * " << share;
    if (part.tokens == (std::uint64_t{1} << 32) - 1) continue;  // there are no faster rules
    ASSERT_LE(time, exact * (1 + 2e-6L)) << rule.tokens << "/" << rule.period << " * " << share;
  }
}

}  // namespace
}  // namespace saqiya

// What is kept of a state is the state.
#include "core/memory_words.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace saqiya {
namespace {

Rule rule_of(Algorithm algorithm, Micros period = 1) {
  Rule rule;
  rule.algorithm = algorithm;
  rule.period = period;
  return rule;
}

void expect_same(const State& a, const State& b) {
  EXPECT_EQ(a.bucket, b.bucket);
  EXPECT_EQ(a.end, b.end);
  EXPECT_EQ(a.used, b.used);
  EXPECT_EQ(a.previous, b.previous);
  EXPECT_EQ(a.list, b.list);
}

TEST(MemoryWords, AnAbsentStateIsAbsentForAll) {
  for (const Algorithm algorithm :
       {Algorithm::kTokenBucket, Algorithm::kFixedWindow, Algorithm::kSlidingWindow,
        Algorithm::kSlidingLog, Algorithm::kCalendar, Algorithm::kConcurrency}) {
    const Rule rule = rule_of(algorithm);
    EXPECT_TRUE(to_words(rule, {}).is_absent());
    expect_same(to_state(rule, {}), {});
  }
}

TEST(MemoryWords, Buckets) {
  const Rule rule = rule_of(Algorithm::kTokenBucket);
  for (const BucketState& bucket :
       {BucketState{0, 0, 1}, {kMaxNow + 2 * kMaxSpan, 0, 1}, {77, UINT32_MAX - 1, UINT32_MAX}}) {
    State state;
    state.bucket = bucket;
    const Words words = to_words(rule, state);
    EXPECT_FALSE(words.is_wall());
    EXPECT_EQ(words.block(), nullptr);
    EXPECT_FALSE(words.is_dead(bucket.q - 1));
    EXPECT_EQ(words.is_dead(bucket.q), bucket.r == 0);
    EXPECT_TRUE(words.is_dead(bucket.q + 1));
    expect_same(to_state(rule, words), state);
  }
}

TEST(MemoryWords, FixedWindowsAndCalendars) {
  for (const Algorithm algorithm : {Algorithm::kFixedWindow, Algorithm::kCalendar}) {
    const Rule rule = rule_of(algorithm);
    for (const std::int64_t used : {std::int64_t{1}, std::int64_t{1} << 32, kMaxCount}) {
      for (const Micros end : {Micros{1}, kMaxNow, kMaxNow + kMaxSpan}) {
        State state;
        state.end = end;
        state.used = used;
        const Words words = to_words(rule, state);
        EXPECT_TRUE(words.is_wall());
        EXPECT_FALSE(words.is_dead(end - 1));
        EXPECT_TRUE(words.is_dead(end));
        expect_same(to_state(rule, words), state);
      }
    }
  }
}

TEST(MemoryWords, SlidingWindowsUnderAnyPeriod) {
  std::vector<Micros> periods = {1, 2, 3, 60'000'000, kMaxSpan - 1, kMaxSpan};
  for (const Micros written : periods) {
    for (const Micros end : {Micros{1}, kMaxNow, kMaxNow + kMaxSpan}) {
      for (const auto& [previous, used] : {std::pair{0, 1}, {1, 0}, {7, 9}}) {
        State state;
        state.end = end;
        state.previous = previous == 7 ? UINT32_MAX : previous;
        state.used = used == 9 ? UINT32_MAX : used;
        const Words words = to_words(rule_of(Algorithm::kSlidingWindow, written), state);
        EXPECT_TRUE(words.is_wall());
        EXPECT_FALSE(words.is_dead(end + written - 1));
        EXPECT_TRUE(words.is_dead(end + 2 * written));
        // Read under a rule of another period.
        for (const Micros read : periods) {
          expect_same(to_state(rule_of(Algorithm::kSlidingWindow, read), words), state);
        }
      }
    }
  }
}

TEST(MemoryWords, BlocksAndTheirWeight) {
  for (const Algorithm algorithm : {Algorithm::kSlidingLog, Algorithm::kConcurrency}) {
    const bool is_log = algorithm == Algorithm::kSlidingLog;
    const Rule rule = rule_of(algorithm, 1'000);
    State state;
    TimedList::add(&state.list, is_log ? TimedList::Kind::kLog : TimedList::Kind::kLeases, 0,
                   {5'000, 1, 77});
    const Words words = to_words(rule, state);
    EXPECT_FALSE(words.is_wall());
    EXPECT_EQ(words.block(), state.list);
    EXPECT_GE(words.block_weight() * 32, state.list->bytes());
    EXPECT_LT(words.block_weight() * 32, state.list->bytes() + 32);
    const Micros dead_at = is_log ? 6'000 : 5'000;
    EXPECT_FALSE(words.is_dead(dead_at - 1));
    EXPECT_TRUE(words.is_dead(dead_at));
    expect_same(to_state(rule, words), state);
    delete state.list;
  }
}

}  // namespace
}  // namespace saqiya

#include "core/time.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

namespace saqiya {
namespace {

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock(5);
  EXPECT_EQ(clock.monotonic(), 5);
  EXPECT_EQ(clock.wall(), 5);
  EXPECT_TRUE(clock.set(100));
  EXPECT_TRUE(clock.advance(-60));
  EXPECT_EQ(clock.monotonic(), 40);
  EXPECT_TRUE(clock.set_wall(7));
  EXPECT_EQ(clock.monotonic(), 40);
  EXPECT_EQ(clock.wall(), 7);
  EXPECT_TRUE(clock.advance(1));
  EXPECT_EQ(clock.monotonic(), 41);
  EXPECT_EQ(clock.wall(), 8);
}

TEST(ManualClock, RefusesReadingsOutsideTheRange) {
  ManualClock clock(0);
  EXPECT_TRUE(clock.set(kMaxNow));
  EXPECT_FALSE(clock.advance(1));
  EXPECT_FALSE(clock.set(kMaxNow + 1));
  EXPECT_FALSE(clock.set(-1));
  EXPECT_FALSE(clock.set_wall(-1));
  EXPECT_FALSE(clock.advance(std::numeric_limits<Micros>::max()));
  EXPECT_FALSE(clock.advance(std::numeric_limits<Micros>::min()));
  EXPECT_EQ(clock.monotonic(), kMaxNow);
  EXPECT_EQ(clock.wall(), kMaxNow);
  EXPECT_TRUE(clock.set_wall(3));
  EXPECT_FALSE(clock.advance(-4));  // the wall reading would leave its range
  EXPECT_EQ(clock.monotonic(), kMaxNow);
  EXPECT_TRUE(clock.advance(-3));
  EXPECT_EQ(clock.wall(), 0);
}

TEST(ManualClock, AdvancesOfManyThreadsAddUp) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 10'000;
  ManualClock clock(0);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kRounds; ++k) EXPECT_TRUE(clock.advance(1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clock.monotonic(), kThreads * kRounds);
  EXPECT_EQ(clock.wall(), kThreads * kRounds);
}

TEST(SystemClock, IsWithinTheRangesAndDoesNotGoBack) {
  Micros last = system_monotonic();
  EXPECT_GT(last, 0);
  for (int i = 0; i < 10'000; ++i) {
    const Micros now = system_monotonic();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_LT(last, kMaxNow);
  EXPECT_GT(system_wall(), 1'700'000'000'000'000);
  EXPECT_LT(system_wall(), kMaxNow);
}

}  // namespace
}  // namespace saqiya

// Many threads on one key and many: never more than capacity + rate * elapsed, nothing lost. To be
// run under ThreadSanitizer too. C32.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/limited.h"
#include "tests/support/sanitizers.h"

namespace saqiya {
namespace {

using test::Limited;
using test::MemorySetup;

constexpr int kThreads = 64;
constexpr int kTries = test::kSanitized ? 300 : 2'000;

void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(Threads, SixtyFourOnOneKeyAdmitExactlyWhatIsThere) {
  const MemorySetup setup;
  const Limited rate(setup.store, "1000/s burst 5000");
  std::atomic<std::int64_t> admitted{0};
  const auto hammer = [&](int) { admitted += rate.admitted("k", kTries); };
  in_threads(kThreads, hammer);
  EXPECT_EQ(admitted.load(), 5'000);
  ASSERT_TRUE(setup.clock->advance(3'000'000));
  in_threads(kThreads, hammer);
  EXPECT_EQ(admitted.load(), 8'000);
}

TEST(Threads, NothingIsLostWhileTheClockMoves) {
  constexpr int kSteps = 1'000;
  const MemorySetup setup;
  const Limited rate(setup.store, "1/ms burst 100");
  std::atomic<std::int64_t> admitted{0};
  std::atomic<bool> stop{false};
  std::thread clock([&] {
    for (int i = 0; i < kSteps; ++i) {
      ASSERT_TRUE(setup.clock->advance(1'000));
      std::this_thread::yield();
    }
    stop.store(true);
  });
  in_threads(8, [&](int) {
    while (!stop.load()) admitted += rate.admits("k") ? 1 : 0;
  });
  clock.join();
  // What nobody took while it ran is still there, up to the capacity.
  const std::int64_t left = rate.peek("k").remaining;
  EXPECT_LE(admitted.load() + left, 100 + kSteps);
  admitted += rate.admitted("k", 200);
  EXPECT_EQ(rate.peek("k").remaining, 0);
  EXPECT_LE(admitted.load(), 100 + kSteps);
  EXPECT_GE(admitted.load(), 100);
}

TEST(Threads, WithTheSystemsClockNeverMoreThanCapacityAndRate) {
  OpenError error;
  const std::shared_ptr<Store> store = open_store("memory://", {}, &error);
  const Limited rate(store, "1/ms burst 100");
  std::atomic<std::int64_t> admitted{0};
  const Micros start = system_monotonic();
  in_threads(kThreads, [&](int) { admitted += rate.admitted("k", kTries); });
  const Micros elapsed = system_monotonic() - start;
  EXPECT_LE(admitted.load(), 100 + elapsed / 1'000);
  EXPECT_GE(admitted.load(), 100);
}

TEST(Threads, FourADayIsFour) {  // C32
  const MemorySetup setup;
  const Limited rate(setup.store, "4/day");
  std::atomic<std::int64_t> admitted{0};
  in_threads(kThreads, [&](int) { admitted += rate.admitted("k", 20); });
  EXPECT_EQ(admitted.load(), 4);
}

TEST(Threads, RefundsOfManyThreadsAddUp) {
  const MemorySetup setup;
  const Limited rate(setup.store, "1000/h");
  std::atomic<std::int64_t> kept{0};
  in_threads(16, [&](int i) {
    for (int k = 0; k < 50; ++k) {
      Ticket ticket;
      if (rate.check("k", 1, 0, &ticket).outcome != Outcome::kAllowed) continue;
      if (i % 2 == 0) {
        EXPECT_EQ(rate.refund("k", &ticket).outcome, Outcome::kAllowed);
      } else {
        kept += 1;
      }
    }
  });
  EXPECT_EQ(kept.load(), 8 * 50);
  EXPECT_EQ(rate.peek("k").remaining, 1'000 - kept.load());
}

// Checks, sweeps, evictions, resets, refunds, statistics and changes of the limit, all at once.
TEST(Threads, EverythingAtOnceOnASmallTable) {
  const MemorySetup setup(500);
  std::atomic<bool> stop{false};
  std::vector<std::thread> background;
  background.emplace_back([&] {
    while (!stop.load()) {
      EXPECT_LE(setup.store->stats().keys, 500U);
      ASSERT_TRUE(setup.clock->advance(100));
      std::this_thread::yield();
    }
  });
  background.emplace_back([&] {
    const Limited rate(setup.store, "5/s", "shared");
    for (int i = 0; !stop.load(); ++i) rate.reset("key:" + std::to_string(i % 2'000));
  });
  in_threads(6, [&](int thread) {
    for (int i = 0; i < kTries * 5; ++i) {
      const Limited rate(setup.store, i % 2 == 0 ? "5/s" : "7/s burst 9", "shared");
      const std::string key = "key:" + std::to_string((i * 7 + thread) % 2'000);
      Ticket ticket;
      const Decision d = rate.check(key, 1 + i % 3, 0, &ticket);
      EXPECT_LE(d.remaining, d.limit);
      EXPECT_GE(d.remaining, 0);
      if (i % 5 == 0) rate.refund(key, &ticket);
    }
  });
  stop.store(true);
  for (std::thread& thread : background) thread.join();
}

}  // namespace
}  // namespace saqiya

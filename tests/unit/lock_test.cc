#include "core/lock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace saqiya {
namespace {

TEST(Lock, IsFourBytes) { EXPECT_EQ(sizeof(Lock), 4U); }

TEST(Lock, NoIncrementIsLost) {
  constexpr int kThreads = 16;
  constexpr int kRounds = 20'000;
  Lock lock;
  std::int64_t count = 0;  // guarded by lock
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kRounds; ++k) {
        const std::lock_guard guard(lock);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, std::int64_t{kThreads} * kRounds);
}

TEST(Lock, WaitersOfALongHoldAllGetTheirTurn) {
  constexpr int kThreads = 8;
  Lock lock;
  std::atomic<int> waiting{0};
  int entered = 0;  // guarded by lock
  std::vector<std::thread> threads;
  lock.lock();
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      waiting.fetch_add(1);
      const std::lock_guard guard(lock);
      ++entered;
    });
  }
  while (waiting.load() < kThreads) std::this_thread::yield();
  EXPECT_EQ(entered, 0);
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(entered, kThreads);
}

}  // namespace
}  // namespace saqiya

// Fork with other threads in the midst of the store: the child decides, from an empty table, and
// waits for no lock of its parent's. C130, C131.
#include "core/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/limiter.h"
#include "core/time.h"
#include "tests/support/limited.h"
#include "tests/support/sanitizers.h"

namespace saqiya {
namespace {

using test::Limited;
using test::MemorySetup;

// Runs body in a child; true when it returned true. A child that hangs is ended by its alarm.
bool in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body() ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

TEST(Fork, EachGenerationHasItsNumber) {
  watch_forks();
  const std::uint64_t mine = fork_generation();
  EXPECT_TRUE(in_child([&] {
    if (fork_generation() != mine + 1) return false;
    return in_child([&] { return fork_generation() == mine + 2; });
  }));
  EXPECT_EQ(fork_generation(), mine);
}

TEST(Fork, TheChildStartsEmptyAndTheParentGoesOn) {
  const MemorySetup setup;
  const Limited rate(setup.store, "10/h");
  EXPECT_EQ(rate.admitted("k", 7), 7);
  EXPECT_TRUE(in_child([&] {
    if (setup.store->stats().keys != 0) return false;
    if (rate.admitted("k", 20) != 10) return false;
    return in_child([&] { return rate.admitted("k", 20) == 10 && rate.admitted("k", 20) == 0; });
  }));
  EXPECT_EQ(rate.admitted("k", 20), 3);
}

TEST(Fork, ATicketOfTheParentsGivesNothingInTheChild) {
  const MemorySetup setup;
  const Limited rate(setup.store, "10/h");
  Ticket ticket;
  rate.check("k", 5, 0, &ticket);
  EXPECT_TRUE(in_child([&] {
    rate.check("k", 5);
    Ticket copy = ticket;
    return rate.refund("k", &copy).outcome == Outcome::kDenied && rate.peek("k").remaining == 5;
  }));
  EXPECT_EQ(rate.refund("k", &ticket).outcome, Outcome::kAllowed);
}

TEST(Fork, ATicketOfTheChildsGivesNothingInTheGrandchild) {
  const MemorySetup setup;
  const Limited rate(setup.store, "10/h");
  EXPECT_TRUE(in_child([&] {
    Ticket ticket;
    rate.check("k", 5, 0, &ticket);
    return in_child([&] {  // a grandchild; its table is not its parent's
      rate.check("k", 5);
      Ticket copy = ticket;
      return rate.refund("k", &copy).outcome == Outcome::kDenied;
    });
  }));
}

TEST(Fork, WhatTheParentSubmittedStaysTheParents) {
  const MemorySetup setup;
  const Limited rate(setup.store, "10/h");
  const std::unique_ptr<Queue> queue = setup.store->open_queue(setup.store, {});
  ASSERT_EQ(queue->submit(rate.request(Op::kCheck, "k"), 1), SubmitResult::kOk);
  EXPECT_TRUE(in_child([&] {
    Completion done[4];
    if (queue->pending() != 0 || queue->timeout() != -1 || queue->drain(done) != 0) return false;
    if (queue->submit(rate.request(Op::kCheck, "k"), 2) != SubmitResult::kOk) return false;
    return queue->drain(done) == 1 && done[0].user_data == 2;
  }));
  EXPECT_EQ(queue->pending(), 1U);
}

// With one shard and four threads its lock is held at nearly every moment. (Under AddressSanitizer
// there are none: its allocator, which they use, does not survive a fork.)
TEST(Fork, WhileOtherThreadsHoldTheLocks) {
  constexpr int kForks = 200;
  constexpr int kThreads = test::kAddressSanitized ? 0 : 4;
  const MemorySetup one_shard(64);
  const MemorySetup many_shards;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Limited in_one(one_shard.store, "1000000/s burst 9");
      const Limited in_many(many_shards.store, "1000000/s burst 9");
      for (unsigned k = 0; !stop.load(std::memory_order_relaxed); ++k) {
        const std::string key = std::to_string(i) + ":" + std::to_string(k % 10'000);
        in_one.check(key);
        in_many.check(key);
        if (k % 64 == 0) one_shard.store->stats();
      }
    });
  }
  const Limited in_one(one_shard.store, "10/h");
  const Limited in_many(many_shards.store, "10/h");
  const auto works = [&] {
    return one_shard.store->stats().keys == 0 && in_one.admitted("k", 20) == 10 &&
           in_many.admitted("k", 20) == 10;
  };
  int good = 0;
  for (int i = 0; i < kForks; ++i) {
    good += in_child([&] { return works() && (i % 10 != 0 || in_child(works)); }) ? 1 : 0;
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, kForks);
}

// A lock that is only taken within a hold is free in every child.
TEST(Fork, NoChildFindsALockTakenThatIsHeldInAHold) {
  constexpr int kForks = 200;
  ASSERT_TRUE(watch_forks());
  std::mutex mutex;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const ForkHold hold;
        const ForkHold nested;
        const std::lock_guard<std::mutex> lock(mutex);
      }
    });
  }
  int good = 0;
  for (int i = 0; i < kForks; ++i) {
    good += in_child([&] {
      if (!mutex.try_lock()) return false;
      mutex.unlock();
      { const ForkHold hold; }
      return in_child([] { return true; });
    });
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, kForks);
}

TEST(Fork, SeveralThreadsForkAtOnce) {
  ASSERT_TRUE(watch_forks());
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        { const ForkHold hold; }
        good += in_child([] {
          const ForkHold hold;
          return true;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 200);
}

// As the handler of a signal may.
TEST(Fork, WhoForksInAHoldDoesNotWaitForIt) {
  ASSERT_TRUE(watch_forks());
  const Micros start = system_monotonic();
  const ForkHold hold;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(in_child([] {
      const ForkHold nested;
      return in_child([] { return true; });
    }));
  }
  EXPECT_LT(system_monotonic() - start, 5 * kMicrosPerSecond)
      << "twenty forks waited for themselves";
}

TEST(Fork, AHoldWithoutEndDelaysAForkOnly) {
  ASSERT_TRUE(watch_forks());
  std::atomic<bool> held{false};
  std::atomic<bool> stop{false};
  std::thread holder([&] {
    const ForkHold hold;
    held = true;
    while (!stop) std::this_thread::yield();
  });
  while (!held) std::this_thread::yield();
  EXPECT_TRUE(in_child([] {
    const ForkHold hold;
    return in_child([] { return true; });
  }));
  stop = true;
  holder.join();
}

}  // namespace
}  // namespace saqiya

// Fork with other threads in the midst of the store: the child decides, from an empty table, and
// waits for no lock of its parent's. C130, C131.
#include "core/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/limiter.h"
#include "tests/support/limited.h"

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

// With one shard and four threads its lock is held at nearly every moment.
TEST(Fork, WhileOtherThreadsHoldTheLocks) {
  constexpr int kForks = 200;
  const MemorySetup one_shard(64);
  const MemorySetup many_shards;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
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

}  // namespace
}  // namespace saqiya

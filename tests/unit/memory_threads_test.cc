// Every algorithm and groups of them from many threads: never over a limit, nothing lost, nothing
// charged by a refusal. To be run under ThreadSanitizer too. C32.
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
constexpr int kTries = test::kSanitized ? 20 : 200;
constexpr const char* kKinds[] = {
    "", "fixed-window: ", "sliding-window: ", "sliding-log: ", "calendar: ", "concurrency: "};

std::string policy(const std::string& kind, int limit) {
  return kind + std::to_string(limit) + (kind == "concurrency: " ? " ttl 1d" : "/day");
}

void in_threads(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

bool all_admitted(const std::vector<Item>& items) {
  Request request;
  request.items = items;
  Answer answer;
  items[0].limiter->store().execute(request, &answer);
  return answer.decision.outcome == Outcome::kAllowed;
}

TEST(MemoryThreads, FourADayIsFour) {
  for (const char* kind : kKinds) {
    const MemorySetup setup;
    const Limited rate(setup.store, policy(kind, 4));
    std::atomic<std::int64_t> admitted{0};
    in_threads([&](int) { admitted += rate.admitted("k", 20); });
    EXPECT_EQ(admitted.load(), 4) << kind;
  }
}

TEST(MemoryThreads, AllThatIsThereOnOneKeyAndMany) {
  for (const char* kind : kKinds) {
    const MemorySetup setup;
    const Limited rate(setup.store, policy(kind, 500));
    std::atomic<std::int64_t> shared{0};
    std::atomic<std::int64_t> own{0};
    in_threads([&](int thread) {
      for (int i = 0; i < kTries; ++i) {
        shared += rate.admits("k") ? 1 : 0;
        own += rate.admits("user:" + std::to_string(thread)) ? 1 : 0;
      }
    });
    EXPECT_EQ(shared.load(), std::min(kThreads * kTries, 500)) << kind;
    EXPECT_EQ(own.load(), kThreads * kTries) << kind;
  }
}

TEST(MemoryThreads, GroupsOverSharedAndDifferentKeys) {
  const MemorySetup setup;
  std::vector<Limited> users;
  std::vector<Limited> globals;
  for (const char* kind : kKinds) {
    users.emplace_back(setup.store, policy(kind, 5), "user" + std::to_string(users.size()));
    globals.emplace_back(setup.store, policy(kind, 100), "all" + std::to_string(globals.size()));
  }
  std::vector<std::atomic<int>> admitted(users.size());
  in_threads([&](int thread) {
    const std::string key = "user:" + std::to_string(thread);
    for (int i = 0; i < kTries; ++i) {
      const std::size_t k = static_cast<std::size_t>(thread + i) % users.size();
      const std::size_t other = (k + 1) % users.size();
      std::vector<Item> items = {{&globals[k].limiter(), "all", 1},
                                 {&users[k].limiter(), key, 1},
                                 {&globals[other].limiter(), "none", 0}};
      // In any order: shards are taken in one.
      if (i % 2 == 0) std::swap(items[0], items[1]);
      admitted[k] += all_admitted(items) ? 1 : 0;
    }
  });
  for (std::size_t k = 0; k < users.size(); ++k) {
    EXPECT_LE(admitted[k].load(), 100) << kKinds[k];
    // What was refused has charged nothing anywhere.
    EXPECT_EQ(globals[k].peek("all").remaining, 100 - admitted[k].load()) << kKinds[k];
    std::int64_t of_users = 0;
    for (int t = 0; t < kThreads; ++t) {
      of_users += 5 - users[k].peek("user:" + std::to_string(t)).remaining;
    }
    EXPECT_EQ(of_users, admitted[k].load()) << kKinds[k];
    EXPECT_GT(admitted[k].load(), 50) << kKinds[k];
  }
}

// Acquired and released by all: at no moment more than the limit.
TEST(MemoryThreads, NeverMoreLeasesThanThereAre) {
  const MemorySetup setup;
  const Limited rate(setup.store, "concurrency: 7 ttl 1h");
  std::atomic<int> held{0};
  std::atomic<int> got{0};
  in_threads([&](int) {
    for (int i = 0; i < kTries; ++i) {
      Ticket ticket;
      if (rate.check("k", 1, 0, &ticket).outcome != Outcome::kAllowed) continue;
      EXPECT_LE(held.fetch_add(1) + 1, 7);
      ++got;
      std::this_thread::yield();
      held.fetch_sub(1);
      EXPECT_EQ(rate.refund("k", &ticket).outcome, Outcome::kAllowed);
    }
  });
  EXPECT_GE(got.load(), 7);
  EXPECT_EQ(rate.peek("k").remaining, 7);
}

// Checks, groups, growing logs, sweeps, evictions, resets and statistics, all at once.
TEST(MemoryThreads, EverythingAtOnceOnASmallTable) {
  const MemorySetup setup(500);
  std::atomic<bool> stop{false};
  std::thread background([&] {
    while (!stop.load()) {
      EXPECT_LE(setup.store->stats().keys, 500U + 64 * 4);  // those that were asked for just now
      ASSERT_TRUE(setup.clock->advance(100));
      std::this_thread::yield();
    }
  });
  const Limited rates[] = {
      Limited(setup.store, "5/s"),
      Limited(setup.store, "fixed-window: 50/s"),
      Limited(setup.store, "sliding-log: 50/s"),
      Limited(setup.store, "concurrency: 50 ttl 1s"),
      Limited(setup.store, "10/s; sliding-log: 100/min; sliding-window: 1000/h"),
  };
  in_threads([&](int thread) {
    for (int i = 0; i < kTries * 3; ++i) {
      const Limited& rate = rates[(thread + i) % 5];
      const std::string key = "key:" + std::to_string(i * 7 % 300);
      Ticket ticket;
      const Decision d = rate.check(key, 1 + i % 3, 0, &ticket);
      EXPECT_LE(d.remaining, d.limit);
      EXPECT_GE(d.remaining, 0);
      if (i % 5 == 0 && ticket.n != 0) rate.refund(key, &ticket);
      if (i % 50 == 0) rate.reset(key);
    }
  });
  stop.store(true);
  background.join();
}

}  // namespace
}  // namespace saqiya

// Threads, processes and forks on one server.
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/redis/child.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

// C31: 8 processes of 8 threads on one key admit exactly the capacity.
TEST(RedisProcess, EightProcessesOfEightThreadsAreExact) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "500/h", "exact");
  std::vector<pid_t> children;
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  for (int i = 0; i < 8; ++i) {
    children.push_back(in_child([&] {
      std::atomic<int> admitted{0};
      std::atomic<int> failed{0};
      std::vector<std::thread> threads;
      for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
          for (int n = 0; n < 312; ++n) {
            const Outcome result = outcome(check(*limiter, "one"));
            admitted += result == Outcome::kAllowed ? 1 : 0;
            failed += result == Outcome::kUnavailable ? 1 : 0;
          }
        });
      }
      for (std::thread& t : threads) t.join();
      const int count = admitted;
      return ::write(pipes[1], &count, sizeof count) == sizeof count && failed == 0 ? 0 : 1;
    }));
  }
  int total = 0;
  for (const pid_t child : children) {
    EXPECT_EQ(exit_code(child), 0);
    int count = 0;
    ASSERT_EQ(::read(pipes[0], &count, sizeof count), static_cast<ssize_t>(sizeof count));
    total += count;
  }
  ::close(pipes[0]);
  ::close(pipes[1]);
  EXPECT_EQ(total, 500);
}

TEST(RedisProcess, QueuesOfManyThreadsAreExact) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "1000/h");
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      auto queue = open_queue(store);
      for (std::uint64_t i = 0; i < 2000; ++i) queue->submit(check(*limiter, "one"), i);
      for (const Completion& c : collect(*queue, 2000)) {
        admitted += c.decision.outcome == Outcome::kAllowed ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(admitted, 1000);
}

// C130: children make connections of their own; the parent's goes on undisturbed.
TEST(RedisFork, NoReplyReachesTheWrongProcess) {
  RedisServer server;
  Client plain = server.client();
  StoreOptions options = patient();
  options.connections = 1;
  const auto store = open(server.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 300000", "f");
  ASSERT_EQ(outcome(check(*limiter, "warm")), Outcome::kAllowed);
  auto queue = open_queue(store);
  queue->submit(check(*limiter, "warm"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  const auto run = [&](int nonce) {
    // The cost is the nonce: whose answer it is shows in what remains.
    for (int i = 1; i <= 1000; ++i) {
      const std::string key = std::to_string(nonce) + ":" + std::to_string(i);
      if (ask(check(*limiter, key, nonce)).decision.remaining != 300'000 - nonce) return 1;
      queue->submit(check(*limiter, key, nonce), static_cast<std::uint64_t>(i));
      const auto all = collect(*queue, 1);
      if (all.size() != 1 || all[0].user_data != static_cast<std::uint64_t>(i)) return 2;
      if (all[0].decision.remaining != 300'000 - 2 * nonce) return 3;
    }
    return 0;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(in_child([&] { return run(100 + i); }));
  }
  EXPECT_EQ(run(99), 0);
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
  // The parent still has the two connections it had: one of the pool, one of the queue.
  EXPECT_EQ(store->stats().connects, 2U);
}

TEST(RedisFork, InheritedRequestsStayTheParents) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "100/h", "i");
  auto queue = open_queue(store);
  queue->submit(check(*limiter, "warm"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  queue->submit(check(*limiter, "drained"), 1);
  queue->process();
  queue->submit(check(*limiter, "sent"), 2);
  queue->process();
  queue->submit(check(*limiter, "waiting"), 3);
  const int parents_fd = queue->fd();
  const pid_t child = in_child([&] {
    if (queue->pending() != 0 || queue->timeout() != -1) return 1;
    queue->process();
    Completion c;
    if (queue->drain({&c, 1}) != 0) return 2;
    if (queue->fd() < 0) return 3;
    queue->submit(check(*limiter, "childs"), 9);
    const auto all = collect(*queue, 1);
    if (all.size() != 1 || all[0].user_data != 9) return 4;
    return all[0].decision.outcome == Outcome::kAllowed ? 0 : 5;
  });
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_EQ(queue->fd(), parents_fd);
  const auto all = collect(*queue, 3);
  ASSERT_EQ(all.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all[i].user_data, i + 1);
    EXPECT_EQ(all[i].decision.outcome, Outcome::kAllowed);
  }
  EXPECT_EQ(server.client().keys().size(), 5U);
}

TEST(RedisFork, AChildThatOnlyExitsDisturbsNobody) {
  RedisServer server;
  auto store = open(server.url(), patient());
  auto limiter = make_limiter(store, "1/h burst 1000", "x");
  auto queue = open_queue(store);
  for (int i = 0; i < 20; ++i) {
    queue->submit(check(*limiter, "u"), 0);
    queue->process();
    const pid_t child = in_child([&] {
      if (i % 2 == 0) {
        queue.reset();
        limiter.reset();
        store.reset();
      }
      return 0;
    });
    EXPECT_EQ(exit_code(child), 0);
    const auto all = collect(*queue, 1);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].decision.remaining, 999 - i);
  }
  EXPECT_EQ(store->stats().connects, 1U);
}

// C131: forks while threads are inside the store, some of them holding its lock.
TEST(RedisFork, ForksUnderLoadDoNotHang) {
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 3;  // fewer than threads: some wait on the lock
  const auto store = open(server.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 300000");
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreadsBesideForks; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) {
        failed += outcome(check(*limiter, std::to_string(t))) == Outcome::kAllowed ? 0 : 1;
      }
    });
  }
  int bad = 0;
  for (int i = 0; i < kForks / 5; ++i) {
    const pid_t child = in_child([&] {
      for (int n = 0; n < 3; ++n) {
        if (outcome(check(*limiter, "child")) != Outcome::kAllowed) return 1;
      }
      return 0;
    });
    bad += exit_code(child) == 0 ? 0 : 1;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(failed, 0);
}

// A descriptor that the child frees is the parent's, too.
TEST(RedisProcess, AChildThatFreesAQueueDisturbsNobody) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "100/h", "fork");
  auto queue = store->open_queue(store, {});
  queue->submit(check(*limiter, "u"), 1);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  EXPECT_EQ(exit_code(in_child([&] {
              queue.reset();
              return 0;
            })),
            0);
  queue->submit(check(*limiter, "u"), 2);
  queue->process();
  pollfd p{queue->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 10'000), 1) << "the reply came, but the loop is not told";
  EXPECT_EQ(collect(*queue, 1).size(), 1U);
}

// The server takes one connection of four: the threads share it, and nobody is refused.
TEST(RedisProcess, ConnectionsThatCannotBeMadeDrawNoRequests) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "1000000/s", "pool");
  ASSERT_EQ(outcome(check(*limiter, "warm")), Outcome::kAllowed);
  auto client = server.client();
  client({"CONFIG", "SET", "maxclients", "2"});
  // One may find out that there are no more.
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int n = 0; n < 300; ++n) {
        refused += outcome(check(*limiter, "u")) == Outcome::kUnavailable ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_LE(refused, 6);
}

}  // namespace
}  // namespace saqiya::testing

// Threads that share connections: one drives, the others ride.
#include <signal.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"
#include "tests/redis/proxy.h"

namespace saqiya::testing {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;

// Runs body(0) ... body(count - 1), each in a thread of its own.
template <typename Body>
void in_threads(int count, Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& t : threads) t.join();
}

TEST(RedisThreads, OneKeyIsExact) {
  RedisServer server;
  for (const std::uint32_t connections : {1U, 4U}) {
    StoreOptions options = patient();
    options.connections = connections;
    const auto store = open(server.unix_url(), options);
    const auto limiter = make_limiter(store, "1000/h", "exact" + std::to_string(connections));
    std::atomic<int> allowed{0};
    std::atomic<int> denied{0};
    in_threads(64, [&](int) {
      for (int n = 0; n < 50; ++n) {
        const Outcome result = outcome(check(*limiter, "one"));
        allowed += result == Outcome::kAllowed ? 1 : 0;
        denied += result == Outcome::kDenied ? 1 : 0;
      }
    });
    EXPECT_EQ(allowed, 1000);
    EXPECT_EQ(denied, 64 * 50 - 1000);
    EXPECT_LE(store->stats().connects, connections);
  }
}

// What those ask who share a connection travels together.
TEST(RedisThreads, ThoseWhoShareAConnectionShareBatches) {
  constexpr std::uint64_t kThreads = 64;
  constexpr std::uint64_t kChecks = 500;
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 1;
  const auto store = open(server.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 300000", "shared");
  std::atomic<std::uint64_t> allowed{0};
  in_threads(kThreads, [&](int t) {
    const std::string key = std::to_string(t);
    for (std::uint64_t n = 0; n < kChecks; ++n) {
      allowed += outcome(check(*limiter, key)) == Outcome::kAllowed ? 1 : 0;
    }
  });
  EXPECT_EQ(allowed, kThreads * kChecks);
  const StoreStats stats = store->stats();
  EXPECT_EQ(stats.connects, 1U);
  EXPECT_EQ(stats.requests, kThreads * kChecks);
  EXPECT_LT(stats.batches, stats.requests / 2);
}

// What one thread asks is answered with what it asked, under limiters of every kind.
TEST(RedisThreads, RequestsOfSeveralLimitersShareAFlight) {
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 1;
  const auto store = open(server.url(), options);
  const auto unlimited = make_limiter(store, "unlimited", "u");
  std::atomic<int> wrong{0};
  in_threads(16, [&](int t) {
    const std::string name = "t" + std::to_string(t);
    const std::int64_t burst = 100'000 + t;
    const auto bucket = make_limiter(store, "1/h burst " + std::to_string(burst), name + "b");
    const auto rules =
        make_limiter(store, "1/h burst " + std::to_string(burst) + "; 200000/day", name + "r");
    const auto window =
        make_limiter(store, "fixed-window: " + std::to_string(burst) + "/day", name + "w");
    for (int n = 1; n <= 100; ++n) {
      const std::string key = "k" + std::to_string(n);
      for (const auto& limiter : {bucket, rules, window}) {
        const Decision d = ask(check(*limiter, key, n)).decision;
        wrong += d.outcome == Outcome::kAllowed && d.remaining == burst - n ? 0 : 1;
      }
      wrong += outcome(check(*unlimited, key)) == Outcome::kAllowed ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store->stats().connects, 1U);
}

// Each ends at its own deadline, the driver's too, and none of the others notices.
TEST(RedisThreads, DeadlinesEndEachForItself) {
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 1;
  const auto store = open(server.url(), options);
  const auto calm = make_limiter(store, "1/h burst 1000", "calm");
  ASSERT_EQ(outcome(check(*calm, "warm")), Outcome::kAllowed);
  for (int round = 0; round < 3; ++round) {
    server.client()({"CLIENT", "PAUSE", "700"});
    std::atomic<int> wrong{0};
    in_threads(24, [&](int t) {
      if (t % 3 == 0) {
        ask(check(*calm, "warm"));
        return;
      }
      // Those that come first are impatient, so that the driver is likely to be one of them.
      std::this_thread::sleep_for(std::chrono::milliseconds(t));
      const bool hasty = t % 3 == 1;
      const Micros deadline = hasty ? 30'000 + 5'000 * t : 20 * kSecond;
      const auto limiter = make_limiter(store, "1/h burst 1000", "d", deadline);
      const std::string key = std::to_string(round) + ":" + std::to_string(t);
      const Micros start = system_monotonic();
      const Decision d = ask(check(*limiter, key, t + 1)).decision;
      if (hasty) {
        const bool late = d.reason == Reason::kTimeout || d.reason == Reason::kBusy;
        wrong += late && system_monotonic() - start >= deadline ? 0 : 1;
      } else {
        wrong += d.outcome == Outcome::kAllowed && d.remaining == 1000 - (t + 1) ? 0 : 1;
      }
    });
    EXPECT_EQ(wrong, 0);
  }
  EXPECT_EQ(store->stats().connects, 1U) << "somebody's deadline cost the others their connection";
}

// A limiter may be freed as soon as its request has ended, even when the reply is still to come.
TEST(RedisThreads, LimitersMayGoBeforeTheReplyComes) {
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 1;
  auto store = open(server.url(), options);
  const auto calm = make_limiter(store, "1/h burst 100000", "calm");
  ASSERT_EQ(outcome(check(*calm, "warm")), Outcome::kAllowed);
  in_threads(8, [&](int t) {
    for (int n = 0; n < 20; ++n) {
      if (t == 0) {
        server.client()({"CLIENT", "PAUSE", "20"});
        EXPECT_EQ(outcome(check(*calm, "calm")), Outcome::kAllowed);
      } else {
        const std::string policy = t % 2 == 0 ? "1/h burst 9000" : "1/h burst 9000; 900/min";
        make_limiter(store, policy, "gone" + std::to_string(t));
        ask(check(*make_limiter(store, policy, "gone" + std::to_string(t), 1'000), "u"));
      }
    }
  });
}

TEST(RedisThreads, AStoreWhoseLastRequestTimedOutGoesWithItsOwner) {
  FakeServer silent([](const Command&) { return stay_silent(); });
  auto store = open(silent.url());
  const std::weak_ptr<Store> gone = store;
  for (int n = 0; n < 3; ++n) {
    EXPECT_EQ(outcome(check(*make_limiter(store, "9/h", "", 2'000), "u")), Outcome::kUnavailable);
  }
  store.reset();
  EXPECT_TRUE(gone.expired());
}

// More than a queue takes, from several threads at once.
TEST(RedisThreads, ManyAtOnceAreAllDecidedInOrder) {
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 1;
  const auto store = open(server.unix_url(), options);
  const auto limiter = make_limiter(store, "1/h burst 100000", "many");
  std::atomic<int> wrong{0};
  in_threads(4, [&](int t) {
    const std::string key = std::to_string(t);
    const std::vector<Request> requests(10'000, check(*limiter, key));
    std::vector<Answer> answers(requests.size());
    store->execute_many(requests, answers);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const bool right = answers[i].decision.remaining == 100'000 - static_cast<int>(i) - 1;
      wrong += right ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, 0);
}

// Those who find no room in the queue end in their time, too.
TEST(RedisThreads, ManyAtOnceEndWhenTheServerIsSilent) {
  FakeServer silent([](const Command&) { return stay_silent(); });
  StoreOptions options;
  options.deadline = 100'000;
  options.connections = 1;
  const auto store = open(silent.url(), options);
  const auto limiter = make_limiter(store, "9/h");
  std::atomic<int> wrong{0};
  in_threads(3, [&](int) {
    const std::vector<Request> requests(5'000, check(*limiter, "u"));
    std::vector<Answer> answers(requests.size());
    store->execute_many(requests, answers);
    for (const Answer& a : answers) wrong += a.decision.reason != Reason::kNone ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

// Connections are killed under 16 threads. Each check has one answer; what was allowed was charged
// once, and what was charged without an answer is no more than what was said to be in doubt.
TEST(RedisThreads, KilledConnectionsLoseNobody) {
  RedisServer server;
  for (const std::uint32_t connections : {1U, 3U}) {
    Proxy proxy(server.socket_path());
    StoreOptions options = patient();
    options.connections = connections;
    const auto store = open(proxy.url(), options);
    const auto limiter =
        make_limiter(store, "1/h burst 300000", "kill" + std::to_string(connections));
    std::atomic<bool> stop{false};
    std::atomic<int> allowed{0};
    std::atomic<int> lost{0};
    std::thread killer([&] {
      for (int n = 0; n < 40; ++n) {
        const int before = allowed;
        while (allowed < before + 50) std::this_thread::yield();
        if (n % 2 == 0) proxy.cut_next_after(Proxy::kNoLimit, 400 + 100 * n);
        proxy.cut_all();
      }
      stop = true;
    });
    in_threads(16, [&](int t) {
      const std::string key = std::to_string(t);
      while (!stop) {
        const Decision d = ask(check(*limiter, key)).decision;
        if (d.outcome == Outcome::kAllowed) {
          ++allowed;
        } else if (d.reason == Reason::kConnect) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));  // never sent
        } else {
          ++lost;
        }
      }
    });
    killer.join();
    const auto direct = open(server.unix_url(), patient());
    const auto same =
        make_limiter(direct, "1/h burst 300000", "kill" + std::to_string(connections));
    std::int64_t charged = 0;
    for (int t = 0; t < 16; ++t) {
      charged += 300'000 - ask(peek(*same, std::to_string(t))).decision.remaining;
    }
    EXPECT_GE(charged, allowed);
    EXPECT_LE(charged, allowed + lost);
  }
}

// A signal ends no wait, neither the driver's nor that of who rides.
TEST(RedisThreads, SignalsDoNotEndWaits) {
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 1;
  const auto store = open(server.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 1000", "s");
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  static std::atomic<int> handled{0};
  struct sigaction action {};  // without SA_RESTART
  action.sa_handler = [](int) { ++handled; };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  server.client()({"CLIENT", "PAUSE", "300"});
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
      ++done;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (int n = 0; n < 10 && done == 0; ++n) {
    for (std::thread& t : threads) ::pthread_kill(t.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(handled, 0);
  sigaction(SIGUSR1, &before, nullptr);
}

// A limiter that nobody owns cannot be held for the time of its requests: submitting it throws.
// Whoever rides with that thread, or waits for it to drive, goes on.
TEST(RedisThreads, AnExceptionLosesNobody) {
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 1;
  const auto store = open(server.unix_url(), options);
  const auto limiter = make_limiter(store, "1/h burst 300000", "e");
  Policy policy;
  PolicyError error;
  ASSERT_TRUE(parse_policy("1/h burst 300000", &policy, &error));
  const Limiter unowned(store, policy, "e", 0);
  std::atomic<int> wrong{0};
  std::atomic<int> thrown{0};
  in_threads(16, [&](int t) {
    const std::string key = (t % 4 == 0 ? "torn" : "whole") + std::to_string(t);
    for (int n = 1; n <= 200; ++n) {
      if (t % 4 == 0) {
        std::vector<Request> requests(20, check(*limiter, key));
        requests.back().limiter = &unowned;
        std::vector<Answer> answers(requests.size());
        try {
          store->execute_many(requests, answers);
        } catch (const std::bad_weak_ptr&) {
          ++thrown;
        }
      } else {
        const Decision d = ask(check(*limiter, key)).decision;
        wrong += d.remaining == 300'000 - n ? 0 : 1;
      }
    }
  });
  EXPECT_EQ(thrown, 4 * 200);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace saqiya::testing

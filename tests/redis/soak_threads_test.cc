// C66 with threads: each with a queue, and others that block, share a store whose connections are
// killed; queues are closed, requests cancelled. Every request that was not cancelled completes
// exactly once, and the server has charged what was allowed, and no more than what may have been.
#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "tests/redis/certificates.h"
#include "tests/redis/fixture.h"
#include "tests/redis/proxy.h"
#include "tests/redis/soak_queue.h"

namespace saqiya::testing {
namespace {

constexpr int kThreads = 4;  // of each kind
constexpr std::uint32_t kKeys = 20;
constexpr std::int64_t kBurst = 300'000;

std::string key_of(std::uint32_t i) { return "k" + std::to_string(i); }

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// What became of checks, each of cost 1.
struct Outcomes {
  std::atomic<std::int64_t> allowed{0};
  std::atomic<std::int64_t> in_doubt{0};  // may have been charged

  // False when the server is away: then there is no hurry.
  bool count(const Decision& d) {
    EXPECT_TRUE(d.outcome == Outcome::kAllowed || d.outcome == Outcome::kUnavailable);
    if (d.outcome == Outcome::kAllowed) {
      ++allowed;
    } else if (is_certainly_undone(d.reason)) {
      return false;
    } else {
      ++in_doubt;
    }
    return true;
  }
};

// One thread's queue.
class Queuer : public SoakQueue {
 public:
  Queuer(const Limiter& limiter, Outcomes* outcomes, std::uint32_t seed)
      : SoakQueue(limiter.shared_store(), seed), limiter_(limiter), outcomes_(*outcomes) {}

 private:
  void next() override { submit(check(limiter_, key_of(below(kKeys)))); }
  void completed(const Completion& completion) override {
    if (!outcomes_.count(completion.decision)) pause();
  }
  void cancelled() override { ++outcomes_.in_doubt; }

  const Limiter& limiter_;
  Outcomes& outcomes_;
};

// events: of all threads. disturb: kills something; the number is random.
void soak(const RedisServer& server, const std::string& url, int events,
          const std::function<void(std::uint32_t)>& disturb) {
  constexpr int kBlocking = 20;  // of so many events one is a check that waits
  constexpr std::int64_t kBetween = 20;
  Outcomes outcomes;
  const std::string policy = "1/h burst " + std::to_string(kBurst);
  const auto limiter = make_limiter(open(url, patient()), policy, "soak");
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Queuer(*limiter, &outcomes, static_cast<std::uint32_t>(t + 1)).run(events / kThreads);
      --running;
    });
    threads.emplace_back([&, t] {
      for (int i = 0; i < events / kThreads / kBlocking; ++i) {
        const std::string key = key_of(static_cast<std::uint32_t>(t + i) % kKeys);
        if (!outcomes.count(ask(check(*limiter, key)).decision)) pause();
      }
    });
  }
  std::minstd_rand random(7);
  std::int64_t seen = -1;
  while (running > 0) {
    // Not again before something was decided, however long a machine takes to connect.
    if (outcomes.allowed > seen) {
      disturb(static_cast<std::uint32_t>(random()));
      seen = outcomes.allowed + kBetween;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (std::thread& t : threads) t.join();
  const auto direct = make_limiter(open(server.unix_url(), patient()), policy, "soak");
  std::int64_t charged = 0;
  for (std::uint32_t i = 0; i < kKeys; ++i) {
    charged += kBurst - ask(peek(*direct, key_of(i))).decision.remaining;
  }
  EXPECT_GT(outcomes.allowed, events / 100);
  EXPECT_GE(charged, outcomes.allowed);
  EXPECT_LE(charged, outcomes.allowed + outcomes.in_doubt);
}

TEST(RedisSoakOfThreads, QueuesAndBlockingCallers) {
  RedisServer server;
  Proxy proxy(server.socket_path());
  Client plain = server.client();
  soak(server, proxy.url(), 100'000, [&](std::uint32_t random) {
    const std::int64_t bytes = 1 + random / 8 % 40'000;
    switch (random % 8) {
      case 0:
        return proxy.cut_all();
      case 1:
        return proxy.cut_next_after(bytes, Proxy::kNoLimit);
      case 2:
        return proxy.cut_next_after(Proxy::kNoLimit, bytes);
      case 3:
        plain({"SCRIPT", "FLUSH"});
        return;
      default:
        return;
    }
  });
}

TEST(RedisSoakOfThreads, QueuesAndBlockingCallersOverTls) {
  ServerOptions options;
  options.tls = true;
  RedisServer server(options);
  Client plain = server.client();
  soak(server, server.tls_url("", "?ca=" + certificates().ca), 30'000, [&](std::uint32_t random) {
    if (random % 8 == 0) plain({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    if (random % 8 == 1) plain({"SCRIPT", "FLUSH"});
  });
}

}  // namespace
}  // namespace saqiya::testing

// Threads that share connections to a server that falls silent, or refuses a further connection:
// the server is used again.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;

std::vector<std::thread> start(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  return threads;
}

void join(std::vector<std::thread> threads) {
  for (std::thread& t : threads) t.join();
}

// Many threads at once, until a second connection has been tried for: so many share one no longer.
void crowd(const Limiter& limiter, const std::function<bool()>& until) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads = start(100, [&](int t) {
    const std::string key = "crowd" + std::to_string(t);
    while (!stop) ask(check(limiter, key));
  });
  const Micros give_up = system_monotonic() + 20 * kSecond;
  while (!until() && system_monotonic() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  join(std::move(threads));
}

// The driver's deadline passes, so it gives its seat to a rider, whose own deadline is about to
// pass, too: another one, awake before it, ends it. The seat must not go with it.
TEST(RedisFlights, TheSeatIsNotLostWithARiderThatAnotherOneEnds) {
  constexpr int kThreads = 48;
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 1;
  const auto store = open(server.unix_url(), options);
  const auto after = make_limiter(store, "1/h burst 1000", "after", 5 * kSecond);
  std::vector<std::shared_ptr<Limiter>> limiters;
  for (int i = 0; i < kThreads; ++i) {
    limiters.push_back(make_limiter(store, "1/h burst 1000", "during", 10'000 + i % 7 * 40));
  }
  for (int round = 1; round <= 30; ++round) {
    ASSERT_EQ(ask(check(*after, "u")).decision.remaining, 1000 - round) << round;
    server.stop();
    join(start(kThreads, [&](int t) {
      EXPECT_EQ(outcome(check(*limiters[static_cast<std::size_t>(t)], "u")), Outcome::kUnavailable);
    }));
    server.go_on();
  }
}

// A connection on which nothing was heard while the server was silent is not kept for those who
// come when the server is back.
TEST(RedisFlights, AServerThatFellSilentUnderTwoConnectionsIsUsedAgain) {
  RedisServer server;
  StoreOptions options;
  options.deadline = 200'000;
  const auto store = open(server.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 300000", "two");
  crowd(*limiter, [&] { return store->stats().connects >= 2; });
  ASSERT_GE(store->stats().connects, 2U);
  ASSERT_EQ(ask_until_up(check(*limiter, "u")).outcome, Outcome::kAllowed);
  server.stop();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kUnavailable);
  server.go_on();
  ASSERT_EQ(ask_until_up(check(*limiter, "u")).outcome, Outcome::kAllowed);
  const auto calm = make_limiter(store, "1/h burst 300000", "calm", 5 * kSecond);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(outcome(check(*calm, "u")), Outcome::kAllowed);
}

// The server takes no further connection, but those that it has work.
TEST(RedisFlights, AFurtherConnectionThatIsRefusedDegradesNothingForLong) {
  RedisServer server({"--maxclients", "2"});
  Client plain = server.client();
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "1/h burst 300000", "one");
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  const auto rejected = [&] { return plain.info("rejected_connections") != "0"; };
  crowd(*limiter, rejected);
  ASSERT_TRUE(rejected());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  }
  EXPECT_EQ(store->stats().degraded, 0U);
}

}  // namespace
}  // namespace saqiya::testing

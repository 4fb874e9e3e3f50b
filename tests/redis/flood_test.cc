// C151: a flood of requests that are refused does not reach the server.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/redis/fixture.h"
#include "tests/support/sanitizers.h"

namespace saqiya::testing {
namespace {

std::uint64_t script_calls(const RedisServer& server) {
  Client plain = server.client();
  std::uint64_t calls = 0;
  for (const char* command : {"cmdstat_eval", "cmdstat_evalsha"}) {
    const std::string info = plain.info(command);
    if (!info.empty()) calls += std::stoull(info.substr(info.find('=') + 1));
  }
  return calls;
}

constexpr Micros kSecond = kMicrosPerSecond;
constexpr std::uint64_t kThreads = 16;

// What threads that ask for one key all the time were told, and what it cost.
struct Flood {
  std::atomic<std::uint64_t> allowed{0};
  std::atomic<std::uint64_t> wrong{0};  // neither allowed nor refused for as long as may be
  std::uint64_t calls = 0;              // of the script
  std::uint64_t requests = 0;           // that travelled in them
  std::uint64_t cached = 0;
  Micros time = 0;

  void run(const RedisServer& server, Store& store, const Limiter& limiter, std::uint64_t checks,
           Micros longest) {
    const Micros start = system_monotonic();
    const std::uint64_t calls_before = script_calls(server);
    const StoreStats before = store.stats();
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        for (std::uint64_t i = 0; i < checks / kThreads; ++i) {
          const Decision d = ask(check(limiter, "u")).decision;
          if (d.outcome == Outcome::kAllowed) {
            ++allowed;
          } else if (d.outcome != Outcome::kDenied || d.retry_after <= 0 ||
                     d.retry_after > longest) {
            ++wrong;
          }
        }
      });
    }
    for (std::thread& t : threads) t.join();
    const StoreStats after = store.stats();
    calls = script_calls(server) - calls_before;
    requests = after.requests - before.requests;
    cached = after.cached - before.cached;
    time = system_monotonic() - start;
  }
};

// C151: a thread that was refused does not ask again within the second that its answer is
// remembered, though others write theirs down at that moment.
TEST(RedisFlood, OneDeniedKeyOfManyThreads) {
  constexpr std::uint64_t kChecks = test::kSanitized ? 200'000 : 1'000'000;
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "1/h burst 1", "flood");
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  Flood flood;
  flood.run(server, *store, *limiter, kChecks, 3600 * kSecond);
  EXPECT_EQ(flood.wrong, 0U);
  EXPECT_EQ(flood.allowed, 0U);
  EXPECT_LE(flood.calls, flood.requests + store->stats().connects);
  EXPECT_LE(flood.requests, kThreads * (1 + static_cast<std::uint64_t>(flood.time / kSecond)));
  EXPECT_EQ(flood.cached + flood.requests, kChecks);
}

// When the time to try again has come each thread asks, early by as long as the request whose
// answer is remembered was on its way; who was too early asks again, early by as long as that one
// was, and so on: mostly once or twice, so four times is far more. Who comes when the time has
// passed is let through.
TEST(RedisFlood, ThreadsThatWaitForTheirTime) {
  constexpr Micros kRetry = 500'000;
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "2/s burst 1", "flood");
  const Micros start = system_monotonic();
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  Flood flood;
  std::uint64_t requests = 0;
  while (flood.allowed < 3 && system_monotonic() - start < 20 * kSecond) {
    flood.run(server, *store, *limiter, 32'000, kRetry);
    EXPECT_EQ(flood.wrong, 0U);
    EXPECT_EQ(flood.cached + flood.requests, 32'000U);
    requests += flood.requests;
  }
  const auto intervals = static_cast<std::uint64_t>((system_monotonic() - start) / kRetry);
  EXPECT_GE(flood.allowed, 3U);
  EXPECT_LE(flood.allowed, intervals + 1);
  EXPECT_LE(requests, 4 * kThreads * (1 + intervals));
  // Memory's idea of the server's clock may be ahead by as long as a request was on its way, so
  // what it tells may be too short. It does not refuse for longer; then the server tells.
  Decision d = ask(check(*limiter, "u")).decision;
  for (const Source source : {Source::kCache, Source::kStore}) {
    if (d.outcome != Outcome::kDenied || d.source != source) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(d.retry_after + 5'000));
    d = ask(check(*limiter, "u")).decision;
    EXPECT_NE(d.source, Source::kCache) << d.retry_after;
  }
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
}

}  // namespace
}  // namespace saqiya::testing

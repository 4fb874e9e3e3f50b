// C151: a flood of requests that are refused does not reach the server.
#include <atomic>
#include <cstdlib>
#include <thread>

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

// C151: each thread may ask the server until the first refusal is remembered. When the time to try
// again has passed each may ask once more, and again who was let through or came too early by a
// hair; whoever asks in between is refused from memory. Who comes when it has passed is let
// through.
TEST(RedisFlood, OneDeniedKeyOfManyThreads) {
  constexpr std::uint64_t kThreads = 16;
  constexpr std::uint64_t kChecks = (test::kSanitized ? 200'000 : 1'000'000) / kThreads;
  constexpr Micros kRetry = 500'000;
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "2/s burst 1", "flood");
  const Micros start = system_monotonic();
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  const std::uint64_t calls_before = script_calls(server);
  const StoreStats before = store->stats();
  std::atomic<std::uint64_t> allowed{0};
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < kChecks; ++i) {
        const Decision d = ask(check(*limiter, "u")).decision;
        if (d.outcome == Outcome::kAllowed) {
          ++allowed;
        } else if (d.outcome != Outcome::kDenied || d.retry_after <= 0 || d.retry_after > kRetry) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  const StoreStats after = store->stats();
  const auto intervals = static_cast<std::uint64_t>((system_monotonic() - start) / kRetry);
  const std::uint64_t most = kThreads * (1 + 3 * (intervals + 1));
  EXPECT_EQ(wrong, 0U);
  EXPECT_LE(allowed, intervals + 1);
  EXPECT_LE(script_calls(server) - calls_before, most);
  EXPECT_LE(after.requests - before.requests, most);
  EXPECT_EQ(after.cached - before.cached + after.requests - before.requests, kThreads * kChecks);
  // Memory's idea of the server's clock may be ahead by as long as the server was kept waiting, so
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

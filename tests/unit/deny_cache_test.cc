// The deny cache never refuses what the server would let through: against the ordinary step at the
// server's true time, over random rules, states, costs, waits and clocks; and by many threads.
#include "core/redis/deny_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/memory_store.h"
#include "tests/support/limited.h"

namespace saqiya::redis {
namespace {

constexpr Micros kLife = DenyCache::kLife;

// Makes limiters whose subjects are hashed as a Redis store has it.
class CachingStore final : public Store {
 public:
  explicit CachingStore(DenyCache& cache) : cache_(cache) {}
  bool is_local() const override { return false; }
  Micros deadline() const override { return 100'000; }
  Binding bind(std::string_view identity) const override {
    Binding binding;
    binding.hash_key = cache_.key_of(identity);
    return binding;
  }
  void execute(const Request&, Answer*) override { FAIL(); }
  void execute_many(std::span<const Request>, std::span<Answer>) override { FAIL(); }
  std::unique_ptr<Queue> open_queue(const std::shared_ptr<Store>&, const QueueOptions&) override {
    return nullptr;
  }
  StoreStats stats() const override { return {}; }
  bool remembers_denials() const override { return true; }

 private:
  DenyCache& cache_;
};

Request request_of(const Limiter& limiter, std::int64_t cost, Micros max_wait = 0) {
  Request request;
  request.limiter = &limiter;
  request.cost = cost;
  request.max_wait = max_wait;
  return request;
}

class DenyCacheTest : public ::testing::Test {
 protected:
  DenyCacheTest() { cache_.set_secret({1, 2}); }

  std::shared_ptr<Limiter> make(Policy policy, bool deny_cache = true) {
    LimiterOptions options;
    options.name = "t";
    options.deny_cache = deny_cache;
    return std::make_shared<Limiter>(store_, std::move(policy), std::move(options));
  }
  std::shared_ptr<Limiter> make(std::string_view policy, bool deny_cache = true) {
    return make(test::policy_of(policy), deny_cache);
  }
  bool refuses(const Limiter& limiter, std::string_view key, Micros now, std::int64_t cost = 1) {
    Answer answer;
    return cache_.find(request_of(limiter, cost), key, now, &answer);
  }

  DenyCache cache_;
  std::shared_ptr<Store> store_ = std::make_shared<CachingStore>(cache_);
  // This machine's clock, and the server's.
  static constexpr Micros kNow = 5'000'000'000;
  static constexpr Micros kServer = 1'800'000'000'000'000;
};

TEST_F(DenyCacheTest, ARefusalIsRememberedAsItIs) {
  const auto limiter = make("1/s burst 10");
  EXPECT_TRUE(cache_.is_empty());
  EXPECT_FALSE(refuses(*limiter, "k", kNow));
  // Empty: full again in 10 s.
  cache_.remember(*limiter, "k", {kServer + 10'000'000, 0}, kServer, kNow);
  Answer answer;
  ASSERT_TRUE(cache_.find(request_of(*limiter, 1), "k", kNow + 100'000, &answer));
  const Decision& d = answer.decision;
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.source, Source::kCache);
  EXPECT_EQ(d.limit, 10);
  EXPECT_EQ(d.remaining, 0);
  EXPECT_NEAR(static_cast<double>(d.retry_after), 900'000, 200);
  EXPECT_NEAR(static_cast<double>(d.reset_after), 9'900'000, 200);
  EXPECT_TRUE(refuses(*limiter, "k", kNow + 500'000, 10));
  EXPECT_FALSE(refuses(*limiter, "k", kNow + 500'000, 11)) << "never: the server is to say that";
  EXPECT_FALSE(refuses(*limiter, "k", kNow + 500'000, 0));
  EXPECT_FALSE(refuses(*limiter, "other", kNow + 500'000));
  EXPECT_EQ(cache_.hits(), 2U);
}

TEST_F(DenyCacheTest, WaitsAreHeeded) {
  const auto limiter = make("1/s burst 1");
  cache_.remember(*limiter, "k", {kServer + 1'000'000, 0}, kServer, kNow);
  Answer answer;
  EXPECT_TRUE(cache_.find(request_of(*limiter, 1, 800'000), "k", kNow, &answer));
  EXPECT_FALSE(cache_.find(request_of(*limiter, 1, 1'000'000), "k", kNow, &answer));
}

// Between a look at the clock and one into the cache the refusal may have been sent for and come.
TEST_F(DenyCacheTest, NobodyIsToldToWaitForLongerThanTheServerSaid) {
  const auto limiter = make("1/s burst 1");
  cache_.remember(*limiter, "k", {kServer + 1'000'000, 0}, kServer, kNow);
  Answer answer;
  ASSERT_TRUE(cache_.find(request_of(*limiter, 1), "k", kNow - 200'000, &answer));
  EXPECT_LE(answer.decision.retry_after, 1'000'000);
  EXPECT_GE(answer.decision.retry_after, 999'990);
}

TEST_F(DenyCacheTest, NothingIsRememberedForLongerThanASecond) {
  const auto limiter = make("1/h");
  cache_.remember(*limiter, "k", {kServer + 3'600'000'000, 0}, kServer, kNow);
  EXPECT_TRUE(refuses(*limiter, "k", kNow + kLife - 1));
  EXPECT_FALSE(refuses(*limiter, "k", kNow + kLife));
}

TEST_F(DenyCacheTest, WhatIsGivenBackHereIsSeenAtOnce) {
  const auto limiter = make("1/h");
  const Fraction full_at{kServer + 3'600'000'000, 0};
  cache_.remember(*limiter, "k", full_at, kServer, kNow);
  cache_.remember(*limiter, "other", full_at, kServer, kNow);
  cache_.forget(*limiter, "k", kNow + 10);
  EXPECT_FALSE(refuses(*limiter, "k", kNow + 20));
  EXPECT_TRUE(refuses(*limiter, "other", kNow + 20));
  // The late answer to what was sent before that tells of a state that is no more.
  cache_.remember(*limiter, "k", full_at, kServer, kNow + 5);
  EXPECT_FALSE(refuses(*limiter, "k", kNow + 20));
  cache_.remember(*limiter, "k", full_at, kServer, kNow + 11);
  EXPECT_TRUE(refuses(*limiter, "k", kNow + 20));
  // An older answer that comes later changes nothing.
  cache_.remember(*limiter, "k", {kServer, 0}, kServer, kNow + 10);
  EXPECT_TRUE(refuses(*limiter, "k", kNow + 20));
}

// The reset overtook the very first refusal, on another connection.
TEST_F(DenyCacheTest, WhatIsGivenBackBeforeAnythingIsRememberedIsSeenToo) {
  const auto limiter = make("1/h");
  const Fraction full_at{kServer + 3'600'000'000, 0};
  cache_.forget(*limiter, "k", kNow + 10);
  EXPECT_TRUE(cache_.is_empty());
  cache_.remember(*limiter, "k", full_at, kServer, kNow + 5);
  EXPECT_FALSE(refuses(*limiter, "k", kNow + 20));
  cache_.remember(*limiter, "k", full_at, kServer, kNow + 11);
  EXPECT_TRUE(refuses(*limiter, "k", kNow + 20));
}

TEST_F(DenyCacheTest, LimitersThatGiveBackDoNotRemember) {
  const auto limiter = make("1/h");
  cache_.remember(*limiter, "k", {kServer + 3'600'000'000, 0}, kServer, kNow);
  limiter->stop_remembering_denials();
  EXPECT_FALSE(refuses(*limiter, "k", kNow));
  const auto never = make("1/h", false);
  EXPECT_FALSE(refuses(*never, "k", kNow));
  for (const char* other : {"1/h; 1/day", "fixed-window: 1/h", "unlimited"}) {
    EXPECT_FALSE(make(other)->remembers_denials()) << other;
  }
}

// 100,000 keys: none hides another's refusal falsely, the newest are all there.
TEST_F(DenyCacheTest, IsBoundedAndKeepsTheNewest) {
  const auto limiter = make("1/h");
  constexpr int kKeys = 100'000;
  for (int i = 0; i < kKeys; ++i) {
    cache_.remember(*limiter, "k" + std::to_string(i), {kServer + 3'600'000'000, 0}, kServer,
                    kNow + i);
  }
  int found = 0;
  for (int i = 0; i < kKeys; ++i) found += refuses(*limiter, "k" + std::to_string(i), kNow + kKeys);
  EXPECT_LE(found, static_cast<int>(DenyCache::kEntries));
  EXPECT_GT(found, static_cast<int>(DenyCache::kEntries) * 9 / 10);
  int newest = 0;
  for (int i = kKeys - 1000; i < kKeys; ++i) {
    newest += refuses(*limiter, "k" + std::to_string(i), kNow + kKeys);
  }
  EXPECT_GT(newest, 990);
}

// The server's clock at an instant of this machine's: some offset, and slewed a little.
struct ServerClock {
  Micros offset;
  double slew;
  Micros base;
  Micros at(double local) const {
    return static_cast<Micros>(std::floor((local - static_cast<double>(base)) * (1 + slew))) +
           base + offset;
  }
};

TEST_F(DenyCacheTest, NeverRefusesWhatTheServerWouldAdmit) {
  std::mt19937_64 random(20261130);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  std::vector<std::shared_ptr<Limiter>> limiters;
  while (limiters.size() < 500) {
    RuleSpec spec;
    spec.capacity = between(1, 40);
    spec.tokens = limiters.size() % 2 == 0 ? 1 : between(2, 50);
    spec.period = between(1, 4'000'000);
    spec.queue = between(0, 3) == 0 ? between(1, 10) : 0;
    Policy policy;
    PolicyError error;
    if (make_policy({&spec, 1}, &policy, &error)) limiters.push_back(make(std::move(policy)));
  }
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  for (int i = 0; i < 3'000'000; ++i) {
    const Limiter& limiter = *limiters[static_cast<std::size_t>(i) % limiters.size()];
    const TokenBucket& rule = limiter.bucket();
    const double slew = static_cast<double>(between(-500, 500)) / 1e6;
    const double flushed =
        static_cast<double>(kNow + i * 3 * kLife) + static_cast<double>(between(0, 999)) / 1000;
    const ServerClock server{kServer + between(-1'000'000, 1'000'000), slew,
                             static_cast<Micros>(flushed)};
    // The request is refused at the server some time after it was sent.
    const double decided = flushed + static_cast<double>(between(0, 3'000'000)) / 1000;
    const Micros server_now = server.at(decided);
    const std::int64_t first_cost = between(1, rule.capacity);
    const Charge first = make_charge(rule, first_cost, 0);
    BucketState state;
    state.n = rule.tokens;
    state.q = server_now + between(0, rule.span.q + rule.queue_wait.q + 1'000);
    state.r = static_cast<std::uint32_t>(between(0, rule.tokens - 1));
    const Fraction over = step(first, rule.tokens, server_now, true, &state);
    if (!Units<false>::positive(over)) continue;
    Decision refused;
    decide(rule, first_cost, first, over, true, &refused);
    const std::string key = "k" + std::to_string(i % 1000);
    // As the engine has it: rounded up to the microsecond.
    cache_.remember(limiter, key, {server_now + refused.reset_after, 0}, server_now,
                    static_cast<Micros>(std::floor(flushed)));
    // Another request for the key, around the instant at which it would be let through.
    const std::int64_t cost = between(0, 2) == 0 ? between(1, rule.capacity) : first_cost;
    const Micros max_wait = between(0, 3) == 0 ? between(1, 500'000) : 0;
    const Charge charge = make_charge(rule, cost, max_wait);
    const Fraction left = step(charge, rule.tokens, server_now, true, &state);
    double later = decided;
    if (between(0, 3) > 0) {
      later += static_cast<double>(left.q) * (1 - slew) +
               static_cast<double>(between(-5000, 5000)) / 1000;
    } else {
      later += static_cast<double>(between(0, kLife));
    }
    if (later < decided) continue;
    Answer answer;
    const auto now = static_cast<Micros>(std::floor(later));
    if (!cache_.find(request_of(limiter, cost, max_wait), key, now, &answer)) {
      ++misses;
      continue;
    }
    ++hits;
    const Fraction truly = step(charge, rule.tokens, server.at(later), true, &state);
    ASSERT_TRUE(Units<false>::positive(truly))
        << "case " << i << ": " << truly.q << " us early, cost " << cost << " wait " << max_wait;
    ASSERT_EQ(answer.decision.outcome, Outcome::kDenied);
    ASSERT_GT(answer.decision.retry_after, 0);
    ASSERT_LE(answer.decision.retry_after, Units<false>::ceil(truly) + 1);
  }
  EXPECT_GT(hits, 100'000);
  EXPECT_GT(misses, 100'000);
}

// Writers of two kinds of state for one key, by which a torn entry would show; and readers.
TEST_F(DenyCacheTest, ManyThreads) {
  const auto limiter = make("1/s burst 1000");
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> torn{0};
  std::atomic<std::uint64_t> found{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (Micros i = 1; i <= 30'000; ++i) {
        const std::string key = "k" + std::to_string(i % 7);
        // Both say that it is full 1,000 s from kNow, in clocks that are an hour apart.
        const Micros server = kServer + t * 3'600'000'000;
        cache_.remember(*limiter, key, {server + 1'000'000'000, 0}, server, kNow + i);
        if (i % 50 == 0) cache_.forget(*limiter, key, kNow + i + 1);
      }
    });
  }
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = static_cast<std::uint64_t>(t); !done; ++i) {
        Answer answer;
        const std::string key = "k" + std::to_string(i % 7);
        if (!cache_.find(request_of(*limiter, 1), key, kNow + 30'001, &answer)) continue;
        ++found;
        const Micros reset = answer.decision.reset_after;
        if (reset < 1'000'000'000 - 40'000 || reset > 1'000'000'000) ++torn;
      }
    });
  }
  for (std::size_t t = 0; t < 3; ++t) threads[t].join();
  done = true;
  for (std::size_t t = 3; t < 6; ++t) threads[t].join();
  EXPECT_EQ(torn, 0U);
  Answer answer;
  EXPECT_TRUE(cache_.find(request_of(*limiter, 1), "k1", kNow + 30'001, &answer));
}

// What is refused stays refused while its refusal is written down again.
TEST_F(DenyCacheTest, IsThereWhileItIsWritten) {
  const auto limiter = make("1/s burst 1000");
  const Fraction full_at{kServer + 1'000'000'000, 0};
  cache_.remember(*limiter, "k", full_at, kServer, kNow);
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> missed{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      while (!done) missed += refuses(*limiter, "k", kNow + 100'000) ? 0 : 1;
    });
  }
  for (Micros i = 1; i <= 10'000; ++i) {
    cache_.remember(*limiter, "k", full_at, kServer, kNow + i);
    // Not so often that a reader never sees it rest.
    for (int k = 0; k < 20; ++k) {
      cache_.remember(*limiter, std::to_string(k), full_at, kServer, kNow + i);
    }
  }
  done = true;
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(missed, 0U);
}

}  // namespace
}  // namespace saqiya::redis

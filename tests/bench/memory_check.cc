// What a check in the process costs, beside the parts it cannot do without: the same keyed hash, a
// bare flat_hash_map find and one clock read. 10,000 keys of 20 bytes, one thread.
// tests/bench/run interleaves the repetitions and takes medians.
#include <absl/container/flat_hash_map.h>
#include <benchmark/benchmark.h>
#include <saqiya/saqiya.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "core/siphash.h"
#include "core/time.h"
#include "core/token_bucket.h"

namespace {

constexpr std::size_t kKeys = 10'000;

const std::vector<std::string>& keys() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    for (std::size_t i = 0; i < kKeys; ++i) {
      char text[32];
      std::snprintf(text, sizeof text, "user:%015zu", i);
      made.emplace_back(text);
    }
    return made;
  }();
  return all;
}

// The same cheap pseudo-random walk over the keys in every benchmark.
const std::string& next_key(std::uint32_t* x) {
  *x = *x * 1664525 + 1013904223;
  return keys()[(*x >> 8) % kKeys];
}

struct TakeLow {
  std::size_t operator()(const saqiya::Hash128& h) const { return h.lo; }
};

void parts(benchmark::State& state) {
  const saqiya::SipKey secret{1, 2};
  absl::flat_hash_map<saqiya::Hash128, saqiya::BucketState, TakeLow> map;
  for (const std::string& key : keys()) map[saqiya::keyed_hash(secret, key)] = {1, 0, 1};
  std::uint32_t x = 1;
  for (auto _ : state) {
    const auto found = map.find(saqiya::keyed_hash(secret, next_key(&x)));
    benchmark::DoNotOptimize(found->second.q + saqiya::system_monotonic());
  }
}

class Limiter {
 public:
  explicit Limiter(const char* policy) {
    if (saqiya_store_open("memory://", nullptr, &store_, nullptr) != SAQIYA_OK ||
        saqiya_limiter_create(store_, policy, nullptr, &limiter_, nullptr) != SAQIYA_OK) {
      std::abort();
    }
    for (const std::string& key : keys()) take(key);
  }
  ~Limiter() {
    saqiya_limiter_free(limiter_);
    saqiya_store_free(store_);
  }
  Limiter(const Limiter&) = delete;
  Limiter& operator=(const Limiter&) = delete;

  std::int64_t take(const std::string& key) {
    return saqiya_limiter_take(limiter_, key.data(), key.size(), 1);
  }
  saqiya_decision check(const std::string& key) {
    saqiya_decision d;
    saqiya_limiter_check(limiter_, key.data(), key.size(), 1, &d, nullptr);
    return d;
  }

 private:
  saqiya_store* store_ = nullptr;
  saqiya_limiter* limiter_ = nullptr;
};

void check(benchmark::State& state, const char* policy) {
  Limiter limiter(policy);
  std::uint32_t x = 1;
  for (auto _ : state) benchmark::DoNotOptimize(limiter.check(next_key(&x)));
}

void take(benchmark::State& state, const char* policy) {
  Limiter limiter(policy);
  std::uint32_t x = 1;
  for (auto _ : state) benchmark::DoNotOptimize(limiter.take(next_key(&x)));
}

BENCHMARK(parts);
BENCHMARK_CAPTURE(check, allowed, "1000/h burst 100000000");
BENCHMARK_CAPTURE(check, denied, "1/h");
// Every check finds the bucket full again: the slowest kind, it also reclaims dead neighbours.
BENCHMARK_CAPTURE(check, idle, "1000000/s");
BENCHMARK_CAPTURE(take, allowed, "1000/h burst 100000000");

// The other algorithms: allowed, or refused by what is full.
BENCHMARK_CAPTURE(check, fixed_window, "fixed-window: 100000000/day");
BENCHMARK_CAPTURE(check, sliding_window, "sliding-window: 100000000/day");
BENCHMARK_CAPTURE(check, calendar, "calendar: 100000000/day");
BENCHMARK_CAPTURE(check, sliding_log_denied, "sliding-log: 1/day");
BENCHMARK_CAPTURE(check, concurrency_denied, "concurrency: 1 ttl 1d");
BENCHMARK_CAPTURE(check, two_rules, "1000/s burst 100000000; fixed-window: 100000000/day");

// Full logs of 100 entries each.
void check_full_logs(benchmark::State& state) {
  Limiter limiter("sliding-log: 100/day");
  for (int i = 1; i < 100; ++i) {
    for (const std::string& key : keys()) limiter.take(key);
  }
  std::uint32_t x = 1;
  for (auto _ : state) benchmark::DoNotOptimize(limiter.check(next_key(&x)));
}
BENCHMARK(check_full_logs);

// One log of some 100 entries, of which one goes as one comes.
void check_rolling_log(benchmark::State& state) {
  Limiter limiter("sliding-log: 1000000/25us");
  const std::string& key = keys()[0];
  for (auto _ : state) benchmark::DoNotOptimize(limiter.check(key));
}
BENCHMARK(check_rolling_log);

}  // namespace

// What a Redis store was opened with, and what its queues and flights share: counters, breakers,
// events, refusals that are remembered.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>

#include "core/failure.h"
#include "core/redis/breaker.h"
#include "core/redis/deny_cache.h"
#include "core/redis/endpoint.h"
#include "core/redis/events.h"
#include "core/redis/tls.h"
#include "core/store.h"
#include "core/time.h"

namespace saqiya::redis {

struct Counters {
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> batches{0};
  std::atomic<std::uint64_t> connects{0};
  // Checks that the server answered.
  std::atomic<std::uint64_t> allowed{0};
  std::atomic<std::uint64_t> denied{0};
  // Requests by how long their answers took: see saqiya_store_stats.
  std::array<std::atomic<std::uint64_t>, StoreStats::kLatencies> latency{};

  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
    counter.fetch_add(by, std::memory_order_relaxed);
  }
  // The server's answer to a request of the caller's.
  void count_answer(Op op, Outcome outcome) {
    if (op != Op::kCheck || outcome == Outcome::kUnavailable) return;
    add(outcome == Outcome::kAllowed ? allowed : denied, 1);
  }
  // A batch of so many requests was answered so long after it had been sent.
  void count_latency(Micros took, std::uint64_t count) {
    const auto units = static_cast<std::uint64_t>(std::max<Micros>(0, took - 1)) / 64;
    const auto slot = static_cast<std::size_t>(std::bit_width(units));
    add(latency[std::min(slot, latency.size() - 1)], count);
  }
};

struct Config {
  Endpoint endpoint;
  Micros deadline = 100'000;
  std::string prefix;
  std::string secret;
  bool hash_subjects = false;
  bool testing = false;          // batches carry the clock's reading, keys live an hour or longer
  std::shared_ptr<Clock> clock;  // testing only; null: the system's
  std::uint32_t connections = 4;
  std::string nameservers;  // "address:port, ..."; empty: the system's, as always but in tests
  mutable Counters counters;
  mutable TlsContexts tls;
  mutable Breaker breaker;    // of the server, where there is one
  mutable Breakers breakers;  // of the servers of a cluster
  mutable Failover failover;
  mutable Events events{failover.counters().failures};
  mutable DenyCache deny_cache;
};

}  // namespace saqiya::redis

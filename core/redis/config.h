// What a Redis store was opened with, and its counters; shared by its queues.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/decision.h"
#include "core/time.h"

namespace saqiya::redis {

// Where the server is and how to log in.
struct Endpoint {
  bool local = false;  // a Unix socket at `path`, else TCP to host:port
  std::string host;    // without brackets
  std::uint16_t port = 6379;
  std::string path;
  bool has_password = false;
  std::string user;  // empty: the default user
  std::string password;
  std::uint32_t database = 0;
};

struct Counters {
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> batches{0};
  std::atomic<std::uint64_t> connects{0};
  std::atomic<std::uint64_t> failures{0};

  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
    counter.fetch_add(by, std::memory_order_relaxed);
  }
};

// When the server may be tried again. Shared, so that a server that is down is tried by one
// connection of the process at a time, however many there are.
struct BackOff {
  std::atomic<Micros> retry_at{0};  // no opening before this
  std::atomic<int> failures{0};     // openings that failed in a row
  std::atomic<Reason> reason{Reason::kConnect};
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
  mutable BackOff back_off;
};

}  // namespace saqiya::redis

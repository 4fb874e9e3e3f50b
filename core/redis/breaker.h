// Whether a server is worth waiting for. While its breaker is closed requests wait for a
// connection; while it is open they are answered without the server at once, and one connection of
// the process at a time is tried in the background, for ever, until one is answered.
//
// Lock-free, so that it survives a fork whatever other threads were doing. In a child it is closed:
// what the parent found may be long ago, and children may live for a few requests only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/decision.h"
#include "core/fork.h"
#include "core/redis/endpoint.h"
#include "core/time.h"

namespace saqiya::redis {

class Breaker {
 public:
  // No opening in the background may take longer.
  static constexpr Micros kLongestProbe = 1'000'000;
  // The longest pause between two of them; shorter than a second, so that within one second of its
  // return a server is used again.
  static constexpr Micros kLongestPause = 950'000;

  bool is_open() const { return open_.load(std::memory_order_acquire) == fork_generation(); }
  // Open, due, and nobody else is at it: the caller makes one attempt to connect, which it ends by
  // failed(), succeeded() or give_up(). Returns the claim to that; 0: it has none.
  std::uint64_t try_claim(Micros now);
  // The attempt comes to no end: somebody else may make one. Nothing when the claim has expired.
  void give_up(std::uint64_t claim);
  // An opening failed, or the server said that it can serve nobody: opens, or, if this is the
  // attempt that was claimed, lets more time pass before the next one: up to 10 ms, doubling to
  // just below a second. True when it was closed.
  bool failed(Reason reason, Micros now, std::uint64_t claim = 0);
  // The server fell silent: opens, but an attempt may be made at once. True when it was closed.
  bool fell_silent(Reason reason, Micros now);
  // A new connection was answered: closes. True when it was open.
  bool succeeded(Micros now);

  // Of the failure that opened it, or the newest since.
  Reason reason() const { return reason_.load(std::memory_order_relaxed); }
  // The next attempt, when open.
  Micros retry_at() const { return retry_at_.load(std::memory_order_relaxed); }
  // When somebody could next make one, if the one that is being made comes to nothing.
  Micros next_attempt() const;
  // When it fell silent last: connections that have heard nothing since are as suspect.
  Micros silent_at() const { return silent_at_.load(std::memory_order_relaxed); }

 private:
  bool open(Reason reason, Micros retry_at);

  std::atomic<std::uint64_t> open_{0};  // the fork generation that opened it; 0: closed
  std::atomic<int> failures_{0};        // in a row
  std::atomic<Reason> reason_{Reason::kConnect};
  std::atomic<Micros> retry_at_{0};
  std::atomic<std::uint64_t> claim_{0};  // 0: nobody is trying; see claim_until()
  std::atomic<Micros> closed_at_{0};
  std::atomic<Micros> silent_at_{0};
};

// Those of the servers of a cluster, by a hash of the address. Servers come and go, so there is a
// place for more than any cluster has; when it is full, or two have one hash, servers share one.
class Breakers {
 public:
  Breaker* of(const Place& server);
  // Servers that are not among these are none of the cluster any more, so they are not down either:
  // closes theirs. Returns how many were open.
  std::size_t keep_only(const std::vector<Place>& servers, Micros now);

 private:
  struct Entry {
    std::atomic<std::uint64_t> server{0};  // the hash; 0: free
    Breaker breaker;
  };

  std::array<Entry, 128> entries_;
};

}  // namespace saqiya::redis

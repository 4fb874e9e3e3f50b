// The connections that blocking callers share: flights, each of which carries any number of threads
// at once. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "core/lock.h"
#include "core/redis/flight.h"
#include "core/store.h"

namespace saqiya::redis {

inline constexpr std::uint32_t kMaxConnections = 64;

class Pool {
 public:
  explicit Pool(std::shared_ptr<const Config> config);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Decides all, in order. A request ends at its limiter's deadline at the latest, counted from
  // here or, of more than fit into a queue, from when it gets there.
  void execute(std::span<const Request> requests, std::span<Answer> answers);

  std::uint64_t generation() const { return generation_; }
  // In a child after fork: closes the copies of descriptors, without a byte to anyone and without
  // touching a lock. The pool is then to be left where it is, for a thread may have been inside.
  void abandon();

 private:
  Flight* choose();
  Flight* grow(std::uint32_t from);
  void nudge(Flight& flight, std::span<const Request> requests, Micros now);
  void fail(std::span<const Request> requests, Reason reason, std::span<Answer> answers);

  const std::shared_ptr<const Config> config_;
  const std::uint64_t generation_;
  Lock growing_;
  std::atomic<std::uint32_t> made_{0};  // flights_ up to here are there; written under growing_
  std::array<std::atomic<Flight*>, kMaxConnections> flights_{};
  std::atomic<Micros> grow_at_{0};    // no further connections before
  std::atomic<Micros> nudged_at_{0};  // the last nudge
};

}  // namespace saqiya::redis

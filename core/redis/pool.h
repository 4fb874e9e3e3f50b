// The connections that blocking callers share: each borrows a queue, drives it until its own
// requests are done, and puts it back. Thread-safe.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/redis/engine.h"
#include "core/store.h"

namespace saqiya::redis {

inline constexpr std::uint32_t kMaxConnections = 64;

class Pool {
 public:
  explicit Pool(std::shared_ptr<const Config> config);

  // Decides all, in order. A request ends at its limiter's deadline at the latest, counted from
  // here or, of more than fit into a queue, from when it gets there.
  void execute(std::span<const Request> requests, std::span<Answer> answers);

  std::uint64_t generation() const { return generation_; }
  // In a child after fork: closes the copies of descriptors, without a byte to anyone and without
  // touching a lock. The pool is then to be left where it is, for a thread may have been inside.
  void abandon();

 private:
  class Borrowed;
  struct Waiter {
    std::condition_variable turn;
  };

  Engine* take(Micros deadline);
  Engine* pick();
  Engine* take_out(std::vector<Engine*>::iterator at);
  void put_back(Engine* engine);

  const std::shared_ptr<const Config> config_;
  const std::uint64_t generation_;
  std::mutex mutex_;
  std::deque<Waiter*> waiters_;  // served in the order in which they came
  std::vector<Engine*> idle_;    // the one used last is taken first
  std::uint32_t made_ = 0;
  std::array<std::unique_ptr<Engine>, kMaxConnections> engines_;
};

}  // namespace saqiya::redis

// A four-byte mutex for the memory store's shards, and for flights: one compare-exchange to take
// when free, a short spin and then a futex wait when not. std::mutex would take 40 bytes of each
// shard's cache line, and nobody could ask it whether it is held.
#pragma once

#include <atomic>
#include <cstdint>

namespace saqiya {

class Lock {
 public:
  void lock() {
    std::uint32_t free = kFree;
    if (!state_.compare_exchange_strong(free, kHeld)) wait();
  }

  bool try_lock() {
    std::uint32_t free = kFree;
    return state_.compare_exchange_strong(free, kHeld);
  }

  void unlock() {
    if (state_.exchange(kFree) == kContended) state_.notify_one();
  }

  bool is_held() const { return state_.load() != kFree; }

 private:
  enum : std::uint32_t { kFree, kHeld, kContended };

  void wait() {
    // A shard's holder leaves within some tens of nanoseconds, unless its table is growing.
    for (int i = 0; i < 100; ++i) {
      std::uint32_t free = kFree;
      if (state_.load(std::memory_order_relaxed) == kFree &&
          state_.compare_exchange_weak(free, kHeld)) {
        return;
      }
    }
    while (state_.exchange(kContended) != kFree) {
      state_.wait(kContended, std::memory_order_relaxed);
    }
  }

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace saqiya

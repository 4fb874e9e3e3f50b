// Where a thread sleeps until another one calls it, with a deadline: a futex (Linux), since neither
// std::atomic nor a condition variable without its mutex can do that.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "core/time.h"

namespace saqiya::redis {

class Parker {
 public:
  enum : std::uint32_t {
    kAwake,
    kAsleep,
    kCalled,  // there is something to look at
    kDone,    // the last call: whoever made it no longer touches the sleeper
  };

  // The owner's: sleeps until it is called or the deadline has passed. Says kCalled (and forgets
  // it), kDone, or, when nobody called, kAwake. A signal does not end it.
  std::uint32_t park(Micros deadline) {
    std::uint32_t seen = kAwake;
    if (state_.compare_exchange_strong(seen, kAsleep)) {
      const timespec until = to_timespec(deadline);
      while (state_.load() == kAsleep) {
        // Absolute, of CLOCK_MONOTONIC, as system_monotonic() is.
        const long result = syscall(SYS_futex, address(), FUTEX_WAIT_BITSET_PRIVATE, kAsleep,
                                    &until, nullptr, FUTEX_BITSET_MATCH_ANY);
        if (result != 0 && errno == ETIMEDOUT) break;
      }
    }
    seen = state_.exchange(kAwake);
    return seen == kAsleep ? kAwake : seen;
  }

  // Others'. True: the owner sleeps and is to be woken at address(), even though it and this
  // object may be gone by then (futexes bear that, as long as nobody else is hurt by a wake-up).
  bool call(std::uint32_t how) { return state_.exchange(how) == kAsleep; }
  std::uint32_t* address() { return reinterpret_cast<std::uint32_t*>(&state_); }

  static void wake(std::uint32_t* address) {
    syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

 private:
  std::atomic<std::uint32_t> state_{kAwake};
};

// Sleepers to be woken when the lock under which they were called has been left: each is a system
// call.
class WakeList {
 public:
  WakeList() = default;
  WakeList(const WakeList&) = delete;
  WakeList& operator=(const WakeList&) = delete;
  ~WakeList() { wake_all(); }

  void call(Parker& parker, std::uint32_t how) {
    std::uint32_t* const address = parker.address();
    if (!parker.call(how)) return;
    if (count_ == addresses_.size()) wake_all();
    addresses_[count_++] = address;
  }
  void wake_all() {
    for (std::size_t i = 0; i < count_; ++i) Parker::wake(addresses_[i]);
    count_ = 0;
  }

 private:
  std::array<std::uint32_t*, 128> addresses_;
  std::size_t count_ = 0;
};

}  // namespace saqiya::redis

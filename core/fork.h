// Fork. A handle made before fork() must work in the child, without a call and without touching a
// lock that some thread of the parent may have held. So every holder of state remembers the
// generation it was made in and starts afresh when the process is of another one. What cannot start
// afresh, the locks inside OpenSSL and the table of time zones, is not held while a process forks.
#pragma once

#include <atomic>
#include <cstdint>

namespace saqiya {

namespace fork_detail {
extern std::atomic<std::uint64_t> generation;
}

// Installs the pthread_atfork handlers, once, when the first store is opened. False when there is
// no memory for it.
bool watch_forks();

// While one lives fork() waits, in whatever thread; a second at most, in case that lasts. Around
// calls into libraries that lock and know nothing of forks. They must not wait for anything. May be
// nested.
class ForkHold {
 public:
  ForkHold();
  ~ForkHold();
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;
};

// Bumped in the child of every fork; one relaxed load, fit for hot paths. Starts at 1.
inline std::uint64_t fork_generation() {
  return fork_detail::generation.load(std::memory_order_relaxed);
}

}  // namespace saqiya

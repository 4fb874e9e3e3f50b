// Fork. A handle made before fork() must work in the child, without a call and without touching a
// lock that some thread of the parent may have held. So every holder of state remembers the
// generation it was made in and starts afresh when the process is of another one.
#pragma once

#include <atomic>
#include <cstdint>

namespace saqiya {

namespace fork_detail {
extern std::atomic<std::uint64_t> generation;
}

// Installs the pthread_atfork handler, once, when the first store is opened. False when there is no
// memory for it.
bool watch_forks();

// Bumped in the child of every fork; one relaxed load, fit for hot paths. Starts at 1.
inline std::uint64_t fork_generation() {
  return fork_detail::generation.load(std::memory_order_relaxed);
}

}  // namespace saqiya

#include "core/fork.h"

#include <pthread.h>

namespace saqiya {
namespace fork_detail {
std::atomic<std::uint64_t> generation{1};
}

bool watch_forks() {
  // A local static: its guard is only contended before the first store is complete.
  static const int installed = pthread_atfork(
      nullptr, nullptr, [] { fork_detail::generation.fetch_add(1, std::memory_order_relaxed); });
  return installed == 0;
}

}  // namespace saqiya

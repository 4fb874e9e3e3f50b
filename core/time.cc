#include "core/time.h"

#include <time.h>

namespace saqiya {
namespace {

Micros read(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return Micros{ts.tv_sec} * kMicrosPerSecond + ts.tv_nsec / 1000;
}

bool in_range(Micros now) { return now >= 0 && now <= kMaxNow; }

}  // namespace

Micros system_monotonic() { return read(CLOCK_MONOTONIC); }
Micros system_wall() { return read(CLOCK_REALTIME); }

bool ManualClock::set(Micros now) {
  if (!in_range(now)) return false;
  monotonic_.store(now, std::memory_order_release);
  wall_.store(now, std::memory_order_release);
  return true;
}

bool ManualClock::set_wall(Micros wall) {
  if (!in_range(wall)) return false;
  wall_.store(wall, std::memory_order_release);
  return true;
}

bool ManualClock::advance(Micros by) {
  if (by < -kMaxNow || by > kMaxNow) return false;
  const Micros monotonic = monotonic_.load(std::memory_order_acquire) + by;
  const Micros wall = wall_.load(std::memory_order_acquire) + by;
  if (!in_range(monotonic) || !in_range(wall)) return false;
  monotonic_.store(monotonic, std::memory_order_release);
  wall_.store(wall, std::memory_order_release);
  return true;
}

}  // namespace saqiya

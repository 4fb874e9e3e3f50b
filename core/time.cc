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

// Adds, unless the sum leaves the range. Nothing is lost between threads.
bool add(std::atomic<Micros>& reading, Micros by) {
  Micros now = reading.load(std::memory_order_acquire);
  while (in_range(now + by)) {
    if (reading.compare_exchange_weak(now, now + by, std::memory_order_acq_rel)) return true;
  }
  return false;
}

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
  if (!in_range(wall_.load(std::memory_order_acquire) + by) || !add(monotonic_, by)) return false;
  if (add(wall_, by)) return true;
  monotonic_.fetch_sub(by, std::memory_order_acq_rel);  // another thread has moved the wall reading
  return false;
}

}  // namespace saqiya

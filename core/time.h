// Time: signed 64-bit microseconds, and where "now" comes from.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <limits>

namespace saqiya {

using Micros = std::int64_t;

inline constexpr Micros kMicrosPerSecond = 1'000'000;
// Ranges of DESIGN 4.1. Every sum of an instant and two durations stays below 2^53, so that Lua's
// doubles hold it exactly.
inline constexpr Micros kMaxNow = Micros{1} << 52;
inline constexpr Micros kMaxSpan = Micros{1} << 50;
inline constexpr Micros kForever = std::numeric_limits<Micros>::max();

// A clock gives a monotonic and a wall reading, both 0 ... kMaxNow. Buckets in the process use the
// monotonic one. Thread-safe.
class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;
  virtual Micros monotonic() const = 0;
  virtual Micros wall() const = 0;
};

// Moves only when told to; may be moved back. For tests and simulation.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Micros now) : monotonic_(now), wall_(now) {}
  Micros monotonic() const override { return monotonic_.load(std::memory_order_acquire); }
  Micros wall() const override { return wall_.load(std::memory_order_acquire); }
  // Return false, changing nothing, when a reading would leave its range.
  bool set(Micros now);
  bool set_wall(Micros wall);
  bool advance(Micros by);

 private:
  std::atomic<Micros> monotonic_;
  std::atomic<Micros> wall_;
};

// The operating system's monotonic clock. Never fails, never goes back.
Micros system_monotonic();
Micros system_wall();

inline timespec to_timespec(Micros span) {
  return {static_cast<time_t>(span / kMicrosPerSecond),
          static_cast<long>(span % kMicrosPerSecond) * 1000};
}

}  // namespace saqiya

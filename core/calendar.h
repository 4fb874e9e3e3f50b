// Calendar windows: days, weeks, months and years as the people of a time zone count them.
//
// A window starts at the first instant of a civil day. Where midnight is skipped (clocks go forward
// over it) that is the instant of the change; where it comes twice, the earlier of the two. So
// windows follow one another without gap or overlap, and a day may have 23 or 25 hours.
//
// Zones come from the machine's zone database (the folder of the environment variable TZDIR, or the
// system's), which is read when a calendar is made. UTC needs none.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/time.h"

namespace saqiya {

// Immutable but for a cache. Thread-safe, lock-free once made.
class Calendar {
 public:
  enum class Unit : std::uint32_t { kDay = 1, kWeek = 2, kMonth = 3, kYear = 4 };

  // What was wrong with the arguments of make().
  enum class Fault { kNone, kUnit, kZone, kAnchor };

  // Weeks start on Monday, years on 1 January, months on anchor_day (1 ... 31; a shorter month's on
  // its last day). anchor_day is 1 for all others. On a fault null, and *error says what it is.
  static std::shared_ptr<const Calendar> make(Unit unit, std::string_view zone, int anchor_day,
                                              std::string* error, Fault* fault = nullptr);

  Calendar(const Calendar&) = delete;
  Calendar& operator=(const Calendar&) = delete;
  virtual ~Calendar() = default;

  // The end of the window that holds now, 0 ... kMaxNow: the first instant after it. Some
  // nanoseconds when now is in the window of the last call.
  Micros end_of(Micros now) const;

  // The boundaries of the window before that of now, of that itself and of the one after:
  // [e0, e1), [e1, e2), [e2, e3), e1 <= now < e2. Those before 1970 are negative.
  std::array<Micros, 4> around(Micros now) const;

  Unit unit() const { return unit_; }
  const std::string& zone() const { return zone_; }
  int anchor() const { return anchor_; }

 protected:
  struct Window {
    std::int64_t start = 0;  // seconds
    std::int64_t end = 0;
  };

  Calendar(Unit unit, std::string_view zone, int anchor)
      : unit_(unit), zone_(zone), anchor_(anchor) {}

  // The window that holds the second.
  virtual Window find(std::int64_t second) const = 0;

 private:
  // A window in one word, so that threads (and a fork) can never see half of one. 0: none.
  using Packed = std::atomic<std::uint64_t>;

  static void store(Packed* packed, Window window);
  static Window load(const Packed& packed);

  const Unit unit_;
  const std::string zone_;
  const int anchor_;
  mutable Packed previous_{0};
  mutable Packed current_{0};
  mutable Packed next_{0};
};

// "day", "week", "month" or "year".
std::string_view unit_name(Calendar::Unit unit);

}  // namespace saqiya

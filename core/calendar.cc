#include "core/calendar.h"

#include <absl/time/civil_time.h>
#include <absl/time/time.h>

#include <algorithm>

#include "core/fork.h"

namespace saqiya {
namespace {

constexpr std::size_t kMaxZoneName = 64;

// A packed window: seconds of its start from 1965, and its length, which is never 0.
constexpr int kLengthBits = 26;  // two years
constexpr std::int64_t kEarliest = std::int64_t{-5} * 366 * 86'400;

bool is_zone_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '+' || c == '-' || c == '/';
}

// The name becomes part of a path. A dot is no zone character, so ".." cannot occur.
bool is_zone_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxZoneName && name.front() != '/' &&
         name != "localtime" && std::all_of(name.begin(), name.end(), is_zone_character);
}

// Windows are numbered: days and weeks from 1970, months and years as in the calendar.
class ZoneCalendar final : public Calendar {
 public:
  ZoneCalendar(Unit unit, std::string_view zone_name, int anchor, absl::TimeZone zone)
      : Calendar(unit, zone_name, anchor), zone_(zone) {}

 private:
  Window find(std::int64_t second) const override {
    const absl::TimeZone::CivilInfo civil = zone_.At(absl::FromUnixSeconds(second));
    std::int64_t index = index_of(absl::CivilDay(civil.cs));
    // The civil day alone does not tell. Where clocks went back over midnight from the day that had
    // just begun (00:01 became 23:01), that day goes on; and a window whose days were all skipped
    // (a zone crossed the date line) has no instant.
    while (start_of(index) > second) --index;
    while (start_of(index + 1) <= second) ++index;
    return {start_of(index), start_of(index + 1)};
  }

  std::int64_t index_of(absl::CivilDay day) const {
    switch (unit()) {
      case Unit::kDay:
        return day - kDayZero;
      case Unit::kWeek: {
        const std::int64_t days = day - kMondayZero;
        return days / 7 - (days % 7 < 0 ? 1 : 0);
      }
      case Unit::kMonth: {
        const std::int64_t month = absl::CivilMonth(day) - kMonthZero;
        return day < first_day(month) ? month - 1 : month;
      }
      case Unit::kYear:
        break;
    }
    return day.year();
  }

  absl::CivilDay first_day(std::int64_t index) const {
    switch (unit()) {
      case Unit::kDay:
        return kDayZero + index;
      case Unit::kWeek:
        return kMondayZero + 7 * index;
      case Unit::kMonth: {
        const absl::CivilMonth month = kMonthZero + index;
        const absl::CivilDay last = absl::CivilDay(month + 1) - 1;
        return absl::CivilDay(month) + (std::min(anchor(), last.day()) - 1);
      }
      case Unit::kYear:
        break;
    }
    return absl::CivilDay(index);
  }

  std::int64_t start_of(std::int64_t index) const {
    const absl::TimeZone::TimeInfo midnight = zone_.At(absl::CivilSecond(first_day(index)));
    const bool skipped = midnight.kind == absl::TimeZone::TimeInfo::SKIPPED;
    return absl::ToUnixSeconds(skipped ? midnight.trans : midnight.pre);
  }

  static constexpr absl::CivilDay kDayZero{1970, 1, 1};
  static constexpr absl::CivilDay kMondayZero{1970, 1, 5};
  static constexpr absl::CivilMonth kMonthZero{1970, 1};

  const absl::TimeZone zone_;
};

}  // namespace

std::shared_ptr<const Calendar> Calendar::make(Unit unit, std::string_view zone, int anchor_day,
                                               std::string* error, Fault* fault) {
  const auto fail = [error, fault](Fault which, std::string what) {
    *error = std::move(what);
    if (fault != nullptr) *fault = which;
    return nullptr;
  };
  if (fault != nullptr) *fault = Fault::kNone;
  if (unit < Unit::kDay || unit > Unit::kYear) {
    return fail(Fault::kUnit, "the unit of a calendar must be day, week, month or year");
  }
  if (anchor_day < 1 || anchor_day > 31) {
    return fail(Fault::kAnchor, "the anchor must be a day of the month, 1 to 31");
  }
  if (anchor_day != 1 && unit != Unit::kMonth) {
    return fail(Fault::kAnchor, "only months have an anchor day");
  }
  if (!is_zone_name(zone)) {
    return fail(Fault::kZone, "expected the name of a time zone, such as Africa/Cairo or UTC");
  }
  absl::TimeZone loaded;
  const ForkHold hold;  // a table of all zones, under a lock
  if (!absl::LoadTimeZone({zone.data(), zone.size()}, &loaded)) {
    return fail(Fault::kZone, "the time zone " + std::string(zone) +
                                  " is not known on this machine (is tzdata installed?)");
  }
  return std::make_shared<const ZoneCalendar>(unit, zone, anchor_day, loaded);
}

void Calendar::store(Packed* packed, Window window) {
  const auto start = static_cast<std::uint64_t>(window.start - kEarliest);
  const auto length = static_cast<std::uint64_t>(window.end - window.start);
  packed->store(start << kLengthBits | length, std::memory_order_relaxed);
}

// An empty window, which holds nothing, when there is none.
Calendar::Window Calendar::load(const Packed& packed) {
  const std::uint64_t word = packed.load(std::memory_order_relaxed);
  const std::int64_t start = static_cast<std::int64_t>(word >> kLengthBits) + kEarliest;
  return {start, start + static_cast<std::int64_t>(word & ((1U << kLengthBits) - 1))};
}

Micros Calendar::end_of(Micros now) const {
  const std::int64_t second = now / kMicrosPerSecond;
  Window window = load(current_);
  if (second < window.start || second >= window.end) {
    window = find(second);
    store(&current_, window);
  }
  return window.end * kMicrosPerSecond;
}

std::array<Micros, 4> Calendar::around(Micros now) const {
  const std::int64_t end = end_of(now) / kMicrosPerSecond;
  Window current = load(current_);
  if (current.end != end) current = find(end - 1);  // another thread is in another window
  Window previous = load(previous_);
  if (previous.end != current.start || previous.start >= previous.end) {
    previous = find(current.start - 1);
    store(&previous_, previous);
  }
  Window next = load(next_);
  if (next.start != current.end || next.start >= next.end) {
    next = find(current.end);
    store(&next_, next);
  }
  return {previous.start * kMicrosPerSecond, current.start * kMicrosPerSecond,
          current.end * kMicrosPerSecond, next.end * kMicrosPerSecond};
}

std::string_view unit_name(Calendar::Unit unit) {
  switch (unit) {
    case Calendar::Unit::kDay:
      return "day";
    case Calendar::Unit::kWeek:
      return "week";
    case Calendar::Unit::kMonth:
      return "month";
    case Calendar::Unit::kYear:
      break;
  }
  return "year";
}

}  // namespace saqiya

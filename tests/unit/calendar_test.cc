// Calendar windows against instants worked out by hand from the zones' rules, and what must hold in
// every zone.
#include "core/calendar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace saqiya {
namespace {

using Unit = Calendar::Unit;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Micros kHour = 3'600 * kMicrosPerSecond;
constexpr Micros kDay = 24 * kHour;
constexpr Unit kUnits[] = {Unit::kDay, Unit::kWeek, Unit::kMonth, Unit::kYear};

// Clocks change at midnight, after it, by half an hour, in the other half of the year, not at all.
constexpr const char* kZones[] = {"UTC",
                                  "Europe/London",
                                  "America/Santiago",
                                  "America/St_Johns",
                                  "America/Havana",
                                  "Africa/Cairo",
                                  "Africa/Casablanca",
                                  "Asia/Kathmandu",
                                  "Asia/Gaza",
                                  "Australia/Lord_Howe",
                                  "Pacific/Apia",
                                  "Pacific/Chatham",
                                  "Etc/GMT+12",
                                  "Etc/GMT-14"};

// "2026-03-29 01:00", in UTC.
Micros at(const char* text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  EXPECT_EQ(std::sscanf(text, "%d-%u-%u %d:%d", &year, &month, &day, &hour, &minute), 5) << text;
  const std::chrono::sys_days date =
      std::chrono::year{year} / static_cast<int>(month) / static_cast<int>(day);
  return date.time_since_epoch().count() * kDay + hour * kHour + minute * (kHour / 60);
}

std::shared_ptr<const Calendar> make(Unit unit, std::string_view zone, int anchor = 1) {
  std::string error;
  auto made = Calendar::make(unit, zone, anchor, &error);
  EXPECT_NE(made, nullptr) << error;
  return made;
}

// Windows one after another, whose first is [starts[0], starts[1]).
void expect_windows(Unit unit, const char* zone, int anchor,
                    const std::vector<const char*>& starts) {
  const auto calendar = make(unit, zone, anchor);
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    SCOPED_TRACE(std::string(zone) + ", from " + starts[i]);
    const Micros start = at(starts[i]);
    const Micros end = at(starts[i + 1]);
    for (const Micros now : {start, start + 1, (start + end) / 2, end - 1}) {
      EXPECT_EQ(calendar->end_of(now), end) << now;
      EXPECT_EQ(calendar->around(now)[1], start) << now;
      EXPECT_EQ(calendar->around(now)[2], end) << now;
      if (i > 0) {
        EXPECT_EQ(calendar->around(now)[0], at(starts[i - 1]));
      }
      if (i + 2 < starts.size()) {
        EXPECT_EQ(calendar->around(now)[3], at(starts[i + 2]));
      }
    }
  }
}

TEST(Calendar, DaysWhenClocksChangeAtNight) {
  expect_windows(Unit::kDay, "Europe/London", 1,  // 23 hours, 25 hours
                 {"2026-03-28 00:00", "2026-03-29 00:00", "2026-03-29 23:00", "2026-03-30 23:00"});
  expect_windows(Unit::kDay, "Europe/London", 1,
                 {"2026-10-23 23:00", "2026-10-24 23:00", "2026-10-26 00:00", "2026-10-27 00:00"});
  expect_windows(Unit::kDay, "Australia/Lord_Howe", 1,  // half an hour
                 {"2026-10-02 13:30", "2026-10-03 13:30", "2026-10-04 13:00", "2026-10-05 13:00"});
  expect_windows(Unit::kDay, "Australia/Lord_Howe", 1,
                 {"2026-04-03 13:00", "2026-04-04 13:00", "2026-04-05 13:30", "2026-04-06 13:30"});
}

TEST(Calendar, MidnightIsSkipped) {  // 00:00 becomes 01:00
  expect_windows(Unit::kDay, "America/Santiago", 1,
                 {"2026-09-05 04:00", "2026-09-06 04:00", "2026-09-07 03:00", "2026-09-08 03:00"});
  expect_windows(Unit::kDay, "Africa/Cairo", 1,
                 {"2026-04-22 22:00", "2026-04-23 22:00", "2026-04-24 21:00", "2026-04-25 21:00"});
}

TEST(Calendar, MidnightComesTwice) {
  // 24:00 becomes 23:00 of the same day.
  expect_windows(Unit::kDay, "America/Santiago", 1,
                 {"2026-04-03 03:00", "2026-04-04 03:00", "2026-04-05 04:00", "2026-04-06 04:00"});
  expect_windows(Unit::kDay, "Africa/Cairo", 1,
                 {"2026-10-27 21:00", "2026-10-28 21:00", "2026-10-29 22:00", "2026-10-30 22:00"});
  // 01:00 becomes 00:00: the day began an hour before.
  expect_windows(Unit::kDay, "America/Havana", 1,
                 {"2026-10-31 04:00", "2026-11-01 04:00", "2026-11-02 05:00", "2026-11-03 05:00"});
  // 00:01 becomes 23:01 of the day before: the day that had begun goes on.
  expect_windows(Unit::kDay, "America/St_Johns", 1,
                 {"2006-10-28 02:30", "2006-10-29 02:30", "2006-10-30 03:30", "2006-10-31 03:30"});
}

TEST(Calendar, ADayThatDidNotTakePlace) {  // Samoa had no 30 December 2011
  expect_windows(Unit::kDay, "Pacific/Apia", 1,
                 {"2011-12-28 10:00", "2011-12-29 10:00", "2011-12-30 10:00", "2011-12-31 10:00"});
}

TEST(Calendar, ZonesOffTheHour) {
  expect_windows(Unit::kDay, "Asia/Kathmandu", 1,
                 {"2025-12-30 18:15", "2025-12-31 18:15", "2026-01-01 18:15"});
  expect_windows(Unit::kYear, "Asia/Kathmandu", 1,
                 {"2024-12-31 18:15", "2025-12-31 18:15", "2026-12-31 18:15"});
}

TEST(Calendar, WeeksBeginOnMonday) {
  expect_windows(Unit::kWeek, "UTC", 1,
                 {"1970-01-05 00:00", "1970-01-12 00:00", "1970-01-19 00:00"});
  expect_windows(Unit::kWeek, "UTC", 1,
                 {"2026-11-23 00:00", "2026-11-30 00:00", "2026-12-07 00:00"});
  // The week's last day is the one of 25 hours.
  expect_windows(Unit::kWeek, "Europe/London", 1,
                 {"2026-10-18 23:00", "2026-10-26 00:00", "2026-11-02 00:00"});
  EXPECT_THAT(make(Unit::kWeek, "UTC")->around(0),
              ElementsAre(-10 * kDay, -3 * kDay, 4 * kDay, 11 * kDay));
}

TEST(Calendar, MonthsAndYears) {
  expect_windows(Unit::kMonth, "UTC", 1,
                 {"2028-01-01 00:00", "2028-02-01 00:00", "2028-03-01 00:00", "2028-04-01 00:00"});
  expect_windows(Unit::kMonth, "Africa/Cairo", 1,
                 {"2026-09-30 21:00", "2026-10-31 22:00", "2026-11-30 22:00", "2026-12-31 22:00"});
  expect_windows(Unit::kYear, "UTC", 1,
                 {"2027-01-01 00:00", "2028-01-01 00:00", "2029-01-01 00:00"});
  expect_windows(Unit::kYear, "America/Santiago", 1,
                 {"2026-01-01 03:00", "2027-01-01 03:00", "2028-01-01 03:00"});
}

TEST(Calendar, AnAnchorThatShortMonthsDoNotHave) {
  expect_windows(Unit::kMonth, "UTC", 31,
                 {"2025-12-31 00:00", "2026-01-31 00:00", "2026-02-28 00:00", "2026-03-31 00:00",
                  "2026-04-30 00:00", "2026-05-31 00:00"});
  expect_windows(Unit::kMonth, "UTC", 30,
                 {"2026-01-30 00:00", "2026-02-28 00:00", "2026-03-30 00:00", "2026-04-30 00:00"});
  expect_windows(Unit::kMonth, "UTC", 29,
                 {"2026-01-29 00:00", "2026-02-28 00:00", "2026-03-29 00:00"});
  expect_windows(Unit::kMonth, "UTC", 29,  // a leap year
                 {"2028-01-29 00:00", "2028-02-29 00:00", "2028-03-29 00:00"});
  expect_windows(Unit::kMonth, "UTC", 30,
                 {"2028-01-30 00:00", "2028-02-29 00:00", "2028-03-30 00:00"});
  expect_windows(Unit::kMonth, "UTC", 29,  // 2100 is none
                 {"2100-01-29 00:00", "2100-02-28 00:00", "2100-03-29 00:00"});
  expect_windows(Unit::kMonth, "UTC", 29,  // 2000 was one
                 {"2000-01-29 00:00", "2000-02-29 00:00", "2000-03-29 00:00"});
  expect_windows(Unit::kMonth, "Africa/Cairo", 24,  // midnight of 24 April 2026 is skipped
                 {"2026-03-23 22:00", "2026-04-23 22:00", "2026-05-23 21:00"});
}

// Windows follow one another, in every zone, from the first instant to the last.
TEST(Calendar, WindowsHaveNoGapAndNoOverlap) {
  std::mt19937_64 random(4);
  std::vector<Micros> instants = {0, 1, kDay, kMaxNow - 1, kMaxNow};
  for (int i = 0; i < 200; ++i) instants.push_back(static_cast<Micros>(random() >> 12));
  for (const char* zone : kZones) {
    for (const Unit unit : kUnits) {
      for (const int anchor : {1, 15, 28, 29, 30, 31}) {
        if (anchor > 1 && unit != Unit::kMonth) continue;
        SCOPED_TRACE(std::string(zone) + " " + std::string(unit_name(unit)) + " " +
                     std::to_string(anchor));
        const auto calendar = make(unit, zone, anchor);
        for (const Micros now : instants) {
          const std::array<Micros, 4> e = calendar->around(now);
          ASSERT_TRUE(e[0] < e[1] && e[1] <= now && now < e[2] && e[2] < e[3]) << now;
          ASSERT_EQ(calendar->end_of(now), e[2]);
          ASSERT_EQ(calendar->end_of(e[2] - 1), e[2]);
          if (e[2] <= kMaxNow) {
            ASSERT_EQ(calendar->end_of(e[2]), e[3]);
            ASSERT_EQ(calendar->around(e[2])[0], e[1]);
            ASSERT_EQ(calendar->around(e[2])[1], e[2]);
          }
          if (e[1] > 0) {
            ASSERT_EQ(calendar->end_of(e[1] - 1), e[1]);
            ASSERT_EQ(calendar->around(e[1] - 1)[1], e[0]);
          }
        }
      }
    }
  }
}

// Day by day: nothing but changes of the clock makes a day that has not 24 hours.
TEST(Calendar, EveryDayOfACentury) {
  for (const char* zone : kZones) {
    const auto calendar = make(Unit::kDay, zone);
    Micros now = 0;
    int odd = 0;
    while (now <= kMaxNow - 2 * kDay) {
      const Micros end = calendar->end_of(now);
      const Micros length = end - now;
      if (now > 0) {
        // Newfoundland went forward by two hours in 1988.
        ASSERT_TRUE(length >= 22 * kHour && length <= 26 * kHour) << zone << " " << now;
        odd += length != kDay ? 1 : 0;
      }
      now = end;
    }
    if (std::string_view(zone) == "UTC") {
      EXPECT_EQ(odd, 0);
    }
    if (std::string_view(zone) == "Europe/London") {
      EXPECT_GT(odd, 280);
    }
  }
}

TEST(Calendar, TheLastInstant) {  // 2^52 us: 17 September 2112
  expect_windows(Unit::kDay, "UTC", 1, {"2112-09-17 00:00", "2112-09-18 00:00"});
  EXPECT_EQ(make(Unit::kDay, "UTC")->end_of(kMaxNow), at("2112-09-18 00:00"));
  EXPECT_EQ(make(Unit::kYear, "UTC")->end_of(kMaxNow), at("2113-01-01 00:00"));
  EXPECT_EQ(make(Unit::kYear, "UTC")->around(kMaxNow)[3], at("2114-01-01 00:00"));
  EXPECT_EQ(make(Unit::kMonth, "Europe/London")->end_of(kMaxNow), at("2112-09-30 23:00"));
}

TEST(Calendar, BeforeTheEpoch) {
  EXPECT_THAT(make(Unit::kYear, "UTC")->around(0),
              ElementsAre(-365 * kDay, 0, 365 * kDay, 730 * kDay));
  EXPECT_THAT(make(Unit::kYear, "America/Santiago")->around(0),
              ElementsAre(at("1968-01-01 04:00"), at("1969-01-01 03:00"), at("1970-01-01 03:00"),
                          at("1971-01-01 03:00")));
}

TEST(Calendar, WhatItWasMadeOf) {
  const auto calendar = make(Unit::kMonth, "Africa/Cairo", 31);
  EXPECT_EQ(calendar->unit(), Unit::kMonth);
  EXPECT_EQ(calendar->zone(), "Africa/Cairo");
  EXPECT_EQ(calendar->anchor(), 31);
}

TEST(Calendar, BadArguments) {
  const auto fault = [](Unit unit, std::string_view zone, int anchor, std::string* error) {
    Calendar::Fault which{};
    EXPECT_EQ(Calendar::make(unit, zone, anchor, error, &which), nullptr) << zone;
    EXPECT_FALSE(error->empty());
    return which;
  };
  std::string error;
  EXPECT_EQ(fault(Unit{}, "UTC", 1, &error), Calendar::Fault::kUnit);
  EXPECT_EQ(fault(Unit{5}, "UTC", 1, &error), Calendar::Fault::kUnit);
  for (const int anchor : {-1, 0, 32}) {
    EXPECT_EQ(fault(Unit::kMonth, "UTC", anchor, &error), Calendar::Fault::kAnchor);
  }
  for (const Unit unit : {Unit::kDay, Unit::kWeek, Unit::kYear}) {
    EXPECT_EQ(fault(unit, "UTC", 2, &error), Calendar::Fault::kAnchor);
  }
  // Names that are none: whatever might lead out of the zone database.
  for (const std::string_view zone :
       {"", "/UTC", "/etc/localtime", "../zoneinfo/UTC", "Africa/../UTC", "localtime", "file:UTC",
        ":UTC", "Africa/Cairo ", "zone1970.tab", "Africa\\Cairo", "Africa/Ca\xc3\xa9ro"}) {
    EXPECT_EQ(fault(Unit::kDay, zone, 1, &error), Calendar::Fault::kZone);
    EXPECT_THAT(error, HasSubstr("expected the name of a time zone")) << zone;
  }
  EXPECT_EQ(fault(Unit::kDay, std::string_view("UTC\0", 4), 1, &error), Calendar::Fault::kZone);
  EXPECT_EQ(fault(Unit::kDay, std::string(65, 'A'), 1, &error), Calendar::Fault::kZone);
  for (const std::string_view zone : {"Africa/Atlantis", "Africa", "leapseconds"}) {
    EXPECT_EQ(fault(Unit::kDay, zone, 1, &error), Calendar::Fault::kZone);
    EXPECT_THAT(error, HasSubstr(std::string(zone) + " is not known on this machine")) << zone;
    EXPECT_THAT(error, HasSubstr("tzdata"));
  }
}

TEST(Calendar, TheCacheChangesNothing) {
  std::mt19937_64 random(5);
  const auto calendar = make(Unit::kDay, "America/Santiago");
  Micros now = 0;
  for (int i = 0; i < 20'000; ++i) {
    // Mostly near by, as a clock goes; at times far off.
    const bool far = random() % 50 == 0;
    now = far ? static_cast<Micros>(random() >> 12)
              : std::clamp<Micros>(now + static_cast<Micros>(random() % (3 * kDay)) - kDay, 0,
                                   kMaxNow);
    const auto fresh = make(Unit::kDay, "America/Santiago");
    if (random() % 2 == 0) {
      ASSERT_EQ(calendar->end_of(now), fresh->end_of(now)) << now;
    } else {
      ASSERT_EQ(calendar->around(now), fresh->around(now)) << now;
    }
  }
}

TEST(Calendar, ThreadsInDifferentWindows) {
  const auto shared = make(Unit::kDay, "Europe/London");
  const auto apart = make(Unit::kDay, "Europe/London");
  const Micros base = at("2026-03-27 12:00");
  std::vector<std::pair<Micros, std::array<Micros, 4>>> expected;
  for (int i = 0; i < 64; ++i) {
    const Micros now = base + i * (kDay / 8);
    expected.emplace_back(now, apart->around(now));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(t + 1);
      for (int i = 0; i < 50'000; ++i) {
        const auto& [now, boundaries] = expected[random() % expected.size()];
        const bool right =
            i % 2 == 0 ? shared->end_of(now) == boundaries[2] : shared->around(now) == boundaries;
        if (!right) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace saqiya

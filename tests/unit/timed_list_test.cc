// The list of a log or of leases, against a plain vector; its memory.
#include "core/timed_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace saqiya {
namespace {

using Kind = TimedList::Kind;
using Entry = TimedList::Entry;

struct Owned {
  TimedList* list = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { delete list; }
};

void expect_same(const TimedList& list, const std::vector<Entry>& wanted, Kind kind) {
  ASSERT_EQ(list.size(), wanted.size());
  std::int64_t total = 0;
  for (std::uint32_t i = 0; i < list.size(); ++i) {
    ASSERT_EQ(list.at(i), wanted[i].at);
    ASSERT_EQ(list.cost(i), wanted[i].cost);
    if (kind == Kind::kLeases) {
      ASSERT_EQ(list.id(i), wanted[i].id);
    }
    total += wanted[i].cost;
  }
  ASSERT_EQ(list.total(), total);
  ASSERT_EQ(list.last(), wanted.empty() ? 0 : wanted.back().at);
}

TEST(TimedList, EqualsAVector) {
  std::mt19937_64 random(1);
  for (int world = 0; world < 200; ++world) {
    const Kind kind = world % 2 == 0 ? Kind::kLog : Kind::kLeases;
    const std::uint64_t span = 1 + random() % 60;  // how many entries live at once
    Owned owned;
    std::vector<Entry> wanted;
    const auto add = [&](Micros gone, Entry entry) {
      TimedList::add(&owned.list, kind, gone, entry);
      std::erase_if(wanted, [&](const Entry& e) { return e.at <= gone; });
      if (kind == Kind::kLog && !wanted.empty() && wanted.back().at == entry.at) {
        wanted.back().cost += entry.cost;
        return;
      }
      const auto place = std::upper_bound(wanted.begin(), wanted.end(), entry.at,
                                          [](Micros at, const Entry& e) { return at < e.at; });
      wanted.insert(place, entry);
    };
    Micros now = Micros{1} << (random() % 52);
    for (int i = 0; i < 400; ++i) {
      const Micros gone = now - static_cast<Micros>(span);
      const auto size = static_cast<std::uint32_t>(wanted.size());
      const auto place = static_cast<std::uint32_t>(size == 0 ? 0 : random() % size);
      switch (size == 0 ? 9 : random() % 10) {
        case 0:
          owned.list->set_cost(place, 0);
          wanted.erase(wanted.begin() + place);
          break;
        case 1:
          owned.list->set_cost(place, 7);
          wanted[place].cost = 7;
          break;
        case 2: {
          if (kind == Kind::kLog) break;
          const Micros at = now - static_cast<Micros>(random() % span);
          Entry moved = wanted[place];
          moved.at = at;
          owned.list->move(place, at);
          wanted.erase(wanted.begin() + place);
          wanted.insert(std::upper_bound(wanted.begin(), wanted.end(), at,
                                         [](Micros t, const Entry& e) { return t < e.at; }),
                        moved);
          break;
        }
        case 3:
          owned.list->trim(gone);
          std::erase_if(wanted, [&](const Entry& e) { return e.at <= gone; });
          break;
        default: {
          Micros at = std::max(now, wanted.empty() ? 0 : wanted.back().at);
          if (kind == Kind::kLeases) at = now - static_cast<Micros>(random() % span);
          add(gone, {at, 1 + static_cast<std::uint32_t>(random() % 9), random()});
        }
      }
      ASSERT_NO_FATAL_FAILURE(expect_same(*owned.list, wanted, kind));
      const TimedList::Live live = owned.list->live_after(gone);
      std::int64_t used = 0;
      std::uint32_t dead = 0;
      for (const Entry& e : wanted) {
        used += e.at > gone ? e.cost : 0;
        dead += e.at > gone ? 0 : 1;
      }
      ASSERT_EQ(live.used, used);
      ASSERT_EQ(live.first, dead);
      if (used > 0) {
        const auto need =
            1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(used));
        std::int64_t sum = 0;
        std::size_t last = dead;
        while ((sum += wanted[last].cost) < need) ++last;
        ASSERT_EQ(owned.list->reached_at(live.first, need), wanted[last].at);
      }
      if (!wanted.empty()) {
        const Entry& some = wanted[random() % wanted.size()];
        const std::uint32_t by_instant = owned.list->find(some.at);
        ASSERT_NE(by_instant, TimedList::kNone);
        ASSERT_EQ(owned.list->at(by_instant), some.at);
        ASSERT_TRUE(by_instant == 0 || owned.list->at(by_instant - 1) < some.at);
        if (kind == Kind::kLeases) {
          for (const Micros hint : {some.at, some.at + 1, Micros{0}}) {
            ASSERT_EQ(owned.list->id(owned.list->find(some.id, hint)), some.id);
          }
          ASSERT_EQ(owned.list->find(std::uint64_t{0}, some.at), TimedList::kNone);
        }
      }
      now += static_cast<Micros>(random() % 3);
    }
  }
}

TEST(TimedList, MemoryIsInProportionToWhatCounts) {
  Owned log;
  for (Micros now = 0; now < 10'000; ++now) {
    TimedList::add(&log.list, Kind::kLog, now - 100, {now, 1, 0});
    ASSERT_EQ(log.list->size(), static_cast<std::uint32_t>(std::min<Micros>(now + 1, 100)));
  }
  EXPECT_LE(log.list->bytes(), 24U + 100U * 12U * 3U / 2U + 48U);
  // After a burst has passed, its memory goes.
  for (Micros now = 10'000; now < 30'000; ++now) {
    TimedList::add(&log.list, Kind::kLog, 0, {now, 1, 0});
  }
  EXPECT_GT(log.list->bytes(), 20'000U * 12U);
  TimedList::add(&log.list, Kind::kLog, 40'000, {50'000, 1, 0});
  EXPECT_EQ(log.list->size(), 1U);
  EXPECT_LE(log.list->bytes(), 48U + 2U * 12U);

  Owned leases;
  TimedList::add(&leases.list, Kind::kLeases, 0, {5, 1, 1});
  EXPECT_EQ(leases.list->bytes(), 48U + 2U * 20U);
}

}  // namespace
}  // namespace saqiya

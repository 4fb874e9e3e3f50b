// The table's bound, its reclaiming and its size.
#include "core/memory_table.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "tests/support/limited.h"
#include "tests/support/sanitizers.h"

namespace saqiya {
namespace {

using test::kSanitized;
using test::Limited;
using test::MemorySetup;

constexpr std::uint64_t kDefaultMaxKeys = 10'000'000;

// Keys as the store makes them: hashes of running numbers.
Hash128 key_of(std::uint64_t number) {
  return keyed_hash({1, 2}, {reinterpret_cast<const char*>(&number), sizeof number});
}

// Both readings stand where they were set last.
struct TwoClocks final : Clock {
  Micros monotonic() const override { return now[0]; }
  Micros wall() const override { return now[1]; }
  Micros now[2] = {0, 0};
};

class Table {
 public:
  explicit Table(std::uint64_t max_keys, std::uint64_t epoch = 1)
      : table_(max_keys, epoch, clock_) {}

  // Sets the entry's clock to now.
  void put(const Hash128& key, const Words& words, Micros now) {
    clock(words.is_wall()) = now;
    table_.update<false>(key, words.is_wall(), now, [&](Words* entry, Micros) {
      if (entry != nullptr) *entry = words;
      return true;
    });
  }
  // An absent one has the instant at which entries were last dropped.
  Words get(std::uint64_t number, bool wall = false) {
    Words found;
    table_.update<false>(key_of(number), wall, clock(wall), [&](Words* entry, Micros floor) {
      found = entry != nullptr ? *entry : Words{floor, 0, 0};
      return false;
    });
    return found;
  }
  // Adds an entry to the log under the key, which counts for a second.
  void log(std::uint64_t number, Micros now) {
    constexpr Micros kPeriod = 1'000'000;
    clock(false) = now;
    table_.update<true>(key_of(number), false, now, [&](Words* entry, Micros) {
      if (entry == nullptr) return true;
      State state = to_state(kLog, *entry);
      TimedList::add(&state.list, TimedList::Kind::kLog, now - kPeriod, {now, 1, 0});
      *entry = to_words(kLog, state);
      return true;
    });
  }
  void erase(std::uint64_t number) { table_.erase(key_of(number)); }
  MemoryTable::Size size() const { return table_.size(); }
  MemoryTable& operator*() { return table_; }
  Micros& clock(bool wall) { return clock_->now[wall ? 1 : 0]; }

 private:
  static Rule log_rule() {
    Rule rule;
    rule.algorithm = Algorithm::kSlidingLog;
    rule.period = 1'000'000;
    return rule;
  }

  const Rule kLog = log_rule();
  const std::shared_ptr<TwoClocks> clock_ = std::make_shared<TwoClocks>();
  MemoryTable table_;
};

void put(Table& table, std::uint64_t number, Micros full_at, Micros now) {
  table.put(key_of(number), {full_at, 0, 1}, now);
}

Words get(Table& table, std::uint64_t number, Micros now) {
  table.clock(false) = now;
  return table.get(number);
}

TEST(MemoryTable, KeepsWhatWasWritten) {
  Table table(kDefaultMaxKeys, 9);
  EXPECT_EQ((*table).epoch(), 9U);
  for (std::uint64_t i = 0; i < 50'000; ++i) put(table, i, 1'000 + static_cast<Micros>(i), 0);
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    ASSERT_EQ(get(table, i, 0).q, 1'000 + static_cast<Micros>(i));
  }
  EXPECT_EQ(table.size().keys, 50'000U);
  for (std::uint64_t i = 0; i < 50'000; i += 2) table.erase(i);
  EXPECT_EQ(table.size().keys, 25'000U);
  EXPECT_TRUE(get(table, 0, 0).is_absent());
  EXPECT_EQ(get(table, 0, 0).q, 0);
  EXPECT_EQ(get(table, 1, 0).q, 1'001);
  EXPECT_EQ(table.size().evictions, 0U);
}

TEST(MemoryTable, AtTheBoundTheEntriesNearestToFullGoFirst) {
  constexpr std::uint64_t kBound = 64;  // one shard
  Table table(kBound);
  for (std::uint64_t i = 0; i < kBound; ++i) {
    put(table, i, 1'000 + static_cast<Micros>((i * 37) % kBound), 0);
  }
  EXPECT_EQ(table.size().keys, kBound);
  put(table, kBound, 5'000, 0);
  const MemoryTable::Size size = table.size();
  EXPECT_EQ(size.evictions, 4U);  // a sixteenth
  EXPECT_EQ(size.keys, kBound - 4 + 1);
  for (std::uint64_t i = 0; i < kBound; ++i) {
    const Micros full_at = 1'000 + static_cast<Micros>((i * 37) % kBound);
    EXPECT_EQ(get(table, i, 0).n == 0, full_at < 1'004) << i;
  }
  EXPECT_EQ(get(table, kBound, 0).q, 5'000);
}

TEST(MemoryTable, FullEntriesGoBeforeAnyOtherAndAreNotEvictions) {
  constexpr std::uint64_t kBound = 64;
  Table table(kBound);
  for (std::uint64_t i = 0; i < kBound; ++i) put(table, i, i % 2 == 0 ? 100 : 900, 0);
  put(table, kBound, 900, 100);  // the even ones are full now
  EXPECT_EQ(table.size().evictions, 0U);
  EXPECT_EQ(table.size().keys, kBound / 2 + 1);
  for (std::uint64_t i = 1; i < kBound; i += 2) EXPECT_EQ(get(table, i, 100).q, 900);
}

TEST(MemoryTable, ABoundOfOneHoldsOne) {
  Table table(1);
  for (std::uint64_t i = 0; i < 100; ++i) {
    put(table, i, 1'000, 0);
    EXPECT_EQ(table.size().keys, 1U);
    EXPECT_EQ(get(table, i, 0).q, 1'000);
  }
  EXPECT_EQ(table.size().evictions, 99U);
}

TEST(MemoryTable, NoNumberOfKeysExceedsTheBound) {  // C153
  constexpr std::uint64_t kBound = kSanitized ? 20'000 : 1'000'000;
  for (const std::uint64_t bound :
       {std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{1'000}, kBound}) {
    Table table(bound);
    std::uint64_t most_bytes = 0;
    for (std::uint64_t i = 0; i < 10 * bound; ++i) {
      // None is full when its place is wanted: each of these holds debt.
      put(table, i, 1'000'000'000 + static_cast<Micros>(i), static_cast<Micros>(i));
      if (i % (bound / 4 + 1) == 0) {
        const MemoryTable::Size size = table.size();
        ASSERT_LE(size.keys, bound);
        most_bytes = std::max(most_bytes, size.bytes);
      }
    }
    const MemoryTable::Size size = table.size();
    EXPECT_LE(size.keys, bound);
    EXPECT_GE(size.keys, bound * 9 / 10);
    EXPECT_EQ(size.keys + size.evictions, 10 * bound);
    if (bound >= 10'000) {
      EXPECT_LE(most_bytes, bound * 88);  // 80 and 10 %
    }
  }
}

TEST(MemoryTable, BytesPerKeyAtEverySize) {
  Table table(kDefaultMaxKeys);
  constexpr std::uint64_t kLargest = kSanitized ? 200'000 : 10'000'000;
  std::uint64_t count = 0;
  for (std::uint64_t next = 10'000; next <= kLargest; next += next / 8) {
    for (; count < next; ++count) put(table, count, kMaxNow, 0);
    const MemoryTable::Size size = table.size();
    ASSERT_EQ(size.keys, count);
    EXPECT_LE(size.bytes, 80 * count) << count;
  }
}

TEST(MemoryTable, At64BytesPerKeyForAMillionAsMallocCountsThem) {
  constexpr std::uint64_t kKeys = kSanitized ? 100'000 : 1'000'000;
  const auto held = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const std::size_t before = held();
  const auto table = std::make_unique<Table>(kDefaultMaxKeys);
  for (std::uint64_t i = 0; i < kKeys; ++i) put(*table, i, kMaxNow, 0);
  const std::uint64_t counted = table->size().bytes;
  EXPECT_LE(counted, (kSanitized ? 80 : 64) * kKeys);
  if constexpr (!kSanitized) {  // a sanitizer's malloc reports nothing
    const std::size_t real = held() - before;
    EXPECT_GE(real, counted * 98 / 100);
    EXPECT_LE(real, counted * 103 / 100);
  }
}

TEST(MemoryTable, DeadEntriesAreReclaimedAsNewOnesCome) {
  constexpr std::uint64_t kKeys = 50'000;
  constexpr int kGenerations = kSanitized ? 20 : 100;
  Table table(kDefaultMaxKeys);
  std::uint64_t number = 0;
  for (; number < kKeys; ++number) put(table, number, 1'000, 0);
  const MemoryTable::Size peak = table.size();
  // All of them are full at 1,000. As many new ones, dead in their turn, must not add up.
  Micros now = 1'000;
  for (int generation = 0; generation < kGenerations; ++generation) {
    for (std::uint64_t i = 0; i < kKeys; ++i) put(table, number++, now + 1'000, now);
    const MemoryTable::Size size = table.size();
    EXPECT_LE(size.keys, kKeys * 5 / 4) << generation;
    EXPECT_LE(size.bytes, peak.bytes * 3 / 2) << generation;
    now += 1'000;
  }
  EXPECT_EQ(table.size().evictions, 0U);
}

TEST(MemoryTable, AStreamOfNewcomersKeepsNoMoreDeadThanLiving) {
  constexpr std::uint64_t kLiving = 20'000;
  Table table(kDefaultMaxKeys);
  Micros now = 0;
  for (std::uint64_t number = 0; number < 60 * kLiving; ++number, ++now) {
    put(table, number, now + static_cast<Micros>(kLiving), now);
    if (number % kLiving == 0) {
      EXPECT_LE(table.size().keys, 5 * kLiving / 2) << number;
    }
  }
  EXPECT_LE(table.size().keys, 2 * kLiving);
}

TEST(MemoryTable, AClockThatGoesBackFindsNoBucketFullerThanItWas) {  // C23
  Table table(64);                                                   // one shard
  put(table, 0, 1'000, 0);
  // Later it is full, and newcomers have it swept away.
  for (std::uint64_t i = 1; i <= 200; ++i) put(table, i, 3'000, 2'000);
  ASSERT_EQ(get(table, 0, 2'000).n, 0U);
  EXPECT_EQ(get(table, 0, 2'000).q, 1'000);
}

TEST(MemoryTable, EachEntryIsSweptByItsOwnClock) {
  constexpr std::uint64_t kCrowd = 100;
  for (const bool wall : {false, true}) {
    Table table(kDefaultMaxKeys);
    for (std::uint64_t i = 0; i < kCrowd; ++i) {
      put(table, i, 5'000, 1'000);
      table.put(key_of(kCrowd + i), {5'000 | Words::kWall, 7, 0}, 1'000);
    }
    // One of the clocks goes on; newcomers have every shard swept.
    table.clock(wall) = 6'000;
    for (std::uint64_t i = 0; i < 100'000; ++i) put(table, 1'000 + i, 9'000, table.clock(false));
    for (std::uint64_t i = 0; i < kCrowd; ++i) {
      EXPECT_EQ(table.get(i).n, wall ? 1U : 0U);
      EXPECT_EQ(table.get(i).q, 5'000);  // kept, or when it was dropped
      EXPECT_EQ(table.get(kCrowd + i, true).r, wall ? 0U : 7U);
      EXPECT_EQ(table.get(kCrowd + i, true).dead_at(), 5'000);
    }
    EXPECT_EQ(table.size().evictions, 0U);
    EXPECT_EQ(table.size().keys, 100'000 + kCrowd);
  }
}

TEST(MemoryTable, EvictionGoesByTheDistanceInEachEntrysClock) {
  constexpr std::uint64_t kBound = 64;
  Table table(kBound);
  // Far apart, as a monotonic clock and the wall's are. The windows end sooner.
  constexpr Micros kWall = 1'790'000'000'000'000;
  for (std::uint64_t i = 0; i < kBound / 2; ++i) {
    put(table, i, 3'000 + static_cast<Micros>(i), 0);
    table.put(key_of(100 + i), {(kWall + 1'000 + static_cast<Micros>(i)) | Words::kWall, 1, 0},
              kWall);
  }
  put(table, 1'000, 9'000, 0);
  EXPECT_EQ(table.size().evictions, 4U);
  for (std::uint64_t i = 0; i < kBound / 2; ++i) {
    EXPECT_FALSE(table.get(i).is_absent());
    EXPECT_EQ(table.get(100 + i, true).is_absent(), i < 4);
  }
}

TEST(MemoryTable, BlocksAreCountedAndFreed) {
  Table table(kDefaultMaxKeys);
  table.log(0, 1'000);
  const std::uint64_t one = table.size().bytes;
  for (Micros i = 0; i < 1'000; ++i) table.log(0, 2'000 + i);
  const std::uint64_t thousand = table.size().bytes - one;
  EXPECT_GE(thousand, 12U * 1'000);
  EXPECT_LE(thousand, 12U * 2'000);
  table.log(1, 2'000);
  table.erase(0);
  EXPECT_LE(table.size().bytes, one + 128);
  // What it counted for is gone when it is dead.
  for (Micros i = 0; i < 1'000; ++i) table.log(2, 3'000 + i);
  const std::uint64_t before = table.size().bytes;
  for (std::uint64_t i = 0; i < 50'000; ++i) put(table, 10 + i, 9'000'000, 2'000'000);
  for (std::uint64_t i = 0; i < 50'000; ++i) table.erase(10 + i);
  EXPECT_EQ(table.size().keys, 0U);
  EXPECT_LT(table.size().bytes, before + 50'000 * 80 - 12'000);
}

TEST(MemoryTable, BlocksCountAgainstTheBound) {
  constexpr std::uint64_t kBound = 10'000;
  Table table(kBound);
  // Ten times as much as there is room for.
  std::uint64_t most = 0;
  for (Micros i = 0; i < 100; ++i) {
    for (std::uint64_t k = 0; k < 2'000; ++k) table.log(k, i);
    const MemoryTable::Size size = table.size();
    most = std::max(most, size.bytes);
  }
  EXPECT_GT(table.size().evictions, 0U);
  // 32 bytes a unit, and what the table of entries takes.
  EXPECT_LE(most, kBound * 88);
}

TEST(MemoryTable, AShardBorrowsWhileTheTableHasRoom) {
  constexpr std::uint64_t kBound = 10'000;  // shards of 64
  Table table(kBound);
  for (Micros i = 0; i < 300; ++i) {
    for (std::uint64_t k = 0; k < 20; ++k) table.log(k, i);  // each as large as two shares
  }
  EXPECT_EQ(table.size().keys, 20U);
  EXPECT_EQ(table.size().evictions, 0U);
  // One alone may be larger than all: it is that, or to forget what it counts.
  for (Micros i = 300; i < 40'000; ++i) table.log(0, i);
  EXPECT_FALSE(table.get(0).is_absent());
  EXPECT_GE(table.size().bytes, 12U * 40'000);
}

TEST(MemoryTable, ACrowdThatLeftGivesItsMemoryBack) {
  constexpr std::uint64_t kCrowd = 100'000;
  constexpr std::uint64_t kTrickle = kCrowd / 20;
  Table table(kDefaultMaxKeys);
  std::uint64_t number = 0;
  for (; number < kCrowd; ++number) put(table, number, 1'000, 0);
  const MemoryTable::Size peak = table.size();
  // A trickle of a twentieth, in which every entry lives a short time.
  Micros now = 1'000;
  for (std::uint64_t i = 0; i < 5 * kCrowd; ++i, ++now) {
    put(table, number++, now + static_cast<Micros>(kTrickle), now);
  }
  const MemoryTable::Size after = table.size();
  EXPECT_LE(after.keys, 2 * kTrickle + 16 * 1'536);  // a shard waits for 16 before it is swept
  EXPECT_LE(after.bytes, peak.bytes / 2);
}

TEST(MemoryTable, AllShardsAreUsedEvenly) {  // C174: no key decides where others go
  Table table(kDefaultMaxKeys);
  for (std::uint64_t i = 0; i < 100'000; ++i) put(table, i, kMaxNow, 0);
  Table aimed(kDefaultMaxKeys);
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    // Subjects that differ in one bit or only in length.
    const std::string subject(i % 1'000, static_cast<char>(i / 1'000));
    aimed.put(keyed_hash({3, 4}, subject + std::to_string(i)), {kMaxNow, 0, 1}, 0);
  }
  EXPECT_EQ(table.size().keys, aimed.size().keys);
  EXPECT_LE(aimed.size().bytes, table.size().bytes * 11 / 10);
}

TEST(MemoryTable, FloodingGivesAnAttackerNothing) {  // C173
  constexpr std::uint64_t kBound = 10'000;
  constexpr std::uint64_t kFlood = kSanitized ? 100'000 : 1'000'000;
  constexpr int kClients = 1'000;
  const MemorySetup setup(kBound);
  const Limited rate(setup.store, "10/min burst 10");
  std::int64_t attacker = 0;
  std::int64_t clients_asked = 0;
  std::int64_t clients_admitted = 0;
  const Micros start = setup.clock->monotonic();
  for (std::uint64_t i = 0; i < kFlood; ++i) {
    if (i % 100 == 0) {
      ASSERT_TRUE(setup.clock->advance(10'000));  // 10,000 newcomers a second
      attacker += rate.admits("attacker") ? 1 : 0;
      ++clients_asked;
      const auto client = static_cast<std::uint64_t>(clients_asked) % kClients;
      clients_admitted += rate.admits("client:" + std::to_string(client)) ? 1 : 0;
    }
    rate.check("random:" + std::to_string(i));
  }
  const Micros elapsed = setup.clock->monotonic() - start;
  EXPECT_GT(setup.store->stats().evictions, kFlood / 2);
  EXPECT_LE(attacker, 10 + elapsed / 6'000'000);
  EXPECT_GE(attacker, 10);
  EXPECT_GT(clients_admitted * 100, clients_asked * 99);
}

}  // namespace
}  // namespace saqiya

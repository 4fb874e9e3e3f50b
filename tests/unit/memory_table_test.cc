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

void put(MemoryTable& table, std::uint64_t number, Micros full_at, Micros now) {
  table.update(key_of(number), now, [&](BucketState* state) { *state = {full_at, 0, 1}; });
}

BucketState get(MemoryTable& table, std::uint64_t number, Micros now) {
  BucketState found;
  table.update(key_of(number), now, [&](BucketState* state) { found = *state; });
  return found;
}

TEST(MemoryTable, KeepsWhatWasWritten) {
  MemoryTable table(kDefaultMaxKeys, 9);
  EXPECT_EQ(table.epoch(), 9U);
  for (std::uint64_t i = 0; i < 50'000; ++i) put(table, i, 1'000 + static_cast<Micros>(i), 0);
  for (std::uint64_t i = 0; i < 50'000; ++i) {
    ASSERT_EQ(get(table, i, 0).q, 1'000 + static_cast<Micros>(i));
  }
  EXPECT_EQ(table.size().keys, 50'000U);
  for (std::uint64_t i = 0; i < 50'000; i += 2) table.erase(key_of(i));
  EXPECT_EQ(table.size().keys, 25'000U);
  EXPECT_EQ(get(table, 0, 0), BucketState{});
  EXPECT_EQ(get(table, 1, 0).q, 1'001);
  EXPECT_EQ(table.size().evictions, 0U);
}

TEST(MemoryTable, AtTheBoundTheEntriesNearestToFullGoFirst) {
  constexpr std::uint64_t kBound = 64;  // one shard
  MemoryTable table(kBound, 1);
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
  MemoryTable table(kBound, 1);
  for (std::uint64_t i = 0; i < kBound; ++i) put(table, i, i % 2 == 0 ? 100 : 900, 0);
  put(table, kBound, 900, 100);  // the even ones are full now
  EXPECT_EQ(table.size().evictions, 0U);
  EXPECT_EQ(table.size().keys, kBound / 2 + 1);
  for (std::uint64_t i = 1; i < kBound; i += 2) EXPECT_EQ(get(table, i, 100).q, 900);
}

TEST(MemoryTable, ABoundOfOneHoldsOne) {
  MemoryTable table(1, 1);
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
    MemoryTable table(bound, 1);
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
  MemoryTable table(kDefaultMaxKeys, 1);
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
  const auto table = std::make_unique<MemoryTable>(kDefaultMaxKeys, 1);
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
  MemoryTable table(kDefaultMaxKeys, 1);
  std::uint64_t number = 0;
  for (; number < kKeys; ++number) put(table, number, 1'000, 0);
  const MemoryTable::Size peak = table.size();
  // All of them are full at 1,000. As many new ones, dead in their turn, must not add up.
  Micros now = 1'000;
  for (int generation = 0; generation < 100; ++generation) {
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
  MemoryTable table(kDefaultMaxKeys, 1);
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
  MemoryTable table(64, 1);                                          // one shard
  put(table, 0, 1'000, 0);
  // Later it is full, and newcomers have it swept away.
  for (std::uint64_t i = 1; i <= 200; ++i) put(table, i, 3'000, 2'000);
  ASSERT_EQ(get(table, 0, 2'000).n, 0U);
  EXPECT_EQ(get(table, 0, 2'000).q, 1'000);
}

TEST(MemoryTable, ACrowdThatLeftGivesItsMemoryBack) {
  constexpr std::uint64_t kCrowd = 100'000;
  constexpr std::uint64_t kTrickle = kCrowd / 20;
  MemoryTable table(kDefaultMaxKeys, 1);
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
  MemoryTable table(kDefaultMaxKeys, 1);
  for (std::uint64_t i = 0; i < 100'000; ++i) put(table, i, kMaxNow, 0);
  MemoryTable aimed(kDefaultMaxKeys, 1);
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    // Subjects that differ in one bit or only in length.
    const std::string subject(i % 1'000, static_cast<char>(i / 1'000));
    aimed.update(keyed_hash({3, 4}, subject + std::to_string(i)), 0, [](BucketState* state) {
      *state = {kMaxNow, 0, 1};
    });
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

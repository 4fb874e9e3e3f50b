// The memory store: what every store owes, and what only this one does.
#include "core/memory_store.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/unit/store_conformance.h"

namespace saqiya::test {

StoreUnderTest fresh_store() {
  const MemorySetup setup;
  return {setup.store, setup.clock, nullptr};
}

INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance,
                         testing::Values(StoreFactory{"memory", fresh_store}));

namespace {

TEST(MemoryStore, IsLocalAndEachIsATableOfItsOwn) {
  const MemorySetup a;
  const MemorySetup b;
  EXPECT_TRUE(a.store->is_local());
  const Limited in_a(a.store, "1/h", "same");
  const Limited in_b(b.store, "1/h", "same");
  EXPECT_TRUE(in_a.admits("k"));
  EXPECT_TRUE(in_b.admits("k"));
  EXPECT_FALSE(in_a.admits("k"));
}

TEST(MemoryStore, ATicketOfAnotherTableGivesNothing) {
  const MemorySetup a;
  const MemorySetup b;
  const Limited in_a(a.store, "10/h", "same");
  const Limited in_b(b.store, "10/h", "same");
  Ticket ticket;
  in_a.check("k", 5, 0, &ticket);
  in_b.check("k", 5);
  EXPECT_EQ(in_b.refund("k", &ticket).outcome, Outcome::kDenied);
  EXPECT_EQ(in_b.peek("k").remaining, 5);
}

TEST(MemoryStore, RefusalsAndPeeksStoreNothing) {
  const MemorySetup setup;
  const Limited rate(setup.store, "10/h");
  rate.peek("a");
  rate.check("b", 0);
  rate.check("c", 11);
  rate.reset("d");
  Ticket none;
  rate.refund("e", &none);
  EXPECT_EQ(setup.store->stats().keys, 0U);
  rate.check("f");
  EXPECT_EQ(setup.store->stats().keys, 1U);
  rate.reset("f");
  EXPECT_EQ(setup.store->stats().keys, 0U);
}

TEST(MemoryStore, AWallStepChangesNoBucket) {  // C23
  const MemorySetup setup;
  const Limited rate(setup.store, "10/s");
  EXPECT_EQ(rate.admitted("k", 20), 10);
  ASSERT_TRUE(setup.clock->set_wall(0));
  EXPECT_EQ(rate.admitted("k", 20), 0);
  ASSERT_TRUE(setup.clock->set_wall(kMaxNow));
  EXPECT_EQ(rate.admitted("k", 20), 0);
}

TEST(MemoryStore, TheSystemClockIsUsedWhenNoneIsGiven) {
  OpenError error;
  const std::shared_ptr<Store> store = open_store("memory://", {}, &error);
  const Limited rate(store, "10/h");
  EXPECT_EQ(rate.admitted("k", 20), 10);
  const Decision d = rate.check("k");
  EXPECT_GT(d.retry_after, 0);
  EXPECT_LE(d.retry_after, 360'000'000);
}

// Full entries are dropped all the time; the reference keeps every bucket for ever.
TEST(MemoryStore, DroppingFullEntriesChangesNoAnswer) {
  constexpr int kEvents = 100'000;
  constexpr unsigned kKeys = 2'000;
  const MemorySetup setup;
  Random random(22);
  const std::string_view texts[] = {"5/s burst 3", "7/s burst 2", "3/min"};
  for (const std::string_view text : texts) {
    const Limited rate(setup.store, text);
    const ReferenceRule rule = as_reference(rate.limiter().bucket());
    std::vector<ReferenceBucket> buckets(kKeys);
    std::vector<Ticket> tickets(kKeys);
    std::vector<ReferenceTicket> wanted(kKeys);
    for (int i = 0; i < kEvents / 3; ++i) {
      ASSERT_TRUE(setup.clock->advance(static_cast<Micros>(random() % 2'000)));
      const Micros now = setup.clock->monotonic();
      const std::size_t k = random() % kKeys;
      const std::string key = "user:" + std::to_string(k);
      if (random() % 5 == 0) {
        expect_same(rate.refund(key, &tickets[k]), buckets[k].refund(rule, now, &wanted[k]));
      } else {
        const auto cost = static_cast<std::int64_t>(random() % 4);
        wanted[k] = {};
        expect_same(rate.check(key, cost, 0, &tickets[k]),
                    buckets[k].check(rule, cost, now, 0, &wanted[k]));
      }
      if (HasFatalFailure()) return;
    }
    EXPECT_LT(setup.store->stats().keys, std::uint64_t{kKeys} * std::size(texts));
  }
}

}  // namespace
}  // namespace saqiya::test

#include "core/limiter.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/limited.h"

namespace saqiya {
namespace {

using test::Limited;
using test::MemorySetup;
using test::policy_of;

TEST(Limiter, NamesArePrintableAscii) {
  EXPECT_TRUE(is_valid_name("a"));
  EXPECT_TRUE(is_valid_name("per minute: {user} \"x\""));
  EXPECT_TRUE(is_valid_name(std::string(64, 'n')));
  EXPECT_FALSE(is_valid_name(""));
  EXPECT_FALSE(is_valid_name(std::string(65, 'n')));
  EXPECT_FALSE(is_valid_name("tab\t"));
  EXPECT_FALSE(is_valid_name("\x7f"));
  EXPECT_FALSE(is_valid_name("\xc3\xa9"));
  EXPECT_FALSE(is_valid_name(std::string_view("a\0", 2)));
}

TEST(Limiter, IsNamedByNameOrByADigestOfItsCanonicalText) {
  const MemorySetup setup;
  EXPECT_EQ(Limited(setup.store, "5/s", "log in").limiter().identities()[0], "log in:b");
  const std::string unnamed = Limited(setup.store, "5/s").limiter().identities()[0];
  EXPECT_EQ(unnamed.size(), 8U);
  EXPECT_EQ(unnamed, Limited(setup.store, "10 per 2 seconds burst 5").limiter().identities()[0]);
  EXPECT_NE(unnamed, Limited(setup.store, "5/s burst 6").limiter().identities()[0]);
}

TEST(Limiter, KeepsItsStoreAlive) {
  std::weak_ptr<Store> store;
  {
    std::unique_ptr<Limited> rate;
    {
      const MemorySetup setup;
      store = setup.store;
      rate = std::make_unique<Limited>(setup.store, "2/h");
    }
    EXPECT_FALSE(store.expired());
    EXPECT_EQ(rate->admitted("k", 5), 2);
  }
  EXPECT_TRUE(store.expired());
}

TEST(Limiter, TheUnitChargeIsTheGeneralOne) {
  const MemorySetup setup;
  for (const std::string_view text : {"5/s burst 20", "7/min", "0/s"}) {
    const Limited rate(setup.store, text);
    const Limiter& limiter = rate.limiter();
    const Charge made = make_charge(limiter.bucket(), 1, 0);
    EXPECT_EQ(limiter.charge(1, 0).inc, made.inc);
    EXPECT_EQ(limiter.charge(1, 0).bound, made.bound);
    EXPECT_EQ(limiter.charge(1, 5).bound.q, made.bound.q + 5);
    EXPECT_EQ(limiter.charge(0, 0).inc, Fraction{});
  }
}

TEST(Limiter, DeadlineIsTheStoresUnlessGiven) {
  const MemorySetup setup;
  EXPECT_EQ(Limiter(setup.store, policy_of("5/s"), "", 0).deadline(), setup.store->deadline());
  EXPECT_EQ(Limiter(setup.store, policy_of("5/s"), "", 2'000).deadline(), 2'000);
}

TEST(Limiter, UnlimitedAnswersWithoutAStore) {
  const Decision d = unlimited_decision();
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.limit, kMaxCount);
  EXPECT_EQ(d.remaining, kMaxCount);
  EXPECT_EQ(d.reset_after, 0);
}

}  // namespace
}  // namespace saqiya

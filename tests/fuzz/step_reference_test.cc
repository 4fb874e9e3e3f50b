// A million random steps of core's bucket beside the slow reference: rules at the edges of the
// ranges, rules that change under living state, clocks that stand, creep, jump and go back. Equal
// in every number, and equal in what a refund gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/bucket_harness.h"

namespace saqiya::test {
namespace {

constexpr int kWorlds = 5'000;
constexpr int kSteps = 200;

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) rules_.push_back(random_rule(random_));
    now_ = random_up_to(random_, kMaxNow);
    tickets_.resize(4);
    wanted_.resize(4);
  }

  void step() {
    if (random_() % 20 == 0) rule_ = random_() % rules_.size();
    move_clock();
    const TokenBucket& rule = rules_[rule_];
    const ReferenceRule reference = as_reference(rule);
    const std::size_t slot = random_() % tickets_.size();
    const std::int64_t cost = random_cost(rule);
    const Micros wait = random_() % 2 == 0 ? 0 : random_up_to(random_, 2 * kMaxSpan);
    Decision got;
    ReferenceDecision want;
    switch (random_() % 8) {
      case 0:
        got = core_.peek(rule, cost, now_, wait);
        want = slow_.peek(reference, cost, now_, wait);
        break;
      case 1:
      case 2:
        got = core_.give_back(rule, now_, &tickets_[slot]);
        want = slow_.refund(reference, now_, &wanted_[slot]);
        break;
      default:
        wanted_[slot] = {};
        got = core_.check(rule, cost, now_, wait, &tickets_[slot]);
        want = slow_.check(reference, cost, now_, wait, &wanted_[slot]);
        ASSERT_EQ(tickets_[slot].n != 0, wanted_[slot].charged);
    }
    expect_same(got, want);
    ASSERT_EQ(core_.state.n != 0, slow_.stored());
    last_ = got;
  }

 private:
  std::int64_t random_cost(const TokenBucket& rule) {
    if (random_() % 3 == 0) return 1;
    if (random_() % 20 == 0) return std::min(kMaxCount, rule.capacity + 1);
    return random_up_to(random_, rule.capacity);
  }

  void move_clock() {
    Micros by = 0;
    switch (random_() % 8) {
      case 0:
        break;  // stands
      case 1:
        by = last_.outcome == Outcome::kDenied ? last_.retry_after : last_.reset_after;
        by -= static_cast<Micros>(random_() % 3);  // just before, at, where the answer turns
        break;
      case 2:
        by = -random_up_to(random_, kMaxSpan);
        break;
      case 3:
        by = random_up_to(random_, kMaxSpan);
        break;
      default:
        by = random_up_to(random_, std::max<Micros>(1, rules_[rule_].period * 3 / 2));
    }
    now_ = std::clamp<Micros>(now_ + by, 0, kMaxNow);
  }

  Random random_;
  std::vector<TokenBucket> rules_;
  std::size_t rule_ = 0;
  Micros now_ = 0;
  CoreBucket core_;
  ReferenceBucket slow_;
  std::vector<Ticket> tickets_;
  std::vector<ReferenceTicket> wanted_;
  Decision last_;
};

TEST(StepReference, AMillionRandomSteps) {
  for (std::uint64_t seed = 0; seed < kWorlds; ++seed) {
    World world(seed);
    for (int i = 0; i < kSteps; ++i) {
      world.step();
      if (HasFailure()) FAIL() << "world " << seed << ", step " << i;
    }
  }
}

}  // namespace
}  // namespace saqiya::test

// Several rules and several keys on the memory store: all or nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/limited.h"
#include "tests/support/sanitizers.h"
#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::Limited;
using test::MemorySetup;
using test::StepCell;

constexpr Micros kSecond = 1'000'000;

Answer ask_all(Op op, std::vector<Item> items, std::span<Decision> each = {},
               std::span<Ticket> tickets_out = {}, std::span<const Ticket> tickets = {}) {
  Request request;
  request.op = op;
  request.items = items;
  request.each = each;
  request.tickets_out = tickets_out;
  request.tickets = tickets;
  Answer answer;
  items[0].limiter->store().execute(request, &answer);
  return answer;
}

Item item(const Limited& rate, std::string_view key, std::int64_t cost = 1) {
  return {&rate.limiter(), key, cost};
}

TEST(MemoryGroup, ARefusalByOneChargesNoOther) {
  const MemorySetup setup;
  for (const char* kind :
       {"", "fixed-window: ", "sliding-window: ", "sliding-log: ", "calendar: "}) {
    const Limited user(setup.store, kind + std::string("1/day"), "user" + std::to_string(kind[0]));
    const Limited global(setup.store, kind + std::string("100/day"),
                         "global" + std::to_string(kind[0]));
    int allowed = 0;
    for (int i = 0; i < 20; ++i) {
      const Decision d = ask_all(Op::kCheck, {item(global, "all"), item(user, "u")}).decision;
      allowed += d.outcome == Outcome::kAllowed ? 1 : 0;
      EXPECT_EQ(d.item, 1);  // the one that bound, also by what is left
    }
    EXPECT_EQ(allowed, 1) << kind;
    EXPECT_EQ(global.peek("all").remaining, 99) << kind;
    EXPECT_EQ(user.peek("u").remaining, 0) << kind;
  }
}

TEST(MemoryGroup, RulesOfOnePolicy) {
  const MemorySetup setup;
  const Limited rate(setup.store,
                     "10/s; fixed-window: 15/min; sliding-window: 20/h; sliding-log: 25/h; "
                     "calendar: 100/day; concurrency: 30 ttl 1h");
  EXPECT_EQ(rate.admitted("k", 20), 10);
  EXPECT_EQ(setup.store->stats().keys, 6U);
  EXPECT_EQ(rate.check("k").rule, 0);
  ASSERT_TRUE(setup.clock->advance(kSecond));
  EXPECT_EQ(rate.admitted("k", 20), 5);
  const Decision d = rate.check("k");
  EXPECT_EQ(d.rule, 1);
  EXPECT_EQ(d.limit, 15);
  // Only the bucket had room; what was refused has taken nothing from it.
  std::array<Decision, 6> each;
  Request peek = rate.request(Op::kPeek, "k");
  peek.each = each;
  Answer answer;
  setup.store->execute(peek, &answer);
  const std::array<std::int64_t, 6> remaining = {5, 0, 5, 10, 85, 15};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(each[i].remaining, remaining[i]) << i;
  rate.reset("k");
  EXPECT_EQ(setup.store->stats().keys, 0U);
}

TEST(MemoryGroup, TicketsOfAllRulesAreGivenBackTogether) {
  const MemorySetup setup;
  const Limited rate(setup.store,
                     "10/s; fixed-window: 15/min; sliding-log: 25/h; "
                     "concurrency: 30 ttl 1h");
  std::array<Ticket, 4> tickets;
  std::array<Decision, 4> each;
  Request check = rate.request(Op::kCheck, "k", 5);
  check.tickets_out = tickets;
  check.each = each;
  Answer answer;
  setup.store->execute(check, &answer);
  EXPECT_EQ(answer.ticket.n, 0U);
  Request settle = rate.request(Op::kSettle, "k", 2);
  settle.tickets = tickets;
  settle.each = each;
  Answer settled;
  setup.store->execute(settle, &settled);
  EXPECT_EQ(settled.decision.outcome, Outcome::kAllowed);
  // A settlement leaves the lease alone.
  const std::array<std::int64_t, 4> remaining = {8, 13, 23, 25};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(each[i].remaining, remaining[i]) << i;
  Request renew = rate.request(Op::kRenew, "k");
  renew.tickets = tickets;
  renew.each = each;
  Answer renewed;
  setup.store->execute(renew, &renewed);
  EXPECT_EQ(renewed.decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(each[0].outcome, Outcome::kDenied);
  EXPECT_EQ(each[3].outcome, Outcome::kAllowed);
}

TEST(MemoryGroup, OneKeyTwiceIsAddedUp) {
  const MemorySetup setup;
  const Limited rate(setup.store, "sliding-log: 10/day");
  std::array<Ticket, 2> tickets;
  const std::vector<Item> twice = {item(rate, "k", 4), item(rate, "k", 5)};
  EXPECT_EQ(ask_all(Op::kCheck, twice, {}, tickets).decision.remaining, 1);
  EXPECT_EQ(ask_all(Op::kCheck, twice).decision.outcome, Outcome::kDenied);
  EXPECT_EQ(rate.peek("k").remaining, 1);
  EXPECT_EQ(ask_all(Op::kRefund, twice, {}, {}, tickets).decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(rate.peek("k").remaining, 10);
}

TEST(MemoryGroup, UnlimitedItemsAreSkipped) {
  const MemorySetup setup;
  const Limited none(setup.store, "unlimited");
  const Limited rate(setup.store, "fixed-window: 10/day");
  std::array<Decision, 3> each;
  const Answer some =
      ask_all(Op::kCheck, {item(none, "a"), item(rate, "k"), item(none, "b")}, each);
  EXPECT_EQ(some.decision.item, 1);
  EXPECT_EQ(each[1].remaining, 9);
  EXPECT_EQ(each[2].outcome, Outcome::kAllowed);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(each[i].item, static_cast<std::int32_t>(i));
  EXPECT_EQ(ask_all(Op::kCheck, {item(none, "a")}).decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(setup.store->stats().keys, 1U);
}

TEST(MemoryGroup, SixteenItemsOfEightRulesInOneShard) {
  const MemorySetup setup(64);  // one shard, with less room than they need
  const Limited rate(setup.store,
                     "1/s; 2/2s; fixed-window: 3/s; fixed-window: 4/h; sliding-window: 5/h; "
                     "sliding-log: 6/h; calendar: 7/day; concurrency: 8 ttl 1h");
  std::vector<std::string> keys;
  for (int i = 0; i < 16; ++i) keys.push_back("user:" + std::to_string(i));
  std::vector<Item> items;
  for (const std::string& key : keys) items.push_back(item(rate, key));
  EXPECT_EQ(ask_all(Op::kCheck, items).decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(ask_all(Op::kCheck, items).decision.outcome, Outcome::kDenied);
  EXPECT_EQ(setup.store->stats().keys, 128U);  // those that were asked for are never evicted
  const Limited other(setup.store, "1/h");
  other.check("k");
  EXPECT_LE(setup.store->stats().keys, 64U);
}

// Against states that are never dropped, decided by the words of the specification.
TEST(MemoryGroup, RandomGroupsAsTheSpecificationSays) {
  constexpr int kEvents = test::kSanitized ? 10'000 : 40'000;
  constexpr std::size_t kKeys = 12;
  const MemorySetup setup;
  const std::array<const char*, 5> texts = {
      "7/s burst 3", "fixed-window: 6/s; sliding-window: 9/2s", "sliding-log: 5/s",
      "calendar: 100000/day", "concurrency: 5 ttl 1s; 20/s"};
  std::vector<std::unique_ptr<Limited>> limiters;
  for (const char* text : texts) limiters.push_back(std::make_unique<Limited>(setup.store, text));
  // By limiter, key and rule.
  std::vector<std::unique_ptr<StepCell>> cells;
  for (const auto& limiter : limiters) {
    for (std::size_t k = 0; k < kKeys; ++k) {
      const std::span<const Rule> rules = limiter->limiter().rules();
      cells.push_back(std::make_unique<StepCell>(rules[0]));
      cells.push_back(std::make_unique<StepCell>(rules.back()));
    }
  }
  std::mt19937 random(7);
  int allowed = 0;
  for (int event = 0; event < kEvents; ++event) {
    ASSERT_TRUE(setup.clock->advance(static_cast<Micros>(random() % 20'000)));
    struct Asked {
      StepCell* cell;
      std::int64_t total;
      Micros now;
    };
    std::vector<Asked> asked;
    std::vector<std::string> keys(1 + random() % 4);
    std::vector<Item> items;
    for (std::string& key : keys) {
      const std::size_t l = random() % texts.size();
      const std::size_t k = random() % kKeys;
      const auto cost = static_cast<std::int64_t>(random() % 3);
      key = "user:" + std::to_string(k);
      items.push_back(item(*limiters[l], key, cost));
      const std::span<const Rule> rules = limiters[l]->limiter().rules();
      for (std::size_t r = 0; r < rules.size(); ++r) {
        StepCell* const cell = cells[(l * kKeys + k) * 2 + r].get();
        const auto same = std::find_if(asked.begin(), asked.end(),
                                       [&](const Asked& a) { return a.cell == cell; });
        const Micros now =
            rules[r].uses_wall_clock() ? setup.clock->wall() : setup.clock->monotonic();
        if (same == asked.end()) {
          asked.push_back({cell, cost, now});
        } else {
          same->total += cost;
        }
      }
    }
    const bool all = std::all_of(asked.begin(), asked.end(), [](const Asked& a) {
      return a.cell->peek(a.total, a.now).outcome == Outcome::kAllowed;
    });
    const Answer answer = ask_all(Op::kCheck, items);
    ASSERT_EQ(answer.decision.outcome == Outcome::kAllowed, all) << event;
    allowed += all ? 1 : 0;
    if (!all) continue;
    for (const Asked& a : asked) {
      ASSERT_EQ(a.cell->check(a.total, a.now).outcome, Outcome::kAllowed);
    }
  }
  EXPECT_GT(allowed, kEvents / 10);
  EXPECT_LT(allowed, kEvents * 9 / 10);
}

}  // namespace
}  // namespace saqiya

// saqiya.hpp: handles, values and errors. Compiled as C++17 over the installed library, and again
// as C++20 beside the core (hpp_beside_core_test.cc includes this file).
#include "saqiya/saqiya.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

namespace sq = saqiya::api;
using sq::Micros;

template <typename T>
constexpr bool kIsMoveOnly =
    std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_assignable_v<T> &&
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;

static_assert(kIsMoveOnly<sq::Clock>);
static_assert(kIsMoveOnly<sq::Store>);
static_assert(kIsMoveOnly<sq::Limiter>);
static_assert(kIsMoveOnly<sq::Queue>);

struct Fixture {
  Fixture() : clock(Micros{1'000'000}), store(make_store(clock)) {}

  static sq::Store make_store(const sq::Clock& clock) {
    sq::StoreOptions options;
    options.clock = clock.get();
    return sq::Store("memory://", options);
  }

  sq::Clock clock;
  sq::Store store;
};

// What a call throws; fails the test when it throws nothing.
template <typename Call>
sq::Error error_of(Call call) {
  try {
    call();
  } catch (const sq::Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return sq::Error(SAQIYA_OK, -1, "");
}

TEST(Hpp, LimiterDecides) {
  Fixture f;
  sq::Limiter limiter(f.store, "5/s burst 20");
  for (int i = 19; i >= 0; --i) {
    const sq::Decision decision = limiter.check("user:42");
    ASSERT_TRUE(sq::allowed(decision));
    ASSERT_EQ(decision.remaining, i);
  }
  const sq::Decision refused = limiter.check("user:42", 3);
  EXPECT_FALSE(sq::allowed(refused));
  EXPECT_EQ(refused.retry_after_us, 600'000);
  EXPECT_EQ(limiter.take("user:42"), -200'000);
  EXPECT_EQ(limiter.take("user:42", 21), SAQIYA_TAKE_NEVER);
  f.clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(limiter.peek("user:42").remaining, 5);
  EXPECT_EQ(limiter.reset("user:42").remaining, 20);
}

TEST(Hpp, KeysMayHoldAnyByte) {
  Fixture f;
  sq::Limiter limiter(f.store, "1/h");
  using namespace std::string_view_literals;
  for (const std::string_view key : {""sv, "a"sv, "a\0"sv, "a\0b"sv, "\xff"sv}) {
    EXPECT_TRUE(sq::allowed(limiter.check(key)));
    EXPECT_FALSE(sq::allowed(limiter.check(key)));
  }
}

TEST(Hpp, TicketsGiveBackOnce) {
  Fixture f;
  sq::Limiter limiter(f.store, "1/h burst 10");
  sq::Tickets tickets;
  EXPECT_EQ(limiter.check("k", 4, &tickets).remaining, 6);
  EXPECT_EQ(tickets.size(), 1U);
  EXPECT_EQ(limiter.refund("k", tickets).remaining, 10);
  EXPECT_EQ(limiter.refund("k", tickets).outcome, SAQIYA_DENIED);
  limiter.check("k", 10);
  EXPECT_EQ(limiter.check_wait("k", std::chrono::hours(2), 1, &tickets).delay_us, 3'600'000'000);
  EXPECT_TRUE(sq::allowed(limiter.refund("k", tickets)));
  EXPECT_EQ(limiter.check_wait("k", sq::kNoWait).outcome, SAQIYA_DENIED);
}

TEST(Hpp, SettleMakesTheChargeWhatItWas) {
  Fixture f;
  sq::Limiter limiter(f.store, "1/h burst 10");
  sq::Tickets tickets;
  limiter.check("k", 4, &tickets);
  EXPECT_EQ(limiter.settle("k", tickets, 1).remaining, 9);
  EXPECT_EQ(limiter.settle("k", tickets, 0).outcome, SAQIYA_DENIED) << "spent";
  limiter.check("k", 4, &tickets);
  EXPECT_EQ(limiter.settle("k", tickets, 7).remaining, 2);
}

TEST(Hpp, LeasesAreRenewedAndReleased) {
  Fixture f;
  sq::Limiter limiter(f.store, sq::concurrency(1, std::chrono::seconds(30)));
  sq::Tickets lease;
  ASSERT_TRUE(sq::allowed(limiter.check("k", 1, &lease)));
  EXPECT_FALSE(sq::allowed(limiter.check("k")));
  f.clock.advance(std::chrono::seconds(20));
  EXPECT_EQ(limiter.renew("k", lease).reset_after_us, 30'000'000);
  f.clock.advance(std::chrono::seconds(20));
  EXPECT_FALSE(sq::allowed(limiter.check("k")));
  EXPECT_TRUE(sq::allowed(limiter.refund("k", lease)));
  EXPECT_TRUE(sq::allowed(limiter.check("k")));
  EXPECT_EQ(limiter.renew("k", lease).outcome, SAQIYA_DENIED);
}

TEST(Hpp, SeveralRules) {
  Fixture f;
  sq::Limiter limiter(f.store, {sq::token_bucket(5, 5, std::chrono::seconds(1)),
                                sq::fixed_window(7, std::chrono::hours(1))});
  EXPECT_EQ(limiter.rule_count(), 2U);
  EXPECT_EQ(limiter.rule(1).algorithm, std::uint32_t{SAQIYA_FIXED_WINDOW});
  EXPECT_EQ(limiter.rule(1).capacity, 7);
  EXPECT_EQ(error_of([&] { limiter.rule(2); }).code(), SAQIYA_INVALID);
  sq::Tickets tickets;
  ASSERT_TRUE(sq::allowed(limiter.check("k", 5, &tickets)));
  ASSERT_EQ(tickets.size(), 2U);
  f.clock.advance(std::chrono::seconds(1));
  const sq::Decision refused = limiter.check("k", 3);
  EXPECT_EQ(refused.outcome, SAQIYA_DENIED);
  EXPECT_EQ(refused.rule, 1);
  EXPECT_EQ(refused.remaining, 2);
  EXPECT_TRUE(sq::allowed(limiter.refund("k", tickets)));
  EXPECT_TRUE(sq::allowed(limiter.check("k", 3)));
  sq::Tickets few(tickets[0]);
  EXPECT_EQ(error_of([&] { limiter.refund("k", few); }).code(), SAQIYA_INVALID);
  EXPECT_EQ(error_of([&] { limiter.refund("k", tickets, 1); }).code(), SAQIYA_INVALID);
  EXPECT_EQ(error_of([&] { limiter.refund("k", tickets, SIZE_MAX); }).code(), SAQIYA_INVALID);
}

TEST(Hpp, EveryKindOfRule) {
  Fixture f;
  const std::vector<sq::Rule> rules = {
      sq::token_bucket(1, 10, std::chrono::seconds(1), 50),
      sq::fixed_window(100, std::chrono::minutes(1)),
      sq::sliding_window(1000, std::chrono::hours(1)),
      sq::sliding_log(5, std::chrono::minutes(15)),
      sq::calendar(10'000, SAQIYA_MONTH, nullptr, 15),
      sq::concurrency(20, std::chrono::seconds(30)),
  };
  const sq::Limiter all(f.store, rules);
  ASSERT_EQ(all.rule_count(), rules.size());
  const sq::Limiter again(f.store, all.policy());
  EXPECT_STREQ(again.policy(), all.policy());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    EXPECT_EQ(again.rule(i).algorithm, rules[i].algorithm);
    EXPECT_EQ(again.rule(i).capacity, rules[i].capacity);
    EXPECT_EQ(again.rule(i).queue, rules[i].queue);
    EXPECT_EQ(again.rule(i).unit, rules[i].unit);
    EXPECT_EQ(again.rule(i).anchor_day, rules[i].anchor_day);
  }
  EXPECT_STREQ(again.rule(4).zone, "UTC");
}

TEST(Hpp, SeveralLimitersAtOnce) {
  Fixture f;
  sq::Limiter user(f.store, "1/h; fixed-window: 1/day");
  sq::Limiter global(f.store, "100/h");
  const sq::Items items = {{user, "u"}, {global, "all", 2}};
  sq::Tickets tickets;
  std::vector<sq::Decision> each;
  EXPECT_TRUE(sq::allowed(sq::peek_all(items, &each)));
  EXPECT_EQ(each.size(), 3U);
  ASSERT_TRUE(sq::allowed(sq::check_all(items, &tickets, &each)));
  ASSERT_EQ(tickets.size(), 3U);
  EXPECT_EQ(each[2].remaining, 98);
  EXPECT_EQ(each[2].item, 1);
  const sq::Decision refused = sq::check_all(items);
  EXPECT_EQ(refused.outcome, SAQIYA_DENIED);
  EXPECT_EQ(refused.item, 0);
  EXPECT_EQ(refused.rule, 1);
  EXPECT_EQ(global.peek("all").remaining, 98);
  EXPECT_EQ(sq::acquire_all(items, Micros{0}).outcome, SAQIYA_DENIED);
  EXPECT_EQ(sq::acquire_pause(items, refused, 0, Micros{refused.retry_after_us - 1}), Micros{-1});
  EXPECT_EQ(sq::acquire_pause(items, refused, 0, sq::kForever), Micros{refused.retry_after_us});
  EXPECT_EQ(global.settle("all", tickets, 5, 2).remaining, 95);
  EXPECT_TRUE(sq::allowed(user.refund("u", tickets)));
  EXPECT_TRUE(sq::allowed(sq::check_all(items, &tickets)));
  EXPECT_TRUE(sq::allowed(sq::refund_all(items, tickets)));
  EXPECT_EQ(global.peek("all").remaining, 95);
  EXPECT_EQ(error_of([&] { sq::check_all({}); }).code(), SAQIYA_INVALID);
  sq::Tickets none;
  EXPECT_EQ(error_of([&] { sq::refund_all(items, none); }).code(), SAQIYA_INVALID);
}

TEST(Hpp, AcquireWaits) {
  sq::Store store("memory://");
  sq::Limiter limiter(store, "100/s burst 1");
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(sq::allowed(limiter.acquire("k", std::chrono::minutes(1))));
  }
  EXPECT_EQ(limiter.acquire("k", sq::kForever, 2).outcome, SAQIYA_NEVER);
  sq::Limiter slow(store, "1/h");
  EXPECT_TRUE(sq::allowed(slow.acquire("k", Micros{0})));
  EXPECT_FALSE(sq::allowed(slow.acquire("k", Micros{0})));
  EXPECT_FALSE(sq::allowed(slow.acquire("k", Micros{1000}))) << "not in time, so at once";
  sq::Tickets tickets;
  EXPECT_TRUE(sq::allowed(sq::acquire_all({{limiter, "k"}}, std::chrono::minutes(1), &tickets)));
  EXPECT_EQ(tickets.size(), 1U);
  EXPECT_EQ(error_of([&] { limiter.acquire("k", Micros{-1}); }).code(), SAQIYA_INVALID);
}

TEST(Hpp, ManyKeysAtOnce) {
  Fixture f;
  sq::Limiter limiter(f.store, "1/h burst 2");
  const std::vector<saqiya_key> keys = {{"a", 1}, {"b", 1}, {"a", 1}, {"a", 1}};
  sq::Tickets tickets;
  const std::vector<sq::Decision> decisions = limiter.check_many(keys, 1, &tickets);
  ASSERT_EQ(decisions.size(), 4U);
  ASSERT_EQ(tickets.size(), 4U);
  EXPECT_EQ(decisions[2].remaining, 0);
  EXPECT_EQ(decisions[3].outcome, SAQIYA_DENIED);
  EXPECT_EQ(limiter.refund("b", tickets, 1).remaining, 2);
  EXPECT_EQ(limiter.check_many(keys)[1].remaining, 1);
  EXPECT_TRUE(limiter.check_many({}).empty());
}

TEST(Hpp, RulesAndNames) {
  Fixture f;
  sq::LimiterOptions options;
  options.name = "api";
  const sq::Limiter limiter(f.store, sq::token_bucket(20, 5, std::chrono::seconds(1)), options);
  EXPECT_EQ(limiter.rule_count(), 1U);
  EXPECT_STREQ(limiter.name(), "api");
  EXPECT_EQ(limiter.rule().capacity, 20);
  EXPECT_EQ(limiter.rule().period_us, 200'000);
  EXPECT_STREQ(sq::Limiter(f.store, limiter.policy()).policy(), limiter.policy());
}

TEST(Hpp, ErrorsTellCodePositionAndMessage) {
  Fixture f;
  const sq::Error policy = error_of([&] { sq::Limiter(f.store, "5/s burst"); });
  EXPECT_EQ(policy.code(), SAQIYA_BAD_POLICY);
  EXPECT_STREQ(policy.code_name(), saqiya_status_name(SAQIYA_BAD_POLICY));
  EXPECT_EQ(policy.position(), 9);
  EXPECT_NE(std::string(policy.what()), "");
  EXPECT_EQ(error_of([] { sq::Store("what://"); }).code(), SAQIYA_BAD_URL);
  EXPECT_EQ(error_of([] { sq::Clock(Micros{-1}); }).code(), SAQIYA_INVALID);
  sq::Limiter limiter(f.store, "5/s");
  const sq::Error cost = error_of([&] { limiter.check("k", -1); });
  EXPECT_EQ(cost.code(), SAQIYA_INVALID);
  EXPECT_EQ(cost.position(), -1);
  EXPECT_STREQ(cost.what(), saqiya_status_message(SAQIYA_INVALID));
  EXPECT_EQ(limiter.take("k", -1), SAQIYA_TAKE_MISUSE);
  EXPECT_EQ(limiter.peek("k").remaining, 5);
}

TEST(Hpp, ClockReadsAndMoves) {
  sq::Clock clock;
  clock.set(std::chrono::seconds(3));
  clock.advance(Micros{-1});
  clock.set_wall(Micros{7});
  EXPECT_EQ(clock.now(), Micros{2'999'999});
  EXPECT_EQ(clock.wall(), Micros{7});
}

TEST(Hpp, HandlesMoveAndGoInAnyOrder) {
  std::optional<Fixture> f(std::in_place);
  auto limiter = std::make_unique<sq::Limiter>(f->store, "1/h burst 5");
  limiter->check("k", 2);
  sq::Limiter moved(std::move(*limiter));
  limiter.reset();
  f.reset();  // the limiter keeps the store, and that the clock
  EXPECT_EQ(moved.peek("k").remaining, 3);
  moved = sq::Limiter(sq::Store("memory://"), "1/h burst 7");
  EXPECT_EQ(moved.peek("k").remaining, 7);
}

TEST(Hpp, QueueCompletesOnALocalStore) {
  Fixture f;
  sq::Limiter limiter(f.store, "1/h burst 2");
  sq::QueueOptions options;
  options.capacity = 3;
  sq::Queue queue(f.store, options);
  sq::Request request(limiter, "k");
  for (std::uint64_t i = 1; i <= 3; ++i) {
    request.user_data = i;
    ASSERT_TRUE(queue.submit(request));
  }
  EXPECT_FALSE(queue.submit(request)) << "the queue is full";
  EXPECT_EQ(queue.pending(), 3U);
  EXPECT_FALSE(queue.cancel(99));
  queue.process();
  sq::Completion completions[4];
  ASSERT_EQ(queue.drain(completions, 4), 3U);
  EXPECT_EQ(completions[0].user_data, 1U);
  EXPECT_TRUE(sq::allowed(completions[1].decision));
  EXPECT_EQ(completions[2].decision.outcome, SAQIYA_DENIED);
  sq::Tickets ticket(completions[0].ticket);
  EXPECT_EQ(limiter.refund("k", ticket).remaining, 1);
  EXPECT_EQ(queue.timeout(), Micros{-1});
  queue.close();
  EXPECT_EQ(error_of([&] { queue.submit(request); }).code(), SAQIYA_CLOSED);
}

TEST(Hpp, QueueTakesItems) {
  Fixture f;
  sq::Limiter user(f.store, "2/h; fixed-window: 1/day");
  sq::Limiter global(f.store, "100/h");
  sq::Queue queue(f.store);
  sq::Tickets tickets;
  tickets.reset(3);
  std::vector<sq::Decision> each(3);
  sq::Items items = {{user, "u"}, {global, "all", 2}};
  sq::Request request(items);
  request.tickets = tickets.data();
  request.each = each.data();
  ASSERT_TRUE(queue.submit(request));
  items.clear();
  sq::Completion completion;
  ASSERT_EQ(queue.drain(&completion, 1), 1U);
  EXPECT_TRUE(sq::allowed(completion.decision));
  EXPECT_EQ(completion.decision.rule, 1);
  EXPECT_EQ(each[2].remaining, 98);
  EXPECT_EQ(global.refund("all", tickets, 2).remaining, 100);
}

TEST(Hpp, StatsAndKind) {
  Fixture f;
  sq::Limiter limiter(f.store, "1/h");
  limiter.check("a");
  limiter.check("b");
  EXPECT_EQ(f.store.stats().keys, 2U);
  EXPECT_TRUE(f.store.is_local());
  EXPECT_FALSE(sq::Store("redis://127.0.0.1:1").is_local());
}

}  // namespace

// Core's bucket functions put together as a store does, beside the reference; and random rules and
// requests that prefer the edges of the ranges.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>

#include "core/token_bucket.h"
#include "tests/support/reference_bucket.h"

namespace saqiya::test {

inline TokenBucket make_rule(std::int64_t capacity, std::int64_t tokens, Micros period) {
  TokenBucket rule;
  std::string error;
  EXPECT_EQ(TokenBucket::make(capacity, tokens, period, 0, &rule, &error), RangeFault::kNone)
      << error;
  return rule;
}

inline ReferenceRule as_reference(const TokenBucket& rule) {
  return {rule.capacity, rule.tokens, rule.period};
}

class CoreBucket {
 public:
  static constexpr std::uint64_t kEpoch = 77;

  Decision check(const TokenBucket& rule, std::int64_t cost, Micros now, Micros max_wait,
                 Ticket* ticket) {
    const Charge charge = make_charge(rule, cost, max_wait);
    const Fraction over = step(charge, rule.tokens, now, false, &state);
    Decision d;
    decide(rule, cost, charge, over, false, &d);
    if (ticket != nullptr) *ticket = make_ticket(rule, d, charge, over, cost, now, kEpoch);
    return d;
  }

  Decision peek(const TokenBucket& rule, std::int64_t cost, Micros now, Micros max_wait) {
    const Charge charge = make_charge(rule, cost, max_wait);
    const Fraction over = step(charge, rule.tokens, now, true, &state);
    Decision d;
    decide(rule, cost, charge, over, true, &d);
    return d;
  }

  Decision give_back(const TokenBucket& rule, Micros now, Ticket* ticket) {
    GiveBack give;
    const bool possible = make_give_back(rule, *ticket, ticket->cost, &give);
    const bool given = possible && refund(give, rule.tokens, now, &state);
    ticket->flags |= Ticket::kSpent;
    Fraction behind;
    if (state.n != 0) {
      behind = full_at(state, rule.tokens);
      behind.q -= now;
    }
    Decision d;
    describe(rule, behind, &d);
    d.outcome = given ? Outcome::kAllowed : Outcome::kDenied;
    return d;
  }

  BucketState state;
};

inline void expect_same(const Decision& got, const ReferenceDecision& want) {
  ASSERT_EQ(static_cast<int>(got.outcome), want.outcome);
  ASSERT_EQ(got.limit, want.limit);
  ASSERT_EQ(got.remaining, want.remaining);
  ASSERT_EQ(got.retry_after, want.retry_after);
  ASSERT_EQ(got.reset_after, want.reset_after);
  ASSERT_EQ(got.delay, want.delay);
  ASSERT_EQ(got.reason, Reason::kNone);
  // C17: what holds for every decision.
  ASSERT_LE(0, got.remaining);
  ASSERT_LE(got.remaining, got.limit);
  ASSERT_LE(0, got.retry_after);
  if (got.outcome == Outcome::kDenied) {
    ASSERT_LE(got.retry_after, got.reset_after);
  }
}

using Random = std::mt19937_64;

// 0 ... max; as many small numbers as large ones, and both ends often.
inline std::int64_t random_up_to(Random& random, std::int64_t max) {
  switch (random() % 8) {
    case 0:
      return max;
    case 1:
      return 0;
    case 2:
      return std::max<std::int64_t>(0, max - static_cast<std::int64_t>(random() % 3));
    default:
      break;
  }
  const auto bits =
      random() %
      (64 - static_cast<unsigned>(std::countl_zero(static_cast<std::uint64_t>(max) | 1)) + 1);
  const std::uint64_t value = bits == 0 ? 0 : random() >> (64 - bits);
  return static_cast<std::int64_t>(std::min(value, static_cast<std::uint64_t>(max)));
}

// A rule within the ranges; its capacity is often the largest that its rate allows.
inline TokenBucket random_rule(Random& random) {
  std::int64_t n = 1;
  if (random() % 2 == 0) n = 1 + random_up_to(random, (std::int64_t{1} << 32) - 2);
  std::int64_t p = 1 + random_up_to(random, kMaxSpan - 1);
  const std::int64_t divisor = std::gcd(n, p);
  n /= divisor;
  p /= divisor;
  const Wide most = Wide{kMaxSpan} * n / p;
  const auto capacity =
      random_up_to(random, most < Wide{kMaxCount} ? static_cast<std::int64_t>(most) : kMaxCount);
  return make_rule(capacity, n, p);
}

}  // namespace saqiya::test

// A limiter on a store, called as a program would call it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/limiter.h"
#include "core/rate.h"
#include "core/store.h"

namespace saqiya::test {

inline Policy policy_of(std::string_view text) {
  Policy policy;
  PolicyError error;
  EXPECT_TRUE(parse_policy(text, &policy, &error)) << text << ": " << error.message;
  return policy;
}

// One token bucket as numbers, for make_policy().
inline std::vector<RuleSpec> bucket_spec(std::int64_t capacity, std::int64_t tokens,
                                         Micros period) {
  RuleSpec spec;
  spec.capacity = capacity;
  spec.tokens = tokens;
  spec.period = period;
  return {spec};
}

inline void expect_same_numbers(const Decision& a, const Decision& b) {
  EXPECT_EQ(a.outcome, b.outcome);
  EXPECT_EQ(a.limit, b.limit);
  EXPECT_EQ(a.remaining, b.remaining);
  EXPECT_EQ(a.retry_after, b.retry_after);
  EXPECT_EQ(a.reset_after, b.reset_after);
  EXPECT_EQ(a.delay, b.delay);
  EXPECT_EQ(a.rule, b.rule);
  EXPECT_EQ(a.item, b.item);
}

class Limited {
 public:
  Limited(const std::shared_ptr<Store>& store, const Policy& policy, std::string name = {})
      : limiter_(std::make_shared<Limiter>(store, policy, std::move(name), 0)) {}
  Limited(const std::shared_ptr<Store>& store, std::string_view policy, std::string name = {})
      : Limited(store, policy_of(policy), std::move(name)) {}

  Request request(Op op, std::string_view key, std::int64_t cost = 1, Micros max_wait = 0) const {
    Request r;
    r.op = op;
    r.limiter = limiter_.get();
    r.key = key;
    r.cost = cost;
    r.max_wait = max_wait;
    return r;
  }

  Decision check(std::string_view key, std::int64_t cost = 1, Micros max_wait = 0,
                 Ticket* ticket = nullptr) const {
    const Answer answer = ask(request(Op::kCheck, key, cost, max_wait));
    if (ticket != nullptr) *ticket = answer.ticket;
    return answer.decision;
  }

  Decision peek(std::string_view key, std::int64_t cost = 1) const {
    return ask(request(Op::kPeek, key, cost)).decision;
  }

  // Marks *ticket spent, as the C API does.
  Decision refund(std::string_view key, Ticket* ticket) const {
    Request r = request(Op::kRefund, key, 0);
    const Ticket given = *ticket;
    r.tickets = {&given, 1};
    ticket->flags |= Ticket::kSpent;
    return ask(r).decision;
  }

  Decision reset(std::string_view key) const { return ask(request(Op::kReset, key, 0)).decision; }

  bool admits(std::string_view key, std::int64_t cost = 1) const {
    return check(key, cost).outcome == Outcome::kAllowed;
  }

  // How many of so many checks are allowed.
  std::int64_t admitted(std::string_view key, int tries) const {
    std::int64_t count = 0;
    for (int i = 0; i < tries; ++i) count += admits(key) ? 1 : 0;
    return count;
  }

  const Limiter& limiter() const { return *limiter_; }
  const std::shared_ptr<Limiter>& shared() const { return limiter_; }

 private:
  Answer ask(const Request& r) const {
    Answer answer;
    limiter_->store().execute(r, &answer);
    return answer;
  }

  std::shared_ptr<Limiter> limiter_;
};

// A memory store on a manual clock.
struct MemorySetup {
  explicit MemorySetup(std::uint64_t max_keys = 10'000'000, Micros now = 1'790'000'000'000'000)
      : clock(std::make_shared<ManualClock>(now)) {
    StoreOptions options;
    options.clock = clock;
    options.max_keys = max_keys;
    OpenError error;
    store = open_store("memory://", options, &error);
    EXPECT_NE(store, nullptr) << error.message;
  }

  std::shared_ptr<ManualClock> clock;
  std::shared_ptr<Store> store;
};

}  // namespace saqiya::test

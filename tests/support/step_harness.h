// One state under the steps of core/step.h, put together as a store does.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/step.h"
#include "core/timed_list.h"

namespace saqiya::test {

inline Rule window_rule(Algorithm algorithm, std::int64_t limit, Micros period) {
  Rule rule;
  rule.algorithm = algorithm;
  rule.limit = limit;
  rule.period = period;
  return rule;
}

inline Rule bucket_rule(std::int64_t capacity, std::int64_t tokens, Micros period,
                        std::int64_t queue = 0) {
  Rule rule;
  rule.period = period;
  std::string error;
  EXPECT_EQ(TokenBucket::make(capacity, tokens, period, queue, &rule.bucket, &error),
            RangeFault::kNone)
      << error;
  return rule;
}

class StepCell {
 public:
  static constexpr std::uint64_t kEpoch = 77;

  explicit StepCell(Rule of) : rule(std::move(of)) {}
  ~StepCell() { delete state.list; }
  StepCell(const StepCell&) = delete;
  StepCell& operator=(const StepCell&) = delete;

  Decision check(std::int64_t cost, Micros now, Ticket* ticket = nullptr, Micros max_wait = 0) {
    return ask(cost, now, max_wait, true, ticket);
  }
  Decision peek(std::int64_t cost, Micros now, Micros max_wait = 0) {
    return ask(cost, now, max_wait, false, nullptr);
  }

  Decision settle(Ticket* ticket, std::int64_t actual, Micros now) {
    Change what;
    const bool possible = make_change(rule, *ticket, actual, &what);
    ticket->flags |= Ticket::kSpent;
    return change(possible, what, now);
  }
  Decision refund(Ticket* ticket, Micros now) { return settle(ticket, 0, now); }
  Decision renew(const Ticket& ticket, Micros now) {
    Change what;
    const bool possible = make_renewal(rule, ticket, &what);
    return change(possible, what, now);
  }

  Seen seen(Micros now) const { return look(rule, Ask{}, state, now, floor); }

  // What is stored, to compare.
  std::vector<std::int64_t> stored() const {
    std::vector<std::int64_t> all = {state.bucket.q, state.bucket.r, state.bucket.n,
                                     state.end,      state.used,     state.previous};
    if (state.list == nullptr) return all;
    const TimedList& list = *state.list;
    all.push_back(list.total());
    for (std::uint32_t i = 0; i < list.size(); ++i) {
      all.push_back(list.at(i));
      all.push_back(list.cost(i));
      if (rule.algorithm == Algorithm::kConcurrency) {
        all.push_back(static_cast<std::int64_t>(list.id(i)));
      }
    }
    return all;
  }

  Rule rule;
  State state;
  Micros floor = 0;
  std::uint64_t next_lease = 1000;

 private:
  Decision ask(std::int64_t cost, Micros now, Micros max_wait, bool write, Ticket* ticket) {
    const Ask what = make_ask(rule, cost, max_wait, next_lease++);
    const Seen found = look(rule, what, state, now, floor);
    EXPECT_EQ(would_fit(rule, what, found, now), found.fits);
    const bool never = cost > rule.capacity() || rule.capacity() == 0;
    const bool charged = write && found.fits && !never;
    if (charged) charge(rule, what, found, now, &state);
    Decision d;
    decide(rule, cost, what, found, now, charged, &d);
    if (ticket != nullptr) {
      *ticket = charged ? make_ticket(rule, cost, what, found, now, kEpoch) : Ticket{};
    }
    return d;
  }

  Decision change(bool possible, const Change& what, Micros now) {
    const bool done = possible && apply(rule, what, now, &state);
    Decision d;
    describe(rule, seen(now), now, &d);
    d.outcome = done ? Outcome::kAllowed : Outcome::kDenied;
    return d;
  }
};

}  // namespace saqiya::test

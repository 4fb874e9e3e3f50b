#include "core/token_bucket.h"

#include <algorithm>
#include <numeric>

namespace saqiya {
namespace {

__extension__ using Wide = __int128;

Micros clamp_wait(Micros max_wait) { return std::clamp<Micros>(max_wait, 0, kMaxSpan); }

// floor(time * N/P), not below 0: the tokens that come in this time.
template <bool kWhole>
std::int64_t tokens_in(const TokenBucket& rule, Fraction time) {
  if (time.q < 0) return 0;
  if constexpr (kWhole) return time.q / rule.period;
  const Wide units = Wide{time.q} * rule.tokens + time.r;
  return static_cast<std::int64_t>(units / rule.period);
}

template <bool kWhole>
void describe_in(const TokenBucket& rule, Fraction behind, Decision* d) {
  const Units<kWhole> in{rule.tokens};
  d->limit = rule.capacity;
  const bool full = !in.positive(behind);
  d->remaining = full ? rule.capacity : tokens_in<kWhole>(rule, in.sub(rule.span, behind));
  d->reset_after = full ? 0 : in.ceil(behind);
}

template <bool kWhole>
Fraction step_in(const Charge& charge, std::uint32_t n, Micros now, bool peek, BucketState* state) {
  const Units<kWhole> in{n};
  Fraction start{now, 0};
  const Fraction stored = full_at(*state, n);
  if (in.less(start, stored)) start = stored;
  const Fraction next = in.add(start, charge.inc);
  Fraction over = in.sub(next, charge.bound);
  over.q -= now;
  if (!in.positive(over) && !peek && charge.inc != Fraction{}) *state = {next.q, next.r, n};
  return over;
}

template <bool kWhole>
void decide_in(const TokenBucket& rule, std::int64_t cost, Micros max_wait, const Charge& charge,
               Fraction over, bool peek, Decision* d) {
  const Units<kWhole> in{rule.tokens};
  const bool never = cost > rule.capacity || rule.capacity == 0;
  const bool allowed = !never && (cost == 0 || !in.positive(over));
  // How far full_at lies ahead of now, as it stands after this decision.
  Fraction behind = in.add(over, charge.bound);
  if (!allowed || peek) behind = in.sub(behind, charge.inc);
  describe_in<kWhole>(rule, behind, d);
  if (allowed) {
    d->outcome = Outcome::kAllowed;
    if (cost > 0 && max_wait > 0) {
      d->delay = std::max<Micros>(0, in.ceil(over) + clamp_wait(max_wait));
    }
  } else if (never) {
    d->outcome = Outcome::kNever;
    d->retry_after = kForever;
  } else {
    d->outcome = Outcome::kDenied;
    d->retry_after = in.ceil(over);
  }
}

}  // namespace

RangeFault TokenBucket::make(std::int64_t capacity, std::int64_t tokens, Micros period,
                             TokenBucket* rule, std::string* error) {
  const auto fault = [error](RangeFault which, const char* what) {
    *error = what;
    return which;
  };
  if (capacity < 0) return fault(RangeFault::kCapacity, "the capacity must not be negative");
  if (capacity > kMaxCount) {
    return fault(RangeFault::kCapacity, "the capacity must be at most 9007199254740991 (2^53 - 1)");
  }
  if (tokens < 0) return fault(RangeFault::kTokens, "the token count must not be negative");
  if (period < 1) return fault(RangeFault::kPeriod, "the period must be at least 1 microsecond");
  if (tokens == 0) {
    if (capacity != 0) {
      return fault(RangeFault::kTokens, "the token count may be 0 only when the capacity is 0");
    }
    tokens = 1;  // nothing ever passes: any rate will do
    period = 1;
  }
  const std::int64_t divisor = std::gcd(tokens, period);
  tokens /= divisor;
  period /= divisor;
  if (tokens >= std::int64_t{1} << 32) {
    return fault(RangeFault::kTokens,
                 "the token count must be below 4294967296 (2^32) once the rate is reduced");
  }
  if (period > kMaxSpan) {
    return fault(RangeFault::kPeriod,
                 "the period must be at most 1125899906842624 us (2^50, 35.7 years)");
  }
  const Wide units = Wide{capacity} * period;
  if (units > Wide{kMaxSpan} * tokens) {
    return fault(RangeFault::kSpan,
                 "the time to fill must be at most 1125899906842624 us (2^50, 35.7 years)");
  }
  rule->capacity = capacity;
  rule->tokens = static_cast<std::uint32_t>(tokens);
  rule->period = period;
  rule->span = rule->cost_in_time(capacity);
  return RangeFault::kNone;
}

Fraction TokenBucket::cost_in_time(std::int64_t cost) const {
  const Wide units = Wide{cost} * period;
  if (tokens == 1) return {static_cast<std::int64_t>(units), 0};
  return {static_cast<std::int64_t>(units / tokens), static_cast<std::uint32_t>(units % tokens)};
}

Charge make_charge(const TokenBucket& rule, std::int64_t cost, Micros max_wait) {
  Charge charge;
  if (cost <= rule.capacity) charge.inc = rule.cost_in_time(cost);
  charge.bound = {rule.span.q + clamp_wait(max_wait), rule.span.r};
  return charge;
}

Fraction step(const Charge& charge, std::uint32_t n, Micros now, bool peek, BucketState* state) {
  return n == 1 ? step_in<true>(charge, n, now, peek, state)
                : step_in<false>(charge, n, now, peek, state);
}

void describe(const TokenBucket& rule, Fraction behind, Decision* decision) {
  rule.tokens == 1 ? describe_in<true>(rule, behind, decision)
                   : describe_in<false>(rule, behind, decision);
}

void decide(const TokenBucket& rule, std::int64_t cost, Micros max_wait, const Charge& charge,
            Fraction over, bool peek, Decision* decision) {
  rule.tokens == 1 ? decide_in<true>(rule, cost, max_wait, charge, over, peek, decision)
                   : decide_in<false>(rule, cost, max_wait, charge, over, peek, decision);
}

Ticket make_ticket(const TokenBucket& rule, const Decision& decision, const Charge& charge,
                   Fraction over, std::int64_t cost, Micros now, std::uint64_t epoch) {
  Ticket ticket;
  if (decision.outcome != Outcome::kAllowed || charge.inc == Fraction{}) return ticket;
  const Fraction next = Units<false>{rule.tokens}.add(over, charge.bound);
  ticket.q = next.q + now;
  ticket.r = next.r;
  ticket.n = rule.tokens;
  ticket.cost = cost;
  ticket.epoch = epoch;
  ticket.flags = decision.delay > 0 ? Ticket::kReservation : 0;
  return ticket;
}

bool make_give_back(const TokenBucket& rule, const Ticket& ticket, GiveBack* out) {
  if (ticket.n == 0 || (ticket.flags & Ticket::kSpent) != 0) return false;
  if (ticket.cost <= 0 || rule.capacity == 0) return false;
  if (ticket.q < 0 || ticket.q > kMaxNow * 2 || ticket.r >= ticket.n) return false;
  // The cost may be above today's capacity. No ticket lies further ahead than two spans and now.
  const Wide cost_units = Wide{ticket.cost} * rule.period;
  constexpr std::int64_t kMost = kMaxNow * 2 - 1;
  if (cost_units >= Wide{kMost} * rule.tokens) {
    out->inc = {kMost, 0};
  } else {
    out->inc = rule.cost_in_time(ticket.cost);
  }
  // Under another N the remainder is dropped: this gives at most 1 us less, never more. (The state
  // itself is then taken as 1 us later, so a reservation is found by full_at(), the same way.)
  const bool reservation = (ticket.flags & Ticket::kReservation) != 0;
  out->ticket = {ticket.q, ticket.r};
  if (ticket.n != rule.tokens && ticket.r != 0) {
    out->ticket = {reservation ? ticket.q + 1 : ticket.q, 0};
  }
  out->reservation = reservation;
  return true;
}

bool refund(const GiveBack& give, std::uint32_t n, Micros now, BucketState* state) {
  const Units<false> in{n};
  const Fraction present{now, 0};
  if (state->n == 0) return false;
  const Fraction stored = full_at(*state, n);
  if (!in.less(present, stored)) return false;  // full already
  if (give.reservation && stored != give.ticket) return false;
  Fraction amount = in.sub(give.ticket, present);
  if (in.less(give.inc, amount)) amount = give.inc;
  if (!in.positive(amount)) return false;
  Fraction next = in.sub(stored, amount);
  if (in.less(next, present)) next = present;
  *state = {next.q, next.r, n};
  return true;
}

}  // namespace saqiya

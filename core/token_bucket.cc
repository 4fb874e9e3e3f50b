#include "core/token_bucket.h"

#include <algorithm>
#include <numeric>

namespace saqiya {
namespace {

__extension__ using Wide = __int128;

bool less(Fraction a, Fraction b) { return a.q < b.q || (a.q == b.q && a.r < b.r); }

Fraction add(Fraction a, Fraction b, std::uint32_t n) {
  const std::uint64_t r = std::uint64_t{a.r} + b.r;
  if (r >= n) return {a.q + b.q + 1, static_cast<std::uint32_t>(r - n)};
  return {a.q + b.q, static_cast<std::uint32_t>(r)};
}

Fraction sub(Fraction a, Fraction b, std::uint32_t n) {
  if (a.r >= b.r) return {a.q - b.q, a.r - b.r};
  return {a.q - b.q - 1, static_cast<std::uint32_t>(std::uint64_t{n} + a.r - b.r)};
}

bool positive(Fraction a) { return a.q > 0 || (a.q == 0 && a.r > 0); }

Micros ceil(Fraction a) { return a.q + (a.r > 0 ? 1 : 0); }

Fraction whole(Micros q) { return {q, 0}; }

Micros clamp_wait(Micros max_wait) { return std::clamp<Micros>(max_wait, 0, kMaxSpan); }

// floor(time * N/P), not below 0: the tokens that come in this time.
std::int64_t tokens_in(const TokenBucket& rule, Fraction time) {
  if (time.q < 0) return 0;
  if (rule.tokens == 1) {
    // Most buckets' times fit 32 bits or so; either way a 64-bit division.
    return time.q / rule.period;
  }
  const Wide units = Wide{time.q} * rule.tokens + time.r;
  return static_cast<std::int64_t>(units / rule.period);
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
  if (tokens == 1) return whole(static_cast<std::int64_t>(units));
  return {static_cast<std::int64_t>(units / tokens), static_cast<std::uint32_t>(units % tokens)};
}

Charge make_charge(const TokenBucket& rule, std::int64_t cost, Micros max_wait) {
  Charge charge;
  if (cost <= rule.capacity) charge.inc = rule.cost_in_time(cost);
  charge.bound = {rule.span.q + clamp_wait(max_wait), rule.span.r};
  return charge;
}

Fraction step(const Charge& charge, std::uint32_t n, Micros now, bool peek, BucketState* state) {
  Fraction start = whole(now);
  if (state->n != 0) {
    const Fraction stored = full_at(*state, n);
    if (less(start, stored)) start = stored;
  }
  const Fraction next = add(start, charge.inc, n);
  Fraction over = sub(next, charge.bound, n);
  over.q -= now;
  if (!positive(over) && !peek && charge.inc != Fraction{}) *state = {next.q, next.r, n};
  return over;
}

void describe(const TokenBucket& rule, Fraction behind, Decision* decision) {
  decision->limit = rule.capacity;
  if (!positive(behind)) {
    decision->remaining = rule.capacity;
    decision->reset_after = 0;
    return;
  }
  decision->remaining = tokens_in(rule, sub(rule.span, behind, rule.tokens));
  decision->reset_after = ceil(behind);
}

Decision decide(const TokenBucket& rule, std::int64_t cost, Micros max_wait, const Charge& charge,
                Fraction over, bool peek) {
  Decision d;
  const std::uint32_t n = rule.tokens;
  const bool never = cost > rule.capacity || rule.capacity == 0;
  const bool allowed = !never && (cost == 0 || !positive(over));
  // behind: how far full_at lies ahead of now, as it stands after this decision.
  Fraction behind = add(over, charge.bound, n);
  if (!allowed || peek) behind = sub(behind, charge.inc, n);
  describe(rule, behind, &d);
  if (never) {
    d.outcome = Outcome::kNever;
    d.retry_after = kForever;
  } else if (allowed) {
    d.outcome = Outcome::kAllowed;
    if (cost > 0 && max_wait > 0) {
      const Fraction late = {over.q + clamp_wait(max_wait), over.r};
      d.delay = std::max<Micros>(0, ceil(late));
    }
  } else {
    d.outcome = Outcome::kDenied;
    d.retry_after = ceil(over);
  }
  return d;
}

Ticket make_ticket(const TokenBucket& rule, const Decision& decision, const Charge& charge,
                   Fraction over, std::int64_t cost, Micros now, std::uint64_t epoch) {
  Ticket ticket;
  if (decision.outcome != Outcome::kAllowed || charge.inc == Fraction{}) return ticket;
  const Fraction next = add(over, charge.bound, rule.tokens);
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
  out->inc = rule.cost_in_time(std::min(ticket.cost, rule.capacity));
  // Under another N the remainder is dropped: this gives at most 1 us less, never more. (The state
  // itself is then taken as 1 us later, so a reservation is found by full_at(), the same way.)
  const bool reservation = (ticket.flags & Ticket::kReservation) != 0;
  out->ticket = {ticket.q, ticket.r};
  if (ticket.n != rule.tokens && ticket.r != 0) {
    out->ticket = whole(reservation ? ticket.q + 1 : ticket.q);
  }
  out->reservation = reservation;
  return true;
}

bool refund(const GiveBack& give, std::uint32_t n, Micros now, BucketState* state) {
  if (state->n == 0) return false;
  const Fraction stored = full_at(*state, n);
  if (give.reservation && !(stored == give.ticket)) return false;
  Fraction amount = sub(give.ticket, whole(now), n);
  if (less(give.inc, amount)) amount = give.inc;
  if (!positive(amount)) return false;
  if (!less(whole(now), stored)) return false;  // full already
  Fraction next = sub(stored, amount, n);
  if (less(next, whole(now))) next = whole(now);
  *state = {next.q, next.r, n};
  return true;
}

}  // namespace saqiya

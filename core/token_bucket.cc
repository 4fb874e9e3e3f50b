#include "core/token_bucket.h"

#include <algorithm>
#include <numeric>

#include "core/rule.h"

namespace saqiya {
namespace {

__extension__ using Wide = __int128;

// How long a check accepts to wait.
template <bool kWhole>
Fraction effective_wait(const TokenBucket& rule, Micros max_wait) {
  if (max_wait < 0) return {};
  if (max_wait == 0) return rule.queue_wait;
  const Fraction wait{std::min(max_wait, kMaxSpan), 0};
  const bool shorter = rule.queue > 0 && Units<kWhole>::less(rule.queue_wait, wait);
  return shorter ? rule.queue_wait : wait;
}

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
void decide_in(const TokenBucket& rule, std::int64_t cost, const Charge& charge, Fraction over,
               bool peek, Decision* d) {
  const Units<kWhole> in{rule.tokens};
  const bool never = cost > rule.capacity || rule.capacity == 0;
  const bool allowed = !never && (cost == 0 || !in.positive(over));
  // How far full_at lies ahead of now, as it stands after this decision.
  Fraction behind = in.add(over, charge.bound);
  if (!allowed || peek) behind = in.sub(behind, charge.inc);
  describe_in<kWhole>(rule, behind, d);
  if (allowed) {
    d->outcome = Outcome::kAllowed;
    if (cost > 0 && charge.bound != rule.span) {
      d->delay = std::max<Micros>(0, in.ceil(in.sub(in.add(over, charge.bound), rule.span)));
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
                             std::int64_t queue, TokenBucket* rule, std::string* error) {
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
  if (queue < 0 || queue > kMaxCount || Wide{queue} * period > Wide{kMaxSpan} * tokens) {
    return fault(RangeFault::kQueue,
                 "the time that the queue takes must be at most 1125899906842624 us (2^50)");
  }
  rule->capacity = capacity;
  rule->tokens = static_cast<std::uint32_t>(tokens);
  rule->period = period;
  rule->span = rule->cost_in_time(capacity);
  rule->queue = queue;
  rule->queue_wait = rule->cost_in_time(queue);
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
  const bool whole = rule.tokens == 1;
  const Fraction wait =
      whole ? effective_wait<true>(rule, max_wait) : effective_wait<false>(rule, max_wait);
  charge.bound = Units<false>{rule.tokens}.add(rule.span, wait);
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

void decide(const TokenBucket& rule, std::int64_t cost, const Charge& charge, Fraction over,
            bool peek, Decision* decision) {
  rule.tokens == 1 ? decide_in<true>(rule, cost, charge, over, peek, decision)
                   : decide_in<false>(rule, cost, charge, over, peek, decision);
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
  ticket.algorithm = static_cast<std::uint32_t>(Algorithm::kTokenBucket);
  ticket.flags = decision.delay > 0 ? Ticket::kReservation : 0;
  return ticket;
}

bool make_give_back(const TokenBucket& rule, const Ticket& ticket, std::int64_t amount,
                    GiveBack* out) {
  if (ticket.n == 0 || (ticket.flags & Ticket::kSpent) != 0) return false;
  // Tickets of token buckets may have no algorithm: they are older than the others.
  const bool ours = ticket.algorithm == static_cast<std::uint32_t>(Algorithm::kTokenBucket);
  if (!ours && ticket.algorithm != 0) return false;
  if (ticket.cost <= 0 || rule.capacity == 0) return false;
  if (ticket.q < 0 || ticket.q > kMaxNow * 2 || ticket.r >= ticket.n) return false;
  // The cost may be above today's capacity. No ticket lies further ahead than two spans and now.
  const Wide cost_units = Wide{amount < 0 ? -amount : amount} * rule.period;
  constexpr std::int64_t kMost = kMaxNow * 2 - 1;
  if (cost_units >= Wide{kMost} * rule.tokens) {
    out->inc = {kMost, 0};
  } else {
    out->inc = rule.cost_in_time(amount < 0 ? -amount : amount);
  }
  // Under another N the remainder is dropped: this gives at most 1 us less, never more. (The state
  // itself is then taken as 1 us later, so a reservation is found by full_at(), the same way.) What
  // is charged in addition is charged 1 us more, for the same reason.
  const bool reservation = (ticket.flags & Ticket::kReservation) != 0;
  out->ticket = {ticket.q, ticket.r};
  if (ticket.n != rule.tokens && ticket.r != 0) {
    out->ticket = {reservation || amount < 0 ? ticket.q + 1 : ticket.q, 0};
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

bool settle_up(const GiveBack& more, std::uint32_t n, Micros now, BucketState* state) {
  const Units<false> in{n};
  const Fraction present{now, 0};
  if (state->n == 0) return false;
  const Fraction stored = full_at(*state, n);
  if (!in.less(present, stored)) return false;  // full
  Fraction add = more.inc;
  if (in.less(more.ticket, present)) add = in.sub(add, in.sub(present, more.ticket));
  if (!in.positive(add)) return false;
  Fraction most{now + kMaxSpan, 0};
  if (in.less(most, stored)) most = stored;
  Fraction next = in.add(stored, add);
  if (in.less(most, next)) next = most;
  // Else the state stays as it is, in units of an older rule perhaps: Redis writes nothing then.
  if (next != stored) *state = {next.q, next.r, n};
  return true;
}

}  // namespace saqiya

#include "core/step.h"

#include <algorithm>

#include "core/concurrency.h"
#include "core/fixed_window.h"
#include "core/sliding_log.h"
#include "core/sliding_window.h"

namespace saqiya {
namespace {

bool bucket_fits(const Ask& ask, Fraction over) {
  return ask.cost == 0 || !Units<false>::positive(over);
}

// The state that a charge leaves.
Seen charged_state(const Rule& rule, const Ask& ask, Seen seen, Micros now) {
  if (ask.cost == 0) return seen;
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      break;
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      fixed_window::charge(ask, &seen);
      break;
    case Algorithm::kSlidingWindow:
      sliding_window::charge(ask, &seen);
      break;
    case Algorithm::kSlidingLog:
      sliding_log::charge(rule, ask, now, &seen);
      break;
    case Algorithm::kConcurrency:
      concurrency::charge(rule, ask, now, &seen);
      break;
  }
  return seen;
}

// Of all but token buckets: when the cost that does not fit will.
Micros passes_at(const Rule& rule, const Ask& ask, const Seen& seen) {
  switch (rule.algorithm) {
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      return seen.end;
    case Algorithm::kSlidingWindow:
      return sliding_window::passes_at(rule, ask, seen);
    default:
      return seen.passes_at;
  }
}

bool is_unspent(const Rule& rule, const Ticket& ticket) {
  const auto algorithm = static_cast<std::uint32_t>(rule.algorithm);
  // Tickets of token buckets may have none: they are older than the others.
  if (ticket.algorithm != algorithm && !(ticket.algorithm == 0 && rule.is_bucket())) return false;
  return ticket.n != 0 && ticket.cost > 0 && (ticket.flags & Ticket::kSpent) == 0;
}

bool is_well_formed(const Ticket& ticket) {
  return ticket.n == 1 && ticket.r == 0 && ticket.q >= 0 && ticket.q <= kMaxNow * 2 &&
         ticket.cost <= kMaxCount;
}

}  // namespace

Ask make_ask(const Rule& rule, std::int64_t cost, Micros max_wait, std::uint64_t lease) {
  Ask ask;
  ask.cost = cost <= rule.capacity() ? cost : 0;
  ask.lease = lease;
  if (rule.is_bucket()) ask.charge = make_charge(rule.bucket, cost, max_wait);
  return ask;
}

Seen look(const Rule& rule, const Ask& ask, const State& state, Micros now, Micros floor) {
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      break;
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      return fixed_window::look(rule, ask, state, now, floor);
    case Algorithm::kSlidingWindow:
      return sliding_window::look(rule, ask, state, now, floor);
    case Algorithm::kSlidingLog:
      return sliding_log::look(rule, ask, state, now, floor);
    case Algorithm::kConcurrency:
      return concurrency::look(rule, ask, state, now);
  }
  Seen seen;
  BucketState bucket = state.bucket;
  if (bucket.n == 0) bucket = {std::max(bucket.q, floor), 0, 0};
  seen.over = step(ask.charge, rule.bucket.tokens, now, true, &bucket);
  seen.fits = bucket_fits(ask, seen.over);
  return seen;
}

bool would_fit(const Rule& rule, const Ask& ask, const Seen& seen, Micros now) {
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      break;
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      return fixed_window::fits(rule, ask, seen);
    case Algorithm::kSlidingWindow:
      return sliding_window::fits(rule, ask, seen, now);
    case Algorithm::kSlidingLog:
    case Algorithm::kConcurrency:
      return sliding_log::fits(rule, ask, seen);
  }
  return bucket_fits(ask, seen.over);
}

void charge(const Rule& rule, const Ask& ask, const Seen& seen, Micros now, State* state) {
  if (ask.cost == 0) return;
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket: {
      const Fraction next = Units<false>{rule.bucket.tokens}.add(seen.over, ask.charge.bound);
      state->bucket = {next.q + now, next.r, rule.bucket.tokens};
      break;
    }
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
    case Algorithm::kSlidingWindow:
      state->end = seen.end;
      state->previous = seen.previous;
      state->used = seen.used + ask.cost;
      break;
    case Algorithm::kSlidingLog:
      sliding_log::charge(rule, ask, seen, now, state);
      break;
    case Algorithm::kConcurrency:
      concurrency::charge(rule, ask, now, state);
      break;
  }
}

void decide(const Rule& rule, std::int64_t cost, const Ask& ask, const Seen& seen, Micros now,
            bool charged, Decision* decision) {
  if (rule.is_bucket()) {
    decide(rule.bucket, cost, ask.charge, seen.over, !charged, decision);
    return;
  }
  describe(rule, charged ? charged_state(rule, ask, seen, now) : seen, now, decision);
  if (cost > rule.limit || rule.limit == 0) {
    decision->outcome = Outcome::kNever;
    decision->retry_after = kForever;
  } else if (seen.fits) {
    decision->outcome = Outcome::kAllowed;
  } else {
    decision->outcome = Outcome::kDenied;
    decision->retry_after = passes_at(rule, ask, seen) - now;
  }
}

Ticket make_ticket(const Rule& rule, std::int64_t cost, const Ask& ask, const Seen& seen,
                   Micros now, std::uint64_t epoch) {
  if (cost == 0) return {};
  if (rule.is_bucket()) {
    Decision decision;
    decide(rule.bucket, cost, ask.charge, seen.over, false, &decision);
    return make_ticket(rule.bucket, decision, ask.charge, seen.over, cost, now, epoch);
  }
  Ticket ticket;
  ticket.n = 1;
  ticket.cost = cost;
  ticket.epoch = epoch;
  ticket.algorithm = static_cast<std::uint32_t>(rule.algorithm);
  switch (rule.algorithm) {
    case Algorithm::kSlidingLog:
      ticket.q = sliding_log::charged_at(rule, seen, now);
      break;
    case Algorithm::kConcurrency:
      ticket.q = concurrency::expiry(rule, now);
      ticket.lease = ask.lease;
      break;
    default:
      ticket.q = seen.end;
  }
  return ticket;
}

bool make_change(const Rule& rule, const Ticket& ticket, std::int64_t actual, Change* change) {
  if (!is_unspent(rule, ticket)) return false;
  change->renew = false;
  change->delta = actual - ticket.cost;
  change->instant = ticket.q;
  change->lease = ticket.lease;
  if (rule.is_bucket()) return make_give_back(rule.bucket, ticket, -change->delta, &change->bucket);
  return is_well_formed(ticket);
}

bool make_renewal(const Rule& rule, const Ticket& ticket, Change* change) {
  if (rule.algorithm != Algorithm::kConcurrency) return false;
  if (!make_change(rule, ticket, ticket.cost, change)) return false;
  change->renew = true;
  return true;
}

bool apply(const Rule& rule, const Change& change, Micros now, State* state) {
  if (change.delta == 0 && !change.renew) return true;
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      break;
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      return fixed_window::apply(change, now, state);
    case Algorithm::kSlidingWindow:
      return sliding_window::apply(rule, change, now, state);
    case Algorithm::kSlidingLog:
      return sliding_log::apply(rule, change, now, state);
    case Algorithm::kConcurrency:
      return concurrency::apply(rule, change, now, state);
  }
  const std::uint32_t n = rule.bucket.tokens;
  return change.delta > 0 ? settle_up(change.bucket, n, now, &state->bucket)
                          : refund(change.bucket, n, now, &state->bucket);
}

void describe(const Rule& rule, const Seen& seen, Micros now, Decision* decision) {
  decision->limit = rule.capacity();
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      describe(rule.bucket, seen.over, decision);
      break;
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      fixed_window::describe(rule, seen, now, decision);
      break;
    case Algorithm::kSlidingWindow:
      sliding_window::describe(rule, seen, now, decision);
      break;
    case Algorithm::kSlidingLog:
    case Algorithm::kConcurrency:
      sliding_log::describe(rule, seen, now, decision);
      break;
  }
}

Micros dead_at(const Rule& rule, const State& state) {
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      break;
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      return state.used > 0 ? state.end : 0;
    case Algorithm::kSlidingWindow:
      if (state.used > 0) return state.end + rule.period;
      return state.previous > 0 ? state.end : 0;
    case Algorithm::kSlidingLog:
    case Algorithm::kConcurrency: {
      if (state.list == nullptr || state.list->empty()) return 0;
      const bool is_log = rule.algorithm == Algorithm::kSlidingLog;
      return state.list->last() + (is_log ? rule.period : 0);
    }
  }
  return state.bucket.n == 0 ? 0 : state.bucket.q + (state.bucket.r > 0 ? 1 : 0);
}

}  // namespace saqiya

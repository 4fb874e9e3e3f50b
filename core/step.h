// The contract of a step: (state, rule, now, cost) -> (what was seen, new state), then a decision.
// No clock, no I/O.
//
// A step has two halves, so that several rules can be decided together: look() reads, and when
// every rule's part fits, charge() writes. What look() returns is exactly what the Lua scripts
// return, so decisions over Redis and in the process are made by the same code from the same
// numbers.
//
// Single token buckets take the shorter way of token_bucket.h.
#pragma once

#include <cstdint>

#include "core/decision.h"
#include "core/rule.h"
#include "core/time.h"

namespace saqiya {

class TimedList;

// What a request asks of one rule. Made once per request.
struct Ask {
  std::int64_t cost = 0;    // 0 only reads; so does a cost that can never pass
  Charge charge;            // token bucket
  std::uint64_t lease = 0;  // concurrency: the id of the lease to be
};

// max_wait: as in effective_wait() of token_bucket.h.
Ask make_ask(const Rule& rule, std::int64_t cost, Micros max_wait, std::uint64_t lease);

// The state of any algorithm, as a store holds it; which members count depends on the rule.
struct State {
  BucketState bucket;         // token bucket
  Micros end = 0;             // windows: of the newest one
  std::int64_t used = 0;      // windows: charged in it. Absent when used and previous are 0
  std::int64_t previous = 0;  // sliding window: charged in the one before
  // log, concurrency; absent when null or empty. charge() makes it, and may replace it by a larger
  // one; the store keeps what it finds here afterwards and deletes it with the entry.
  TimedList* list = nullptr;
};

// What look() found: the state as it stands now, before any charge.
struct Seen {
  bool fits = false;      // always when ask.cost is 0
  Fraction over;          // token bucket: what step() returns
  Micros end = 0;         // windows: of the one under way. log, concurrency: when the last is gone
  std::int64_t used = 0;  // windows: charged in it. log, concurrency: what counts now
  std::int64_t previous = 0;  // sliding window
  Micros passes_at = 0;       // log, concurrency, when it does not fit: when it will
};

// floor: the latest instant at which a state was dropped as dead (0: none); an absent state is
// taken as one that was new then, so that a clock that goes back gives nothing. (Leases that have
// run out are gone in any case.)
Seen look(const Rule& rule, const Ask& ask, const State& state, Micros now, Micros floor);

// Whether what was seen leaves room for the ask: seen.fits of look(), from the numbers alone. What
// asks nothing always fits.
bool would_fit(const Rule& rule, const Ask& ask, const Seen& seen, Micros now);

// Makes the charge that fits. May throw std::bad_alloc for a list, having changed nothing.
void charge(const Rule& rule, const Ask& ask, const Seen& seen, Micros now, State* state);

// What look() saw, told as a decision. charged: the charge was made; else the untouched state is
// described (a peek, a refusal, or a group in which another rule refused). cost is the true one.
// *decision must be default.
void decide(const Rule& rule, std::int64_t cost, const Ask& ask, const Seen& seen, Micros now,
            bool charged, Decision* decision);

// The ticket of a charge that was made.
Ticket make_ticket(const Rule& rule, std::int64_t cost, const Ask& ask, const Seen& seen,
                   Micros now, std::uint64_t epoch);

// A refund, a settlement or a renewal, in the step's terms.
struct Change {
  bool renew = false;
  std::int64_t delta = 0;   // to be added to what was charged
  GiveBack bucket;          // token bucket: inc is the cost of |delta|
  Micros instant = 0;       // windows: end of the one charged. log: of the entry
  std::uint64_t lease = 0;  // concurrency
};

// False when the ticket has nothing to give under this rule: empty, spent, malformed, of another
// algorithm; or when a renewal is asked of a rule that has no leases.
bool make_change(const Rule& rule, const Ticket& ticket, std::int64_t actual, Change* change);
bool make_renewal(const Rule& rule, const Ticket& ticket, Change* change);

// True when it was done; with a delta of 0 always: there is nothing to do. Never creates a state,
// and does not allocate.
bool apply(const Rule& rule, const Change& change, Micros now, State* state);

// The state afterwards, and after a reset (an empty Seen), as a decision: limit, remaining and
// reset_after. Of a token bucket seen.over is here full_at - now (at most 0: full).
void describe(const Rule& rule, const Seen& seen, Micros now, Decision* decision);

// The instant from which on the state equals an absent one (in the rule's clock).
Micros dead_at(const Rule& rule, const State& state);

}  // namespace saqiya

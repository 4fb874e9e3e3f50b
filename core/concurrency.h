// Concurrency: leases that are released, or run out by themselves. Pure but for the list's memory.
//
// A lease counts until its expiry; the list is sorted by that.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/sliding_log.h"
#include "core/step.h"
#include "core/timed_list.h"

namespace saqiya::concurrency {

inline Seen look(const Rule& rule, const Ask& ask, const State& state, Micros now) {
  return sliding_log::look(rule, ask, state.list, 0, now);
}

inline Micros expiry(const Rule& rule, Micros now) { return now + rule.period; }

inline void charge(const Rule& rule, const Ask& ask, Micros now, State* state) {
  TimedList::add(&state->list, TimedList::Kind::kLeases, now,
                 {expiry(rule, now), static_cast<std::uint32_t>(ask.cost), ask.lease});
}

// The same, of what is known of the state.
inline void charge(const Rule& rule, const Ask& ask, Micros now, Seen* seen) {
  seen->end = std::max(seen->end, expiry(rule, now));
  seen->used += ask.cost;
}

// Release, settle, renew.
bool apply(const Rule& rule, const Change& change, Micros now, State* state);

}  // namespace saqiya::concurrency

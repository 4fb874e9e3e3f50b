// Fixed and calendar windows, exactly: how much was charged in the window under way. Pure.
//
// The state is (end, used): the end of the window last charged. While that lies ahead the window
// goes on, whatever its length is by today's rule, so that neither a changed period nor a clock
// that goes back begins a new one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/step.h"

namespace saqiya::fixed_window {

// The end of the window that holds now, by the rule.
Micros end_of(const Rule& rule, Micros now);

inline bool is_live(const State& state, Micros now) { return state.used > 0 && state.end > now; }

inline bool fits(const Rule& rule, const Ask& ask, const Seen& seen) {
  return ask.cost == 0 || seen.used + ask.cost <= rule.limit;
}

inline Seen look(const Rule& rule, const Ask& ask, const State& state, Micros now, Micros floor) {
  Seen seen;
  if (is_live(state, now)) {
    seen.end = state.end;
    seen.used = state.used;
  } else {
    seen.end = end_of(rule, state.used > 0 ? now : std::max(now, floor));
  }
  seen.fits = fits(rule, ask, seen);
  return seen;
}

inline void charge(const Ask& ask, Seen* seen) { seen->used += ask.cost; }

inline void describe(const Rule& rule, const Seen& seen, Micros now, Decision* d) {
  d->remaining = std::max<std::int64_t>(0, rule.limit - seen.used);
  d->reset_after = seen.used > 0 ? seen.end - now : 0;
}

bool apply(const Change& change, Micros now, State* state);

}  // namespace saqiya::fixed_window

// The sliding window counter, exactly: what was charged in the window under way, and what was in
// the one before, weighted by how much of that still lies within one period. Pure.
//
// The state is (end, previous, used), as of the last charge; roll() brings it to now. The weight is
// a ratio of integers: nothing is ever rounded but the weighted sum, upwards, once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/step.h"

namespace saqiya::sliding_window {

__extension__ using Wide = __int128;

// floor(a * b / c), for a result that is below 2^63; a, b >= 0, c > 0.
inline std::int64_t multiply_divide(std::int64_t a, std::int64_t b, std::int64_t c) {
  const Wide product = Wide{a} * b;
  // A division of 128 bits is slow, and seldom needed.
  if (product >> 63 == 0) return static_cast<std::int64_t>(product) / c;
  return static_cast<std::int64_t>(product / c);
}

// What counts of the window before: ceil(previous * x / period), x being what is left of the window
// under way.
inline std::int64_t weighted(const Rule& rule, const Seen& seen, Micros now) {
  if (seen.previous == 0) return 0;
  // Further ahead than a period only after the clock went back. (Not negative: a script's word.)
  const Micros x = std::clamp<Micros>(seen.end - now, 0, rule.period);
  const Wide product = Wide{seen.previous} * x + (rule.period - 1);
  if (product >> 63 == 0) return static_cast<std::int64_t>(product) / rule.period;
  return static_cast<std::int64_t>(product / rule.period);
}

inline Micros end_of(const Rule& rule, Micros now) { return now - now % rule.period + rule.period; }

inline bool is_absent(const State& state) { return state.used == 0 && state.previous == 0; }

// The state as it stands now.
inline void roll(const Rule& rule, const State& state, Micros now, Micros floor, Seen* seen) {
  if (is_absent(state)) {
    seen->end = end_of(rule, std::max(now, floor));
  } else if (now < state.end) {
    seen->end = state.end;
    seen->previous = state.previous;
    seen->used = state.used;
  } else if (now < state.end + rule.period) {
    // The next one, also when the period has changed and its end is not aligned.
    seen->end = state.end + rule.period;
    seen->previous = state.used;
  } else {
    seen->end = end_of(rule, now);
  }
}

inline bool fits(const Rule& rule, const Ask& ask, const Seen& seen, Micros now) {
  // The sum that needs no division first.
  return ask.cost == 0 || (seen.used + ask.cost <= rule.limit &&
                           weighted(rule, seen, now) + seen.used + ask.cost <= rule.limit);
}

inline Seen look(const Rule& rule, const Ask& ask, const State& state, Micros now, Micros floor) {
  Seen seen;
  roll(rule, state, now, floor, &seen);
  seen.fits = fits(rule, ask, seen, now);
  return seen;
}

inline void charge(const Ask& ask, Seen* seen) { seen->used += ask.cost; }

// When the cost will fit, which it does not now.
Micros passes_at(const Rule& rule, const Ask& ask, const Seen& seen);

inline void describe(const Rule& rule, const Seen& seen, Micros now, Decision* d) {
  const std::int64_t counts = weighted(rule, seen, now) + seen.used;
  d->remaining = std::max<std::int64_t>(0, rule.limit - counts);
  d->reset_after = seen.used > 0       ? seen.end + rule.period - now
                   : seen.previous > 0 ? seen.end - now
                                       : 0;
}

bool apply(const Rule& rule, const Change& change, Micros now, State* state);

}  // namespace saqiya::sliding_window

// The sliding log, exactly: the instants of what was charged in the last period, with their cost.
// Pure but for the list's memory.
//
// An entry at t counts until t + period. The list's instants never go back, whatever the clock
// does.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/step.h"
#include "core/timed_list.h"

namespace saqiya::sliding_log {

inline bool fits(const Rule& rule, const Ask& ask, const Seen& seen) {
  return ask.cost == 0 || seen.used + ask.cost <= rule.limit;
}

// A list whose entries count until `plus` after their instants. Nothing when it is absent.
inline Seen look(const Rule& rule, const Ask& ask, const TimedList* list, Micros plus, Micros now) {
  Seen seen;
  TimedList::Live live;
  if (list != nullptr) {
    live = list->live_after(now - plus);
    seen.used = live.used;
    if (live.first < list->size()) seen.end = list->last() + plus;
  }
  seen.fits = fits(rule, ask, seen);
  // (Nothing is without a list but what fits: an ask is never above the limit.)
  if (!seen.fits && list != nullptr) {
    seen.passes_at = list->reached_at(live.first, seen.used + ask.cost - rule.limit) + plus;
  }
  return seen;
}

inline Seen look(const Rule& rule, const Ask& ask, const State& state, Micros now, Micros floor) {
  Seen seen = look(rule, ask, state.list, rule.period, now);
  const bool is_absent = state.list == nullptr || state.list->empty();
  // Nothing counts; but what is charged now is charged no earlier than then.
  if (is_absent && floor > now) seen.end = floor + rule.period;
  return seen;
}

// The instant of a charge: not before the newest.
inline Micros charged_at(const Rule& rule, const Seen& seen, Micros now) {
  return std::max(now, seen.end - rule.period);
}

inline void charge(const Rule& rule, const Ask& ask, const Seen& seen, Micros now, State* state) {
  TimedList::add(&state->list, TimedList::Kind::kLog, now - rule.period,
                 {charged_at(rule, seen, now), static_cast<std::uint32_t>(ask.cost), 0});
}

// The same, of what is known of the state.
inline void charge(const Rule& rule, const Ask& ask, Micros now, Seen* seen) {
  seen->end = charged_at(rule, *seen, now) + rule.period;
  seen->used += ask.cost;
}

inline void describe(const Rule& rule, const Seen& seen, Micros now, Decision* d) {
  d->remaining = std::max<std::int64_t>(0, rule.limit - seen.used);
  d->reset_after = seen.used > 0 ? seen.end - now : 0;
}

bool apply(const Rule& rule, const Change& change, Micros now, State* state);

}  // namespace saqiya::sliding_log

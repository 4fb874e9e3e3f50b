#include "core/fixed_window.h"

#include "core/calendar.h"

namespace saqiya::fixed_window {

Micros end_of(const Rule& rule, Micros now) {
  if (rule.algorithm == Algorithm::kCalendar) return rule.calendar->end_of(now);
  return now - now % rule.period + rule.period;
}

bool apply(const Change& change, Micros now, State* state) {
  if (!is_live(*state, now) || state->end != change.instant) return false;
  state->used = std::clamp<std::int64_t>(state->used + change.delta, 0, kMaxCount);
  return true;
}

}  // namespace saqiya::fixed_window

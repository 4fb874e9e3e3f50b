#include "core/sliding_window.h"

namespace saqiya::sliding_window {

// The weighted sum falls as x does. It fits when previous * x <= room * period, so when x is at
// most floor(room * period / previous); never at x = 0, for there the next window begins.
Micros passes_at(const Rule& rule, const Ask& ask, const Seen& seen) {
  const std::int64_t room_now = rule.limit - seen.used - ask.cost;
  if (room_now >= 0 && seen.previous > 0) {
    const Micros x = multiply_divide(room_now, rule.period, seen.previous);
    if (x > 0) return seen.end - x;
  }
  // In the next window, this one's charges are the weighted ones.
  const std::int64_t room_next = rule.limit - ask.cost;
  if (seen.used <= room_next) return seen.end;
  return seen.end + rule.period - multiply_divide(room_next, rule.period, seen.used);
}

bool apply(const Rule& rule, const Change& change, Micros now, State* state) {
  if (is_absent(*state)) return false;
  Seen seen;
  roll(rule, *state, now, 0, &seen);
  if (seen.previous == 0 && seen.used == 0) return false;
  const bool is_current = change.instant == seen.end;
  const bool is_previous = change.instant == seen.end - rule.period && seen.previous > 0;
  if (!is_current && !is_previous) return false;
  std::int64_t& count = is_current ? seen.used : seen.previous;
  const std::int64_t changed = std::clamp<std::int64_t>(count + change.delta, 0, kMaxSlidingLimit);
  if (changed == count) return true;  // nothing is written
  count = changed;
  state->end = seen.end;
  state->previous = seen.previous;
  state->used = seen.used;
  return true;
}

}  // namespace saqiya::sliding_window

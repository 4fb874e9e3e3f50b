#include "core/sliding_log.h"

namespace saqiya::sliding_log {

bool apply(const Rule& rule, const Change& change, Micros now, State* state) {
  TimedList* const list = state->list;
  const Micros gone = now - rule.period;
  if (list == nullptr || change.instant <= gone) return false;
  const std::uint32_t i = list->find(change.instant);
  if (i == TimedList::kNone) return false;
  // The sum of what counts keeps to the range of a limit.
  const TimedList::Live live = list->live_after(gone);
  const std::int64_t old = list->cost(i);
  const std::int64_t most = kMaxSlidingLimit - live.used + old;
  const std::int64_t cost = std::clamp<std::int64_t>(old + change.delta, 0, most);
  if (cost == old) return true;  // nothing is written
  list->set_cost(i, static_cast<std::uint32_t>(cost));
  list->trim(gone);
  return true;
}

}  // namespace saqiya::sliding_log

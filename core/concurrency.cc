#include "core/concurrency.h"

namespace saqiya::concurrency {

bool apply(const Rule& rule, const Change& change, Micros now, State* state) {
  TimedList* const list = state->list;
  if (list == nullptr) return false;
  const std::uint32_t i = list->find(change.lease, change.instant);
  if (i == TimedList::kNone || list->at(i) <= now) return false;
  // Where nothing changes, nothing is written, nor trimmed.
  if (change.renew) {
    if (list->at(i) == expiry(rule, now)) return true;
    list->move(i, expiry(rule, now));
  } else {
    const std::int64_t old = list->cost(i);
    const std::int64_t cost = std::clamp<std::int64_t>(old + change.delta, 0, kMaxLeases);
    if (cost == old) return true;
    list->set_cost(i, static_cast<std::uint32_t>(cost));
  }
  list->trim(now);
  return true;
}

}  // namespace saqiya::concurrency

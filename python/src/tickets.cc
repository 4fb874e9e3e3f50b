#include "tickets.h"

namespace saqiya::python {

void Tickets::take_one(const saqiya_ticket& ticket, std::atomic<bool>& spent, std::size_t at,
                       Take take) {
  if (take == Take::kLeases && ticket.algorithm != SAQIYA_CONCURRENCY) {
    tickets_[at] = saqiya_ticket{};
    return;
  }
  const bool was_spent = take == Take::kNone ? spent.load(std::memory_order_relaxed)
                                             : spent.exchange(true, std::memory_order_relaxed);
  tickets_[at] = was_spent ? saqiya_ticket{} : ticket;
  if (take != Take::kNone && !was_spent) taken_.set(at);
}

bool Tickets::take(ModuleState* state, DecisionObject* decision, std::size_t rules, Take take) {
  decision_ = decision;
  taken_.reset();
  std::size_t at = 0;
  if (!decision->several) {
    take_one(decision->ticket, decision->spent, at++, take);
  } else {
    const View& view = decision->view;
    const std::uint8_t* items = view.parts->items + view.first;
    if (view.count != rules && items[0] != items[view.count - 1]) {
      raise_error(state, SAQIYA_INVALID, -1,
                  "the decision has another number of rules than what it is given back to; of a "
                  "decision of check_all pass decision.items[i]");
      return false;
    }
    for (; at < rules && at < view.count; ++at) {
      take_one(view.parts->tickets[view.first + at], view.parts->spent[view.first + at], at, take);
    }
  }
  for (; at < rules; ++at) tickets_[at] = saqiya_ticket{};
  return true;
}

void Tickets::put_back() {
  if (!decision_->several) {
    if (taken_.test(0)) decision_->spent.store(false, std::memory_order_relaxed);
    return;
  }
  const View& view = decision_->view;
  for (std::size_t i = 0; i < view.count; ++i) {
    if (taken_.test(i)) view.parts->spent[view.first + i].store(false, std::memory_order_relaxed);
  }
}

}  // namespace saqiya::python

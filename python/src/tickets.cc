#include "tickets.h"

namespace saqiya::python {
namespace {

bool is_of_several_items(const DecisionObject* decision) {
  if (!decision->several) return false;
  const View& view = decision->view;
  const std::uint8_t* items = view.parts->items + view.first;
  return items[0] != items[view.count - 1];
}

}  // namespace

void Tickets::take_one(const saqiya_ticket& ticket, std::atomic<bool>& spent, std::size_t at,
                       Take take) {
  const bool is_lease = ticket.algorithm == SAQIYA_CONCURRENCY;
  if ((take == Take::kLeases && !is_lease) || (take == Take::kCharges && is_lease)) {
    tickets_[at] = saqiya_ticket{};
    return;
  }
  const bool was_spent = take == Take::kNone ? spent.load(std::memory_order_relaxed)
                                             : spent.exchange(true, std::memory_order_relaxed);
  tickets_[at] = was_spent ? saqiya_ticket{} : ticket;
  if (take != Take::kNone && !was_spent) taken_.set(at);
}

bool Tickets::take(ModuleState* state, DecisionObject* decision, std::size_t rules, Take take,
                   std::size_t items) {
  decision_ = decision;
  taken_.reset();
  if (take == Take::kCharges && rules == 1) take = Take::kAll;
  const std::size_t count = decision->several ? decision->view.count : 1;
  if (count != rules && (items > 1 || is_of_several_items(decision))) {
    raise_error(state, SAQIYA_INVALID, -1,
                "the decision has another number of rules than what it is given back to; of a "
                "decision of check_all pass decision.items[i]");
    return false;
  }
  for (std::size_t at = 0; at < rules; ++at) {
    if (at >= count) {
      tickets_[at] = saqiya_ticket{};
    } else if (!decision->several) {
      take_one(decision->ticket, decision->spent, at, take);
    } else {
      const View& view = decision->view;
      take_one(view.parts->tickets[view.first + at], view.parts->spent[view.first + at], at, take);
    }
  }
  return true;
}

void Tickets::put_back() { python::put_back(decision_, taken_); }

void Tickets::put_back_unspent() {
  constexpr std::uint32_t kSpent = 1;
  std::bitset<kMaxParts> unspent;
  for (std::size_t at = 0; at < taken_.size(); ++at) {
    if (taken_.test(at) && (tickets_[at].flags & kSpent) == 0) unspent.set(at);
  }
  python::put_back(decision_, unspent);
}

void put_back(DecisionObject* decision, const std::bitset<kMaxParts>& taken) {
  for (std::size_t at = 0; at < taken.size(); ++at) {
    if (!taken.test(at)) continue;
    std::atomic<bool>& spent = decision->several
                                   ? decision->view.parts->spent[decision->view.first + at]
                                   : decision->spent;
    spent.store(false, std::memory_order_relaxed);
  }
}

}  // namespace saqiya::python

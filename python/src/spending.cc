#include "spending.h"

#include <new>

namespace saqiya::python {
namespace {

// See saqiya_limiter_refund.
bool did_nothing(const saqiya_decision& answer) {
  return answer.outcome == SAQIYA_UNAVAILABLE && saqiya_reason_is_undone(answer.reason) != 0;
}

void let_go(DecisionObject* decision) { Py_DECREF(reinterpret_cast<PyObject*>(decision)); }

}  // namespace

bool Spendings::begin(PyObject* future, DecisionObject* decision, const Tickets& tickets) {
  if (tickets.taken().none()) return true;
  try {
    taken_.emplace(future, Taken{decision, tickets.taken()});
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return false;
  }
  Py_INCREF(reinterpret_cast<PyObject*>(decision));
  return true;
}

void Spendings::end(PyObject* future, const saqiya_decision& answer) {
  if (taken_.empty()) return;
  const auto found = taken_.find(future);
  if (found == taken_.end()) return;
  if (did_nothing(answer)) put_back(found->second.decision, found->second.tickets);
  drop(future);
}

void Spendings::drop(PyObject* future) {
  const auto found = taken_.find(future);
  if (found == taken_.end()) return;
  DecisionObject* decision = found->second.decision;
  taken_.erase(found);
  let_go(decision);
}

void Spendings::clear() {
  for (const auto& entry : taken_) let_go(entry.second.decision);
  taken_.clear();
}

}  // namespace saqiya::python

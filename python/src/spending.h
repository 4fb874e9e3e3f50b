// The tickets that refunds, settlements and releases under way have taken. When the store certainly
// did nothing, as when there was no connection, they can be taken again.
#ifndef SAQIYA_PYTHON_SPENDING_H
#define SAQIYA_PYTHON_SPENDING_H

#include <Python.h>

#include <bitset>
#include <unordered_map>

#include "decision.h"
#include "parts.h"
#include "tickets.h"

namespace saqiya::python {

class Spendings {
 public:
  Spendings() = default;
  ~Spendings() { clear(); }
  Spendings(const Spendings&) = delete;
  Spendings& operator=(const Spendings&) = delete;

  // What the future's request has taken of the decision. False with MemoryError set.
  bool begin(PyObject* future, DecisionObject* decision, const Tickets& tickets);
  // This is the answer to the future's request, of whatever kind.
  void end(PyObject* future, const saqiya_decision& answer);
  // The request was not made, or was cancelled: what it took stays as it is.
  void drop(PyObject* future);
  void clear();

 private:
  struct Taken {
    DecisionObject* decision;  // owned
    std::bitset<kMaxParts> tickets;
  };

  std::unordered_map<PyObject*, Taken> taken_;
};

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_SPENDING_H

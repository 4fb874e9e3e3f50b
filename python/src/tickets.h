// The tickets of a decision, for one call that gives them back, settles or renews them.
#ifndef SAQIYA_PYTHON_TICKETS_H
#define SAQIYA_PYTHON_TICKETS_H

#include <bitset>
#include <cstddef>

#include "decision.h"

namespace saqiya::python {

enum class Take {
  kAll,      // each is spent by this call
  kLeases,   // those of concurrency rules; the others are left where they are
  kCharges,  // as kAll, but for the leases of a policy of several rules: a settlement leaves those
  kNone      // none: they are only looked at
};

// Gives the tickets of these numbers back to the decision: they may be taken again.
void put_back(DecisionObject* decision, const std::bitset<kMaxParts>& taken);

class Tickets {
 public:
  // Takes the tickets; those that are spent already become empty ones, which give nothing back.
  // rules: how many the call is for. The decision of one item may be of another number of them, for
  // its policy may have changed meanwhile: what is missing is empty then. False with SaqiyaError
  // set when it, or the call, is of several items and the numbers differ. The decision must outlive
  // this object.
  bool take(ModuleState* state, DecisionObject* decision, std::size_t rules, Take take,
            std::size_t items = 1);
  // The request was not made after all: what was taken may be taken again.
  void put_back();
  // After the call, which marked those it has spent: it leaves alone what a store that failed
  // certainly did not touch. What it did not mark may be taken again.
  void put_back_unspent();

  saqiya_ticket* data() { return tickets_; }
  // Those that this call took, by their numbers.
  const std::bitset<kMaxParts>& taken() const { return taken_; }

 private:
  // One ticket, out of the place where it is kept; `at` is its number in this call.
  void take_one(const saqiya_ticket& ticket, std::atomic<bool>& spent, std::size_t at, Take take);

  DecisionObject* decision_;
  std::bitset<kMaxParts> taken_;
  saqiya_ticket tickets_[kMaxParts];  // as many as there are rules count
};

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_TICKETS_H

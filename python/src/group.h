// Several limiters asked at once: check_all() and its like, and the checks of policies of several
// rules, which are the same with one item.
#ifndef SAQIYA_PYTHON_GROUP_H
#define SAQIYA_PYTHON_GROUP_H

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "decision.h"
#include "limiter.h"
#include "saqiya/saqiya.h"
#include "state.h"

namespace saqiya::python {

// Items as C takes them. Keeps what they point into alive.
class Items {
 public:
  Items() = default;
  Items(const Items&) = delete;
  Items& operator=(const Items&) = delete;
  ~Items();

  // object: an iterable of (limiter, key) or (limiter, key, cost). False with an exception set.
  bool read(ModuleState* state, PyObject* object);
  // One item, whose limiter and key the caller keeps alive.
  void set(const LimiterObject* limiter, const saqiya_key& key, std::int64_t cost);

  const saqiya_item* data() const { return items_; }
  std::size_t count() const { return count_; }
  std::size_t rules() const { return rules_; }
  bool local() const { return local_; }
  // Of all of them.
  saqiya_store* store() const { return store_; }

  // What read() was given, as a tuple of tuples: a new reference, or null with MemoryError set.
  PyObject* as_tuple() const;
  // A new Decision with a part for each rule, which the caller fills in and numbers; null with an
  // exception set.
  DecisionObject* new_decision(ModuleState* state) const;

 private:
  bool read_item(ModuleState* state, PyObject* object, const LimiterObject** limiter);

  saqiya_item items_[SAQIYA_MAX_ITEMS];
  std::uint32_t rules_of_[SAQIYA_MAX_ITEMS];
  PyObject* owners_[SAQIYA_MAX_ITEMS];  // of limiters and keys; the first owned_
  std::size_t owned_ = 0;
  std::size_t count_ = 0;
  std::size_t rules_ = 0;
  bool local_ = false;
  saqiya_store* store_ = nullptr;
};

// New Decisions, or null with an exception set.
PyObject* check_items(ModuleState* state, const Items& items, std::int64_t max_wait_us);
PyObject* peek_items(ModuleState* state, const Items& items);

// Items that were read can still be of limiters that contradict each other.
PyObject* raise_items(ModuleState* state, int status);

// Adds check_all, peek_all, refund_all and acquire_pause to the module. False with an exception
// set.
bool add_group_functions(PyObject* module, PyObject* state_capsule);

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_GROUP_H

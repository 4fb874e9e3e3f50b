// Decision: an immutable value with C members, made once per check.
//
// A raw heap type, not a pybind11 class: making one costs a few nanoseconds.
#ifndef SAQIYA_PYTHON_DECISION_H
#define SAQIYA_PYTHON_DECISION_H

#include <Python.h>

#include <atomic>
#include <cstdint>

#include "parts.h"
#include "saqiya/saqiya.h"
#include "state.h"

namespace saqiya::python {

// Some of the parts of a decision, those from `first` on.
struct View {
  Parts* parts;  // owned
  std::uint32_t first;
  std::uint32_t count;
};

// A decision of one rule has its ticket in itself. One of several rules, and one of a rule or an
// item of several, shares its parts with its relatives.
struct DecisionObject {
  PyObject_HEAD saqiya_decision decision;
  union {
    saqiya_ticket ticket;  // not several
    View view;             // several
  };
  // Set by the first refund, before it gives up the GIL, so that two threads cannot both give the
  // same ticket back. Tickets of parts have flags of their own.
  std::atomic<bool> spent;
  bool several;
};

extern PyType_Spec decision_spec;

// A new Decision whose decision and ticket the caller fills in; null when there is no memory.
inline DecisionObject* new_decision(ModuleState* state) {
  auto* object = PyObject_New(DecisionObject, state->decision_type);
  if (object != nullptr) {
    object->spent.store(false, std::memory_order_relaxed);
    object->several = false;
  }
  return object;
}

// A new Decision over new parts, one of each rule, all zero, which the caller fills in. Null with
// MemoryError set.
DecisionObject* new_decision_of(ModuleState* state, std::size_t rules);

// False with TypeError set when it is not a Decision.
inline bool read_decision(ModuleState* state, PyObject* object, DecisionObject** out) {
  if (Py_TYPE(object) != state->decision_type) {
    PyErr_Format(PyExc_TypeError, "decision must be a Decision, not %.100s",
                 Py_TYPE(object)->tp_name);
    return false;
  }
  *out = reinterpret_cast<DecisionObject*>(object);
  return true;
}

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_DECISION_H

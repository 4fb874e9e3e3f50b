// Decision: an immutable value with C members, made once per check.
//
// A raw heap type, not a pybind11 class: making one costs a few nanoseconds.
#ifndef SAQIYA_PYTHON_DECISION_H
#define SAQIYA_PYTHON_DECISION_H

#include <Python.h>

#include <atomic>

#include "saqiya/saqiya.h"
#include "state.h"

namespace saqiya::python {

struct DecisionObject {
  PyObject_HEAD saqiya_decision decision;
  saqiya_ticket ticket;
  // Set by the first refund, before it gives up the GIL, so that two threads cannot both give the
  // same ticket back.
  std::atomic<bool> spent;
};

extern PyType_Spec decision_spec;

// A new Decision whose decision and ticket the caller fills in; null when there is no memory.
inline DecisionObject* new_decision(ModuleState* state) {
  auto* object = PyObject_New(DecisionObject, state->decision_type);
  if (object != nullptr) object->spent.store(false, std::memory_order_relaxed);
  return object;
}

// Takes the ticket, once; later calls get one that gives nothing back.
inline saqiya_ticket take_ticket(DecisionObject* object) {
  if (object->spent.exchange(true, std::memory_order_relaxed)) return saqiya_ticket{};
  return object->ticket;
}

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

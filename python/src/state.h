// What one interpreter's copy of the module holds, and how errors of the C API become exceptions.
//
// There is one ModuleState per module object, so that every subinterpreter has its own; nothing
// Python is kept in statics. It is reached through the `_state` capsule of the raw types and lives
// as long as they do.
#ifndef SAQIYA_PYTHON_STATE_H
#define SAQIYA_PYTHON_STATE_H

#include <Python.h>

#include "saqiya/saqiya.h"

namespace saqiya::python {

struct ModuleState {
  PyTypeObject* decision_type = nullptr;
  PyTypeObject* limiter_type = nullptr;
  PyTypeObject* channel_type = nullptr;
  PyObject* error_type = nullptr;       // SaqiyaError
  PyObject* set_result_name = nullptr;  // "set_result"
  PyObject* asyncio_name = nullptr;     // "asyncio"
  PyObject* gevent_name = nullptr;      // "gevent.monkey"
  PyObject* eventlet_name = nullptr;    // "eventlet.patcher"
  PyObject* interned_names = nullptr;   // a list that keeps outcomes, reasons and codes interned
  bool warned_about_loop = false;
};

inline constexpr const char kStateAttribute[] = "_state";
inline constexpr const char kStateCapsule[] = "saqiya._saqiya._state";

// The state of the module that made this type or one of its bases; null with an exception set.
inline ModuleState* state_of(PyTypeObject* type) {
  PyObject* capsule = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), kStateAttribute);
  if (capsule == nullptr) return nullptr;
  void* state = PyCapsule_GetPointer(capsule, kStateCapsule);
  Py_DECREF(capsule);
  return static_cast<ModuleState*>(state);
}

// Sets SaqiyaError (MemoryError for SAQIYA_NO_MEMORY) with its code and position. Returns null.
PyObject* raise_error(ModuleState* state, int status, int position, const char* message);

// As above, with the status's own message.
inline PyObject* raise_status(ModuleState* state, int status) {
  return raise_error(state, status, -1, saqiya_status_message(status));
}

// A raw type of the module: made from the spec, given the state, added under its name.
// Returns a new reference, or null with an exception set.
PyTypeObject* add_type(PyObject* module, PyType_Spec* spec, PyObject* state_capsule);

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_STATE_H

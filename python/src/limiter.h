// Limiter: the native half of saqiya.Limiter, with the hot path.
#ifndef SAQIYA_PYTHON_LIMITER_H
#define SAQIYA_PYTHON_LIMITER_H

#include <Python.h>

#include <cstddef>

#include "saqiya/saqiya.h"
#include "state.h"

namespace saqiya::python {

struct LimiterObject {
  PyObject_HEAD saqiya_limiter* handle;  // owned; null until __init__ has run, set once
  ModuleState* state;                    // of this object's module; set together with handle
  PyObject* owner;                       // the Store, whose handle this is:
  saqiya_store* store;                   // the limiter keeps only what is behind it alive
  std::size_t rules;                     // how many rules the policy has
  bool local;                            // the store decides in this process: keep the GIL
};

extern PyType_Spec limiter_spec;

// False with an exception set when it is not a Limiter that was initialised.
bool read_limiter(ModuleState* state, PyObject* object, LimiterObject** out);

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_LIMITER_H

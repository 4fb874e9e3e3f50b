// How calls of the C API are made: with the GIL where they are decided in this process, for they
// take less time than giving it up, and no lock of the core is ever held while waiting for the GIL;
// without it where they wait for Redis.
#ifndef SAQIYA_PYTHON_CALLS_H
#define SAQIYA_PYTHON_CALLS_H

#include <Python.h>

#include "saqiya/saqiya.h"
#include "state.h"

namespace saqiya::python {

// Warns once per interpreter when a blocking call is made on the thread of a running event loop.
// False when the warning was turned into an exception.
bool warn_on_event_loop(ModuleState* state);

// Runs the call. local: it is decided in this process. Returns a saqiya_status, or -1 with an
// exception set.
template <typename Call>
int run(ModuleState* state, bool local, Call call) {
  int status;
  if (local) {
    status = call();
  } else {
    if (!warn_on_event_loop(state)) return -1;
    Py_BEGIN_ALLOW_THREADS;
    status = call();
    Py_END_ALLOW_THREADS;
  }
  return status;
}

// As above; false with an exception set unless the status is SAQIYA_OK.
template <typename Call>
bool run_well(ModuleState* state, bool local, Call call) {
  const int status = run(state, local, call);
  if (status == SAQIYA_OK) [[likely]]
    return true;
  if (status != -1) raise_status(state, status);
  return false;
}

template <typename Function>
PyCFunction as_method(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_CALLS_H

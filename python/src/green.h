// gevent and eventlet. Their patches do not reach native sockets: a call that waits here would hold
// up all greenlets of the thread. Such a call is made by saqiya._green instead, which waits as they
// do.
#ifndef SAQIYA_PYTHON_GREEN_H
#define SAQIYA_PYTHON_GREEN_H

#include <Python.h>

#include "state.h"

namespace saqiya::python {

// The function of saqiya._green of this name, a new reference, when greenlets run in this thread;
// null without an exception when none do. Cheap where neither library was imported.
PyObject* find_green(ModuleState* state, const char* name);

// Calls it as function(first, *args), where `first` may be null, and lets go of it.
PyObject* call_green(PyObject* function, PyObject* first, PyObject* const* args, Py_ssize_t count,
                     PyObject* keywords);

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_GREEN_H

// The methods of Limiter. Those that ask the store expect a limiter that was initialised.
#ifndef SAQIYA_PYTHON_LIMITER_METHODS_H
#define SAQIYA_PYTHON_LIMITER_METHODS_H

#include <Python.h>

#include "limiter.h"

namespace saqiya::python {

// Limiter.__new__(Limiter) makes an object whose __init__ has not run: RuntimeError.
bool ready(const LimiterObject* self);

namespace methods {

using Method = PyObject*(PyObject* object, PyObject* const* args, Py_ssize_t count,
                         PyObject* keywords);

Method check, peek, reserve, refund, settle, renew, release, reset, check_many;
Method http_headers;
PyObject* http_body(PyObject* object, PyObject* argument);
PyObject* http_status(PyObject* object, PyObject* argument);

}  // namespace methods
}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_LIMITER_METHODS_H

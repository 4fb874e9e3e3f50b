// Decisions as HTTP answers: Python objects from what the C API writes.
#ifndef SAQIYA_PYTHON_HTTP_H
#define SAQIYA_PYTHON_HTTP_H

#include <Python.h>

#include "saqiya/saqiya.h"

namespace saqiya::python {

// New references, or null with an exception set.
PyObject* http_headers(const saqiya_limiter* limiter, const saqiya_decision* decision);  // dict
PyObject* http_body(const saqiya_limiter* limiter, const saqiya_decision* decision);     // str
PyObject* http_status(const saqiya_limiter* limiter, const saqiya_decision* decision);   // int

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_HTTP_H

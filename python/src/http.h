// Decisions as HTTP answers: Python objects from what the C API writes.
#ifndef SAQIYA_PYTHON_HTTP_H
#define SAQIYA_PYTHON_HTTP_H

#include <Python.h>

#include <cstdint>

#include "saqiya/saqiya.h"

namespace saqiya::python {

// New references, or null with an exception set.
// A dict from names to values; fields: SAQIYA_HTTP_..., 0 for all.
PyObject* http_headers(const saqiya_limiter* limiter, const saqiya_decision* decision,
                       std::uint32_t fields);
// The JSON text.
PyObject* http_body(const saqiya_limiter* limiter, const saqiya_decision* decision);
// 200, 429 or 503.
PyObject* http_status(const saqiya_limiter* limiter, const saqiya_decision* decision);

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_HTTP_H

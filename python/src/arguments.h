// Reading the arguments of METH_FASTCALL | METH_KEYWORDS methods.
#ifndef SAQIYA_PYTHON_ARGUMENTS_H
#define SAQIYA_PYTHON_ARGUMENTS_H

#include <Python.h>

#include <cstddef>
#include <cstdint>

#include "state.h"

namespace saqiya::python {

// The parameters of one method, in order. The first `required` must be given; the first
// `positional` may be given by position.
template <std::size_t N>
struct Signature {
  const char* function;
  std::size_t required;
  std::size_t positional;
  const char* names[N];
};

// Slow half of bind: keywords, and every mistake.
bool bind_slow(const char* function, const char* const* names, std::size_t count,
               std::size_t required, std::size_t positional, PyObject* const* args,
               Py_ssize_t given, PyObject* keywords, PyObject** out);

// Puts borrowed references into out (null: not given). False with TypeError set.
template <std::size_t N>
inline bool bind(const Signature<N>& signature, PyObject* const* args, Py_ssize_t given,
                 PyObject* keywords, PyObject* (&out)[N]) {
  const auto count = static_cast<std::size_t>(given);
  if (keywords == nullptr && count >= signature.required && count <= signature.positional) {
    for (std::size_t i = 0; i < N; ++i) out[i] = i < count ? args[i] : nullptr;
    return true;
  }
  return bind_slow(signature.function, signature.names, N, signature.required, signature.positional,
                   args, given, keywords, out);
}

// For METH_FASTCALL functions without keywords: TypeError unless as many arguments are given.
bool takes(const char* function, Py_ssize_t count, Py_ssize_t wanted);

inline bool read_key_bytes(PyObject* object, saqiya_key* key) {
  if (PyUnicode_Check(object)) {
    if (PyUnicode_IS_COMPACT_ASCII(object)) {
      key->data = PyUnicode_1BYTE_DATA(object);
      key->len = static_cast<std::size_t>(PyUnicode_GET_LENGTH(object));
      return true;
    }
    Py_ssize_t length = 0;
    key->data = PyUnicode_AsUTF8AndSize(object, &length);
    key->len = static_cast<std::size_t>(length);
    return key->data != nullptr;
  }
  if (PyBytes_Check(object)) {
    key->data = PyBytes_AS_STRING(object);
    key->len = static_cast<std::size_t>(PyBytes_GET_SIZE(object));
    return true;
  }
  PyErr_Format(PyExc_TypeError, "key must be str or bytes, not %.100s", Py_TYPE(object)->tp_name);
  return false;
}

// A key is str (its UTF-8; lone surrogates raise UnicodeEncodeError) or bytes, of at most
// SAQIYA_MAX_KEY bytes (else SaqiyaError). The bytes belong to the object: it must stay alive while
// the key is used.
inline bool read_key(ModuleState* state, PyObject* object, saqiya_key* key) {
  if (!read_key_bytes(object, key)) return false;
  if (key->len <= SAQIYA_MAX_KEY) [[likely]]
    return true;
  raise_error(state, SAQIYA_INVALID, -1, "a key must have at most 65,536 bytes");
  return false;
}

// Slow half of read_cost: anything but a small non-negative int.
bool read_cost_slow(ModuleState* state, PyObject* object, std::int64_t* cost);

// A cost is an int (not a bool) of 0 ... SAQIYA_MAX_COST; null means 1. TypeError for other types,
// SaqiyaError outside the range.
inline bool read_cost(ModuleState* state, PyObject* object, std::int64_t* cost) {
  if (object == nullptr) {
    *cost = 1;
    return true;
  }
  return read_cost_slow(state, object, cost);
}

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_ARGUMENTS_H

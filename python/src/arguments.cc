#include "arguments.h"

namespace saqiya::python {

bool bind_slow(const char* function, const char* const* names, std::size_t count,
               std::size_t required, std::size_t positional, PyObject* const* args,
               Py_ssize_t given, PyObject* keywords, PyObject** out) {
  if (static_cast<std::size_t>(given) > positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %zu positional arguments (%zd given)",
                 function, positional, given);
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = i < static_cast<std::size_t>(given) ? args[i] : nullptr;
  }
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
  for (Py_ssize_t k = 0; k < named; ++k) {
    PyObject* name = PyTuple_GET_ITEM(keywords, k);
    std::size_t i = 0;
    while (i < count && PyUnicode_CompareWithASCIIString(name, names[i]) != 0) ++i;
    if (i == count) {
      PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", function, name);
      return false;
    }
    if (out[i] != nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", function, name);
      return false;
    }
    out[i] = args[given + k];
  }
  for (std::size_t i = 0; i < required; ++i) {
    if (out[i] == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() missing required argument: '%s'", function, names[i]);
      return false;
    }
  }
  return true;
}

bool takes(const char* function, Py_ssize_t count, Py_ssize_t wanted) {
  if (count == wanted) [[likely]]
    return true;
  PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments (%zd given)", function, wanted, count);
  return false;
}

bool read_cost_slow(ModuleState* state, PyObject* object, std::int64_t* cost) {
  if (!PyLong_Check(object) || PyBool_Check(object)) {
    PyErr_Format(PyExc_TypeError, "cost must be an int, not %.100s", Py_TYPE(object)->tp_name);
    return false;
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (value == -1 && PyErr_Occurred() != nullptr) return false;
  if (overflow != 0 || value < 0 || value > SAQIYA_MAX_COST) {
    raise_error(state, SAQIYA_INVALID, -1, "cost must be from 0 to 9007199254740991");
    return false;
  }
  *cost = value;
  return true;
}

}  // namespace saqiya::python

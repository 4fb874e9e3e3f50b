#include "green.h"

#include <cstddef>
#include <new>
#include <vector>

namespace saqiya::python {
namespace {

bool is_imported(PyObject* name) {
  PyObject* module = PyImport_GetModule(name);
  Py_XDECREF(module);
  return module != nullptr;
}

}  // namespace

PyObject* find_green(ModuleState* state, const char* name) {
  if (!is_imported(state->gevent_name) && !is_imported(state->eventlet_name)) return nullptr;
  if (PyErr_Occurred() != nullptr) return nullptr;
  PyObject* module = PyImport_ImportModule("saqiya._green");
  if (module == nullptr) return nullptr;
  PyObject* function = nullptr;
  PyObject* here = PyObject_CallMethod(module, "is_here", nullptr);
  if (here == Py_True) function = PyObject_GetAttrString(module, name);
  Py_XDECREF(here);
  Py_DECREF(module);
  return function;
}

PyObject* call_green(PyObject* function, PyObject* first, PyObject* const* args, Py_ssize_t count,
                     PyObject* keywords) {
  PyObject* result = nullptr;
  try {
    const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_GET_SIZE(keywords);
    std::vector<PyObject*> all;
    if (first != nullptr) all.push_back(first);
    all.insert(all.end(), args, args + count + named);
    const std::size_t positional = all.size() - static_cast<std::size_t>(named);
    result = PyObject_Vectorcall(function, all.data(), positional, keywords);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  Py_DECREF(function);
  return result;
}

}  // namespace saqiya::python

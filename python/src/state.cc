#include "state.h"

#include <cstring>

namespace saqiya::python {

PyObject* raise_error(ModuleState* state, int status, int position, const char* message) {
  if (status == SAQIYA_NO_MEMORY) return PyErr_NoMemory();
  PyObject* error = PyObject_CallFunction(state->error_type, "s", message);
  if (error == nullptr) return nullptr;
  PyObject* code = PyUnicode_InternFromString(saqiya_status_name(status));
  PyObject* where = position < 0 ? Py_None : PyLong_FromLong(position);
  if (where == Py_None) Py_INCREF(where);
  if (code != nullptr && where != nullptr && PyObject_SetAttrString(error, "code", code) == 0 &&
      PyObject_SetAttrString(error, "position", where) == 0) {
    PyErr_SetObject(state->error_type, error);
  }
  Py_XDECREF(code);
  Py_XDECREF(where);
  Py_DECREF(error);
  return nullptr;
}

PyTypeObject* add_type(PyObject* module, PyType_Spec* spec, PyObject* state_capsule) {
  PyObject* type = PyType_FromModuleAndSpec(module, spec, nullptr);
  if (type == nullptr) return nullptr;
  // The type may be immutable, so the state goes into its dictionary before anybody has seen it.
  PyObject* dict = reinterpret_cast<PyTypeObject*>(type)->tp_dict;
  const char* name = std::strrchr(spec->name, '.') + 1;
  if (PyDict_SetItemString(dict, kStateAttribute, state_capsule) != 0 ||
      PyObject_SetAttrString(module, name, type) != 0) {
    Py_DECREF(type);
    return nullptr;
  }
  PyType_Modified(reinterpret_cast<PyTypeObject*>(type));
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace saqiya::python

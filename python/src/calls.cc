#include "calls.h"

namespace saqiya::python {

bool warn_on_event_loop(ModuleState* state) {
  if (state->warned_about_loop) return true;
  PyObject* asyncio = PyImport_GetModule(state->asyncio_name);
  if (asyncio == nullptr) return PyErr_Occurred() == nullptr;
  PyObject* loop = PyObject_CallMethod(asyncio, "_get_running_loop", nullptr);
  Py_DECREF(asyncio);
  if (loop == nullptr) {
    PyErr_Clear();  // asyncio is still being imported: no loop runs
    return true;
  }
  const bool running = loop != Py_None;
  Py_DECREF(loop);
  if (!running) return true;
  state->warned_about_loop = true;
  return PyErr_WarnEx(PyExc_RuntimeWarning,
                      "saqiya: a blocking call over Redis holds up the running event loop; "
                      "await the same method of AsyncLimiter instead",
                      1) == 0;
}

}  // namespace saqiya::python

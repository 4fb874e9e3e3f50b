#include "events.h"

#include <cstring>

namespace saqiya::python {
namespace {

// saqiya._events.log, a new reference; null with an exception set.
PyObject* find_log() {
  PyObject* module = PyImport_ImportModule("saqiya._events");
  if (module == nullptr) return nullptr;
  PyObject* function = PyObject_GetAttrString(module, "log");
  Py_DECREF(module);
  return function;
}

PyObject* log_one(PyObject* log, const saqiya_event& event) {
  // A path or a message that was cut short may end inside a character.
  return PyObject_CallFunction(
      log, "IsNNIdLK", event.kind, saqiya_reason_name(event.reason),
      PyUnicode_DecodeUTF8(event.server, static_cast<Py_ssize_t>(std::strlen(event.server)),
                           "replace"),
      PyUnicode_DecodeUTF8(event.message, static_cast<Py_ssize_t>(std::strlen(event.message)),
                           "replace"),
      event.suppressed, static_cast<double>(event.wall_us) / 1e6,
      static_cast<long long>(event.duration_us), static_cast<unsigned long long>(event.decisions));
}

}  // namespace

void log_waiting_events(saqiya_store* store) {
  PyObject* log = find_log();
  while (log != nullptr) {
    saqiya_event event;
    saqiya_event_init(&event, sizeof event);
    if (saqiya_store_next_event(store, &event) != SAQIYA_OK || event.kind == SAQIYA_EVENT_NONE) {
      break;
    }
    PyObject* done = log_one(log, event);
    if (done == nullptr) break;
    Py_DECREF(done);
  }
  // The decision was made, and is what the caller wants to have, whatever becomes of the log.
  if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(log);
  Py_XDECREF(log);
}

}  // namespace saqiya::python

// The type of Channel: how one is made and freed, and the table of its methods.
#include <pybind11/pybind11.h>

#include <new>

#include "calls.h"
#include "channel_methods.h"
#include "saqiya/saqiya.hpp"

namespace saqiya::python {
namespace {

ChannelObject* self_of(PyObject* self) { return reinterpret_cast<ChannelObject*>(self); }

PyObject* get_pending(PyObject* object, void*) {
  ChannelObject* self = self_of(object);
  return PyLong_FromSize_t(self->queue == nullptr ? 0 : saqiya_queue_pending(self->queue));
}

int channel_init(PyObject* object, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"store", "capacity", nullptr};
  PyObject* store = nullptr;
  saqiya_queue_options options;
  saqiya_queue_options_init(&options, sizeof options);
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|I:Channel", const_cast<char**>(kNames), &store,
                                   &options.capacity)) {
    return -1;
  }
  ChannelObject* self = self_of(object);
  if (self->orphans != nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a channel cannot be initialised twice");
    return -1;
  }
  ModuleState* state = state_of(Py_TYPE(object));
  if (state == nullptr) return -1;
  try {
    auto& native_store = pybind11::cast<saqiya::api::Store&>(pybind11::handle(store));
    if (self->spendings == nullptr) self->spendings = new Spendings;
    saqiya_error error = {};
    saqiya_queue* queue = nullptr;
    const int status = saqiya_queue_create(native_store.get(), &options, &queue, &error);
    if (status != SAQIYA_OK) {
      const bool told = error.message[0] != '\0';
      raise_error(state, status, -1, told ? error.message : saqiya_status_message(status));
      return -1;
    }
    self->state = state;
    self->store = native_store.get();
    Py_INCREF(store);
    self->owner = store;
    self->queue = queue;
    self->orphans = PyDict_New();
    self->prepared = PyDict_New();
    return self->orphans == nullptr || self->prepared == nullptr ? -1 : 0;
  } catch (const pybind11::cast_error&) {
    PyErr_Format(PyExc_TypeError, "store must be a Store, not %.100s", Py_TYPE(store)->tp_name);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return -1;
}

int channel_traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self_of(object)->orphans);
  Py_VISIT(self_of(object)->prepared);
  Py_VISIT(self_of(object)->owner);
  return 0;
}

int channel_clear(PyObject* object) {
  Py_CLEAR(self_of(object)->orphans);
  // Not `prepared` and `owner`: until it is shut the queue may write to the decisions in there, and
  // uses the store.
  return 0;
}

void channel_dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  shut(self_of(object));
  delete self_of(object)->spendings;
  Py_CLEAR(self_of(object)->orphans);
  Py_CLEAR(self_of(object)->prepared);
  Py_CLEAR(self_of(object)->owner);
  type->tp_free(object);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"submit", as_method(channel::submit), METH_FASTCALL,
     "submit($self, future, operation, limiter, key, cost, max_wait_us, /)\n--\n\n"
     "Puts a request into the queue; the future (or None) gets its Decision in process(). A full\n"
     "queue ends the future at once, unavailable with reason \"busy\"."},
    {"submit_all", as_method(channel::submit_all), METH_FASTCALL,
     "submit_all($self, future, operation, items, max_wait_us, /)\n--\n\n"
     "As submit(), for several items that are decided together."},
    {"refund", as_method(channel::refund), METH_FASTCALL,
     "refund($self, future, limiter, key, decision, /)\n--\n\n"
     "As submit(), giving back what the decision took."},
    {"refund_all", as_method(channel::refund_all), METH_FASTCALL,
     "refund_all($self, future, items, decision, /)\n--\n\n"
     "As refund(), of several items."},
    {"settle", as_method(channel::settle), METH_FASTCALL,
     "settle($self, future, limiter, key, decision, cost, /)\n--\n\n"
     "As refund(), making the charge the cost."},
    {"release", as_method(channel::release), METH_FASTCALL,
     "release($self, future, limiter, key, decision, /)\n--\n\n"
     "As refund(), of leases only."},
    {"renew", as_method(channel::renew), METH_FASTCALL,
     "renew($self, future, limiter, key, decision, /)\n--\n\n"
     "As refund(), renewing the decision's leases."},
    {"process", channel::process, METH_NOARGS,
     "process($self, /)\n--\n\n"
     "Sends and receives what the sockets allow and ends futures. Returns the microseconds after\n"
     "which to call it again at the latest, or -1."},
    {"cancel", channel::cancel, METH_O,
     "cancel($self, future, /)\n--\n\n"
     "Drops the request of a future that was cancelled. Returns the Decision that had come\n"
     "already, if one had; else None."},
    {"close", channel::close, METH_NOARGS,
     "close($self, /)\n--\n\nDrops every request and closes the sockets. May be called again."},
    {"fileno", channel::fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nThe descriptor to watch for readability."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef getters[] = {
    {"pending", get_pending, nullptr, "Requests whose futures have not been ended.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyDoc_STRVAR(kDoc, "Channel(store, capacity=0)\n--\n\nA queue of requests for one event loop.");

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                       {Py_tp_init, reinterpret_cast<void*>(channel_init)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(channel_dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(channel_traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(channel_clear)},
                       {Py_tp_getset, getters},
                       {Py_tp_methods, methods},
                       {0, nullptr}};

}  // namespace

PyType_Spec channel_spec = {"saqiya._saqiya.Channel", sizeof(ChannelObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace saqiya::python

#include "channel.h"

#include <pybind11/pybind11.h>

#include <cstdint>

#include "arguments.h"
#include "decision.h"
#include "limiter.h"
#include "saqiya/saqiya.hpp"

namespace saqiya::python {
namespace {

constexpr std::size_t kDrainBatch = 64;

ChannelObject* self_of(PyObject* self) { return reinterpret_cast<ChannelObject*>(self); }

bool open(ChannelObject* self) {
  if (self->queue != nullptr) [[likely]]
    return true;
  PyErr_SetString(PyExc_RuntimeError, "the channel is closed");
  return false;
}

// Ends the future with the decision. What cannot be delivered because the future was cancelled is
// kept for cancel(); what comes for a closed loop is dropped.
void deliver(ChannelObject* self, PyObject* future, PyObject* decision) {
  PyObject* result = PyObject_CallMethodOneArg(future, self->state->set_result_name, decision);
  if (result != nullptr) {
    Py_DECREF(result);
    return;
  }
  PyErr_Clear();
  if (PyDict_SetItem(self->orphans, future, decision) != 0) PyErr_Clear();
}

bool drain(ChannelObject* self) {
  saqiya_completion completions[kDrainBatch];
  for (;;) {
    std::size_t count = 0;
    const int status = saqiya_queue_drain(self->queue, completions, kDrainBatch, &count);
    if (status != SAQIYA_OK) {
      raise_status(self->state, status);
      return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
      auto* future = reinterpret_cast<PyObject*>(completions[i].user_data);
      if (future == nullptr) continue;
      DecisionObject* decision = new_decision(self->state);
      if (decision == nullptr) {
        PyErr_WriteUnraisable(future);  // out of memory: this waiter cannot be told
      } else {
        decision->decision = completions[i].decision;
        decision->ticket = completions[i].ticket;
        deliver(self, future, reinterpret_cast<PyObject*>(decision));
        Py_DECREF(decision);
      }
      Py_DECREF(future);
    }
    if (count < kDrainBatch || self->queue == nullptr) return true;
  }
}

// Ends a future at once: the queue is as full as it may be.
bool deliver_busy(ChannelObject* self, PyObject* future) {
  if (future == Py_None) return true;
  DecisionObject* decision = new_decision(self->state);
  if (decision == nullptr) return false;
  decision->decision = saqiya_decision{};
  decision->decision.outcome = SAQIYA_UNAVAILABLE;
  decision->decision.reason = SAQIYA_REASON_BUSY;
  decision->ticket = saqiya_ticket{};
  deliver(self, future, reinterpret_cast<PyObject*>(decision));
  Py_DECREF(decision);
  return true;
}

// future: None when nobody waits. Returns None, or null with an exception set.
PyObject* send(ChannelObject* self, PyObject* future, saqiya_request* request) {
  if (future != Py_None) {
    request->user_data = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(future));
    Py_INCREF(future);
  }
  const int status = saqiya_queue_submit(self->queue, request);
  if (status == SAQIYA_OK) [[likely]]
    Py_RETURN_NONE;
  if (future != Py_None) Py_DECREF(future);
  if (status != SAQIYA_QUEUE_FULL) return raise_status(self->state, status);
  if (!deliver_busy(self, future)) return nullptr;
  Py_RETURN_NONE;
}

bool fill(ChannelObject* self, PyObject* limiter, PyObject* key, saqiya_request* request) {
  LimiterObject* native;
  saqiya_key bytes;
  if (!read_limiter(self->state, limiter, &native) || !read_key(key, &bytes)) return false;
  saqiya_request_init(request, sizeof *request);
  request->limiter = native->handle;
  request->key = bytes.data;
  request->key_len = bytes.len;
  return true;
}

bool takes(const char* function, Py_ssize_t count, Py_ssize_t wanted) {
  if (count == wanted) [[likely]]
    return true;
  PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments (%zd given)", function, wanted, count);
  return false;
}

PyObject* channel_submit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  ChannelObject* self = self_of(object);
  saqiya_request request;
  if (!takes("submit", count, 6) || !open(self) || !fill(self, args[2], args[3], &request) ||
      !read_cost(self->state, args[4], &request.cost)) {
    return nullptr;
  }
  const long operation = PyLong_AsLong(args[1]);
  request.op = static_cast<std::uint32_t>(operation);
  request.max_wait_us = PyLong_AsLongLong(args[5]);
  if ((operation == -1 || request.max_wait_us == -1) && PyErr_Occurred() != nullptr) {
    return nullptr;
  }
  return send(self, args[0], &request);
}

PyObject* channel_refund(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  ChannelObject* self = self_of(object);
  saqiya_request request;
  DecisionObject* decision;
  if (!takes("refund", count, 4) || !open(self) || !fill(self, args[1], args[2], &request) ||
      !read_decision(self->state, args[3], &decision)) {
    return nullptr;
  }
  saqiya_ticket ticket = take_ticket(decision);
  request.op = SAQIYA_OP_REFUND;
  request.ticket = &ticket;
  return send(self, args[0], &request);
}

PyObject* channel_process(PyObject* object, PyObject*) {
  ChannelObject* self = self_of(object);
  if (!open(self)) return nullptr;
  const int status = saqiya_queue_process(self->queue);
  if (status != SAQIYA_OK) return raise_status(self->state, status);
  if (!drain(self)) return nullptr;
  return PyLong_FromLongLong(self->queue == nullptr ? -1 : saqiya_queue_timeout_us(self->queue));
}

PyObject* channel_cancel(PyObject* object, PyObject* future) {
  ChannelObject* self = self_of(object);
  if (self->queue == nullptr) Py_RETURN_NONE;
  // Drained first, so that what has come already is among the orphans.
  if (!drain(self)) return nullptr;
  const auto user_data = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(future));
  if (self->queue != nullptr && saqiya_queue_cancel(self->queue, user_data) == SAQIYA_OK) {
    Py_DECREF(future);
    Py_RETURN_NONE;
  }
  PyObject* decision = PyDict_GetItemWithError(self->orphans, future);
  if (decision == nullptr) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    Py_RETURN_NONE;
  }
  Py_INCREF(decision);
  if (PyDict_DelItem(self->orphans, future) != 0) Py_CLEAR(decision);
  return decision;
}

// Drops every request; nobody is told.
void shut(ChannelObject* self) {
  saqiya_queue* queue = self->queue;
  self->queue = nullptr;
  if (queue == nullptr) return;
  saqiya_queue_close(queue);
  saqiya_completion completions[kDrainBatch];
  std::size_t count = 0;
  while (saqiya_queue_drain(queue, completions, kDrainBatch, &count) == SAQIYA_OK && count > 0) {
    for (std::size_t i = 0; i < count; ++i) {
      Py_XDECREF(reinterpret_cast<PyObject*>(completions[i].user_data));
    }
  }
  saqiya_queue_free(queue);
  if (self->orphans != nullptr) PyDict_Clear(self->orphans);
}

PyObject* channel_close(PyObject* object, PyObject*) {
  shut(self_of(object));
  Py_RETURN_NONE;
}

PyObject* channel_fileno(PyObject* object, PyObject*) {
  ChannelObject* self = self_of(object);
  if (!open(self)) return nullptr;
  return PyLong_FromLong(saqiya_queue_fd(self->queue));
}

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
    saqiya_error error = {};
    saqiya_queue* queue = nullptr;
    const int status = saqiya_queue_create(native_store.get(), &options, &queue, &error);
    if (status != SAQIYA_OK) {
      const bool told = error.message[0] != '\0';
      raise_error(state, status, -1, told ? error.message : saqiya_status_message(status));
      return -1;
    }
    self->state = state;
    self->queue = queue;
    self->orphans = PyDict_New();
    return self->orphans == nullptr ? -1 : 0;
  } catch (const pybind11::cast_error&) {
    PyErr_Format(PyExc_TypeError, "store must be a Store, not %.100s", Py_TYPE(store)->tp_name);
    return -1;
  }
}

int channel_traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(object));
  Py_VISIT(self_of(object)->orphans);
  return 0;
}

int channel_clear(PyObject* object) {
  Py_CLEAR(self_of(object)->orphans);
  return 0;
}

void channel_dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  shut(self_of(object));
  Py_CLEAR(self_of(object)->orphans);
  type->tp_free(object);
  Py_DECREF(type);
}

PyCFunction fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"submit", fast(channel_submit), METH_FASTCALL,
     "submit($self, future, operation, limiter, key, cost, max_wait_us, /)\n--\n\n"
     "Puts a request into the queue; the future (or None) gets its Decision in process(). A full\n"
     "queue ends the future at once, unavailable with reason \"busy\"."},
    {"refund", fast(channel_refund), METH_FASTCALL,
     "refund($self, future, limiter, key, decision, /)\n--\n\n"
     "As submit(), giving back what the decision took."},
    {"process", channel_process, METH_NOARGS,
     "process($self, /)\n--\n\n"
     "Sends and receives what the sockets allow and ends futures. Returns the microseconds after\n"
     "which to call it again at the latest, or -1."},
    {"cancel", channel_cancel, METH_O,
     "cancel($self, future, /)\n--\n\n"
     "Drops the request of a future that was cancelled. Returns the Decision that had come\n"
     "already, if one had; else None."},
    {"close", channel_close, METH_NOARGS,
     "close($self, /)\n--\n\nDrops every request and closes the sockets. May be called again."},
    {"fileno", channel_fileno, METH_NOARGS,
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

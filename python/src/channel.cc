#include "channel_methods.h"

#include <cstdint>

#include "arguments.h"
#include "calls.h"
#include "decision.h"
#include "events.h"
#include "group.h"
#include "limiter.h"
#include "tickets.h"

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

constexpr std::uint64_t kPrepared = 1;

std::uint64_t user_data_of(PyObject* future) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(future));
}

PyObject* future_of(std::uint64_t user_data) {
  return reinterpret_cast<PyObject*>(static_cast<std::uintptr_t>(user_data & ~kPrepared));
}

// The Decision prepared for the future, which leaves the dictionary. A new reference; null, with or
// without an exception, when there is none.
DecisionObject* take_prepared(ChannelObject* self, PyObject* future) {
  PyObject* decision = PyDict_GetItemWithError(self->prepared, future);
  if (decision == nullptr) return nullptr;
  Py_INCREF(decision);
  if (PyDict_DelItem(self->prepared, future) != 0) Py_CLEAR(decision);
  return reinterpret_cast<DecisionObject*>(decision);
}

DecisionObject* decision_for(ChannelObject* self, PyObject* future,
                             const saqiya_completion& completion) {
  if ((completion.user_data & kPrepared) != 0) {
    DecisionObject* decision = take_prepared(self, future);
    if (decision == nullptr) return nullptr;
    decision->decision = completion.decision;
    number(decision->view.parts);
    return decision;
  }
  DecisionObject* decision = new_decision(self->state);
  if (decision != nullptr) {
    decision->decision = completion.decision;
    decision->ticket = completion.ticket;
  }
  return decision;
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
      PyObject* future = future_of(completions[i].user_data);
      if (future == nullptr) continue;
      self->spendings->end(future, completions[i].decision);
      DecisionObject* decision = decision_for(self, future, completions[i]);
      if (decision == nullptr) {
        PyErr_WriteUnraisable(future);  // out of memory: this waiter cannot be told
      } else {
        deliver(self, future, reinterpret_cast<PyObject*>(decision));
        Py_DECREF(decision);
      }
      Py_DECREF(future);
    }
    if (count < kDrainBatch || self->queue == nullptr) return true;
  }
}

// Ends a future at once: the queue is as full as it may be. prepared: null, or the Decision that
// was to be its answer.
bool deliver_busy(ChannelObject* self, PyObject* future, DecisionObject* prepared) {
  if (future == Py_None) return true;
  saqiya_decision busy = {};
  busy.outcome = SAQIYA_UNAVAILABLE;
  busy.reason = SAQIYA_REASON_BUSY;
  DecisionObject* decision = prepared;
  if (decision == nullptr) {
    decision = new_decision(self->state);
    if (decision == nullptr) return false;
    decision->ticket = saqiya_ticket{};
  } else {
    Py_INCREF(reinterpret_cast<PyObject*>(decision));
    Parts* parts = decision->view.parts;
    for (std::uint32_t i = 0; i < parts->count; ++i) parts->decisions[i] = busy;
    number(parts);
  }
  decision->decision = busy;
  deliver(self, future, reinterpret_cast<PyObject*>(decision));
  Py_DECREF(decision);
  return true;
}

enum class Sent { kYes, kBusy, kError };

// future: None when nobody waits. prepared: null, or the Decision whose parts the request names.
Sent send(ChannelObject* self, PyObject* future, saqiya_request* request,
          DecisionObject* prepared = nullptr) {
  if (future != Py_None) {
    request->user_data = user_data_of(future);
    if (prepared != nullptr) {
      request->user_data |= kPrepared;
      auto* decision = reinterpret_cast<PyObject*>(prepared);
      if (PyDict_SetItem(self->prepared, future, decision) != 0) return Sent::kError;
    }
    Py_INCREF(future);
  }
  const int status = saqiya_queue_submit(self->queue, request);
  if (status == SAQIYA_OK) [[likely]]
    return Sent::kYes;
  if (future != Py_None) Py_DECREF(future);
  if (prepared != nullptr && PyDict_DelItem(self->prepared, future) != 0) return Sent::kError;
  if (status == SAQIYA_QUEUE_FULL) {
    return deliver_busy(self, future, prepared) ? Sent::kBusy : Sent::kError;
  }
  if (request->items != nullptr) {
    raise_items(self->state, status);
  } else {
    raise_status(self->state, status);
  }
  return Sent::kError;
}

PyObject* done(Sent sent) {
  if (sent == Sent::kError) return nullptr;
  Py_RETURN_NONE;
}

// A request with a part for each rule of the items.
PyObject* send_several(ChannelObject* self, PyObject* future, saqiya_request* request,
                       const Items& items) {
  DecisionObject* prepared = items.new_decision(self->state);
  if (prepared == nullptr) return nullptr;
  const Parts* parts = prepared->view.parts;
  request->each = parts->decisions;
  if (request->op == SAQIYA_OP_CHECK) request->tickets = parts->tickets;
  const Sent sent = send(self, future, request, prepared);
  Py_DECREF(prepared);
  return done(sent);
}

bool fill(ChannelObject* self, PyObject* limiter, PyObject* key, saqiya_request* request,
          LimiterObject** native) {
  saqiya_key bytes;
  if (!read_limiter(self->state, limiter, native) || !read_key(self->state, key, &bytes))
    return false;
  saqiya_request_init(request, sizeof *request);
  request->limiter = (*native)->handle;
  request->key = bytes.data;
  request->key_len = bytes.len;
  return true;
}

bool read_operation(PyObject* object, saqiya_request* request) {
  const long operation = PyLong_AsLong(object);
  request->op = static_cast<std::uint32_t>(operation);
  return operation != -1 || PyErr_Occurred() == nullptr;
}

bool read_wait(PyObject* object, saqiya_request* request) {
  request->max_wait_us = PyLong_AsLongLong(object);
  return request->max_wait_us != -1 || PyErr_Occurred() == nullptr;
}

// Sends a request that is about a decision's tickets, which are put back when it is not made.
PyObject* send_tickets(ChannelObject* self, PyObject* future, saqiya_request* request,
                       PyObject* argument, std::size_t rules, Take take) {
  DecisionObject* decision;
  Tickets tickets;
  const std::size_t items = request->items == nullptr ? 1 : request->item_count;
  if (!read_decision(self->state, argument, &decision) ||
      !tickets.take(self->state, decision, rules, take, items)) {
    return nullptr;
  }
  request->ticket = tickets.data();
  if (future != Py_None && !self->spendings->begin(future, decision, tickets)) {
    tickets.put_back();
    return nullptr;
  }
  const Sent sent = send(self, future, request);
  if (sent != Sent::kYes) {
    self->spendings->drop(future);
    tickets.put_back();
  }
  return done(sent);
}

// refund, release and renew, which have the same arguments.
PyObject* change(PyObject* object, const char* function, saqiya_op operation, Take take,
                 PyObject* const* args, Py_ssize_t count) {
  ChannelObject* self = self_of(object);
  saqiya_request request;
  LimiterObject* limiter;
  if (!takes(function, count, 4) || !open(self) ||
      !fill(self, args[1], args[2], &request, &limiter)) {
    return nullptr;
  }
  request.op = operation;
  return send_tickets(self, args[0], &request, args[3], limiter->rules, take);
}

}  // namespace

void shut(ChannelObject* self) {
  saqiya_queue* queue = self->queue;
  self->queue = nullptr;
  if (queue == nullptr) return;
  saqiya_queue_close(queue);
  saqiya_completion completions[kDrainBatch];
  std::size_t count = 0;
  while (saqiya_queue_drain(queue, completions, kDrainBatch, &count) == SAQIYA_OK && count > 0) {
    for (std::size_t i = 0; i < count; ++i) Py_XDECREF(future_of(completions[i].user_data));
  }
  saqiya_queue_free(queue);
  self->spendings->clear();
  if (self->orphans != nullptr) PyDict_Clear(self->orphans);
  if (self->prepared != nullptr) PyDict_Clear(self->prepared);
}

namespace channel {

PyObject* submit(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  ChannelObject* self = self_of(object);
  saqiya_request request;
  LimiterObject* limiter;
  if (!takes("submit", count, 6) || !open(self) ||
      !fill(self, args[2], args[3], &request, &limiter) ||
      !read_cost(self->state, args[4], &request.cost) || !read_operation(args[1], &request) ||
      !read_wait(args[5], &request)) {
    return nullptr;
  }
  if (limiter->rules == 1 || request.op == SAQIYA_OP_RESET) [[likely]] {
    return done(send(self, args[0], &request));
  }
  Items items;
  items.set(limiter, {request.key, request.key_len}, request.cost);
  return send_several(self, args[0], &request, items);
}

PyObject* submit_all(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  ChannelObject* self = self_of(object);
  saqiya_request request;
  saqiya_request_init(&request, sizeof request);
  Items items;
  if (!takes("submit_all", count, 4) || !open(self) || !items.read(self->state, args[2]) ||
      !read_operation(args[1], &request) || !read_wait(args[3], &request)) {
    return nullptr;
  }
  request.items = items.data();
  request.item_count = items.count();
  return send_several(self, args[0], &request, items);
}

PyObject* refund(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  return change(object, "refund", SAQIYA_OP_REFUND, Take::kAll, args, count);
}
PyObject* release(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  return change(object, "release", SAQIYA_OP_REFUND, Take::kLeases, args, count);
}
PyObject* renew(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  return change(object, "renew", SAQIYA_OP_RENEW, Take::kNone, args, count);
}

PyObject* settle(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  ChannelObject* self = self_of(object);
  saqiya_request request;
  LimiterObject* limiter;
  if (!takes("settle", count, 5) || !open(self) ||
      !fill(self, args[1], args[2], &request, &limiter) ||
      !read_cost(self->state, args[4], &request.cost)) {
    return nullptr;
  }
  request.op = SAQIYA_OP_SETTLE;
  return send_tickets(self, args[0], &request, args[3], limiter->rules, Take::kCharges);
}

PyObject* refund_all(PyObject* object, PyObject* const* args, Py_ssize_t count) {
  ChannelObject* self = self_of(object);
  saqiya_request request;
  saqiya_request_init(&request, sizeof request);
  Items items;
  if (!takes("refund_all", count, 3) || !open(self) || !items.read(self->state, args[1])) {
    return nullptr;
  }
  request.op = SAQIYA_OP_REFUND;
  request.items = items.data();
  request.item_count = items.count();
  return send_tickets(self, args[0], &request, args[2], items.rules(), Take::kAll);
}

PyObject* process(PyObject* object, PyObject*) {
  ChannelObject* self = self_of(object);
  if (!open(self)) return nullptr;
  const int status = saqiya_queue_process(self->queue);
  if (status != SAQIYA_OK) return raise_status(self->state, status);
  if (!drain(self)) return nullptr;
  if (self->queue != nullptr) log_events(self->store);
  return PyLong_FromLongLong(self->queue == nullptr ? -1 : saqiya_queue_timeout_us(self->queue));
}

PyObject* cancel(PyObject* object, PyObject* future) {
  ChannelObject* self = self_of(object);
  if (self->queue == nullptr) Py_RETURN_NONE;
  // Drained first, so that what has come already is among the orphans.
  if (!drain(self)) return nullptr;
  const int is_prepared = PyDict_Contains(self->prepared, future);
  if (is_prepared < 0) return nullptr;
  const std::uint64_t user_data = user_data_of(future) | (is_prepared != 0 ? kPrepared : 0);
  if (self->queue != nullptr && saqiya_queue_cancel(self->queue, user_data) == SAQIYA_OK) {
    self->spendings->drop(future);
    Py_DECREF(future);
    if (is_prepared != 0 && PyDict_DelItem(self->prepared, future) != 0) return nullptr;
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

PyObject* close(PyObject* object, PyObject*) {
  shut(self_of(object));
  Py_RETURN_NONE;
}

PyObject* fileno(PyObject* object, PyObject*) {
  ChannelObject* self = self_of(object);
  if (!open(self)) return nullptr;
  return PyLong_FromLong(saqiya_queue_fd(self->queue));
}

}  // namespace channel
}  // namespace saqiya::python

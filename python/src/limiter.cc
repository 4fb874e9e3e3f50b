// Decisions in this process are made with the GIL held: they take less time than giving it up
// and no lock of the core is ever held while waiting for the GIL. Redis waits are made without it.
#include "limiter.h"

#include <pybind11/pybind11.h>

#include <cstring>
#include <new>
#include <vector>

#include "arguments.h"
#include "decision.h"
#include "http.h"
#include "saqiya/saqiya.hpp"

namespace saqiya::python {
namespace {

LimiterObject* self_of(PyObject* self) { return reinterpret_cast<LimiterObject*>(self); }

// Limiter.__new__(Limiter) makes an object whose __init__ has not run.
bool ready(LimiterObject* self) {
  if (self->handle != nullptr) [[likely]]
    return true;
  PyErr_SetString(PyExc_RuntimeError, "the limiter was not initialised");
  return false;
}

// Warns once per interpreter when a blocking call is made on the thread of a running event loop.
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

// Runs a call of the C API, without the GIL unless it is decided in this process.
// False with an exception set.
template <typename Call>
bool run(LimiterObject* self, Call call) {
  int status;
  if (self->local) {
    status = call();
  } else {
    if (!warn_on_event_loop(self->state)) return false;
    Py_BEGIN_ALLOW_THREADS;
    status = call();
    Py_END_ALLOW_THREADS;
  }
  if (status == SAQIYA_OK) [[likely]]
    return true;
  raise_status(self->state, status);
  return false;
}

template <typename Call>
PyObject* decide(LimiterObject* self, Call call) {
  DecisionObject* result = new_decision(self->state);
  if (result == nullptr) return nullptr;
  if (!run(self, [&] { return call(result); })) {
    Py_DECREF(result);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(result);
}

constexpr Signature<2> kCheck = {"check", 1, 2, {"key", "cost"}};

PyObject* limiter_check(PyObject* object, PyObject* const* args, Py_ssize_t count,
                        PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  saqiya_key key;
  std::int64_t cost;
  if (!ready(self) || !bind(kCheck, args, count, keywords, given) || !read_key(given[0], &key) ||
      !read_cost(self->state, given[1], &cost)) {
    return nullptr;
  }
  return decide(self, [&](DecisionObject* result) {
    return saqiya_limiter_check(self->handle, key.data, key.len, cost, &result->decision,
                                &result->ticket);
  });
}

constexpr Signature<2> kPeek = {"peek", 1, 2, {"key", "cost"}};

PyObject* limiter_peek(PyObject* object, PyObject* const* args, Py_ssize_t count,
                       PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  saqiya_key key;
  std::int64_t cost;
  if (!ready(self) || !bind(kPeek, args, count, keywords, given) || !read_key(given[0], &key) ||
      !read_cost(self->state, given[1], &cost)) {
    return nullptr;
  }
  return decide(self, [&](DecisionObject* result) {
    result->ticket = saqiya_ticket{};
    return saqiya_limiter_peek(self->handle, key.data, key.len, cost, &result->decision);
  });
}

constexpr Signature<3> kReserve = {"reserve", 3, 3, {"key", "cost", "max_wait_us"}};

PyObject* limiter_reserve(PyObject* object, PyObject* const* args, Py_ssize_t count,
                          PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[3];
  saqiya_key key;
  std::int64_t cost;
  if (!ready(self) || !bind(kReserve, args, count, keywords, given) || !read_key(given[0], &key) ||
      !read_cost(self->state, given[1], &cost)) {
    return nullptr;
  }
  const std::int64_t max_wait_us = PyLong_AsLongLong(given[2]);
  if (max_wait_us == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return decide(self, [&](DecisionObject* result) {
    return saqiya_limiter_check_wait(self->handle, key.data, key.len, cost, max_wait_us,
                                     &result->decision, &result->ticket);
  });
}

constexpr Signature<2> kRefund = {"refund", 2, 2, {"key", "decision"}};

PyObject* limiter_refund(PyObject* object, PyObject* const* args, Py_ssize_t count,
                         PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  saqiya_key key;
  DecisionObject* decision;
  if (!ready(self) || !bind(kRefund, args, count, keywords, given) || !read_key(given[0], &key) ||
      !read_decision(self->state, given[1], &decision)) {
    return nullptr;
  }
  return decide(self, [&](DecisionObject* result) {
    saqiya_ticket ticket = take_ticket(decision);
    result->ticket = saqiya_ticket{};
    return saqiya_limiter_refund(self->handle, key.data, key.len, &ticket, &result->decision);
  });
}

constexpr Signature<1> kReset = {"reset", 1, 1, {"key"}};

PyObject* limiter_reset(PyObject* object, PyObject* const* args, Py_ssize_t count,
                        PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[1];
  saqiya_key key;
  if (!ready(self) || !bind(kReset, args, count, keywords, given) || !read_key(given[0], &key)) {
    return nullptr;
  }
  return decide(self, [&](DecisionObject* result) {
    result->ticket = saqiya_ticket{};
    return saqiya_limiter_reset(self->handle, key.data, key.len, &result->decision);
  });
}

constexpr Signature<2> kCheckMany = {"check_many", 1, 2, {"keys", "cost"}};

// keys is a tuple, so that nobody can change it while the GIL is given up.
PyObject* check_tuple(LimiterObject* self, PyObject* keys, std::int64_t cost) {
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  const auto size = static_cast<std::size_t>(count);
  std::vector<saqiya_key> native_keys(size);
  std::vector<saqiya_decision> decisions(size);
  std::vector<saqiya_ticket> tickets(size);
  for (std::size_t i = 0; i < size; ++i) {
    if (!read_key(PyTuple_GET_ITEM(keys, static_cast<Py_ssize_t>(i)), &native_keys[i])) {
      return nullptr;
    }
  }
  if (!run(self, [&] {
        return saqiya_limiter_check_many(self->handle, native_keys.data(), size, cost,
                                         decisions.data(), tickets.data());
      })) {
    return nullptr;
  }
  PyObject* list = PyList_New(count);
  for (std::size_t i = 0; list != nullptr && i < size; ++i) {
    DecisionObject* decision = new_decision(self->state);
    if (decision == nullptr) {
      Py_CLEAR(list);
      break;
    }
    decision->decision = decisions[i];
    decision->ticket = tickets[i];
    PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), reinterpret_cast<PyObject*>(decision));
  }
  return list;
}

PyObject* limiter_check_many(PyObject* object, PyObject* const* args, Py_ssize_t count,
                             PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  std::int64_t cost;
  if (!ready(self) || !bind(kCheckMany, args, count, keywords, given) ||
      !read_cost(self->state, given[1], &cost)) {
    return nullptr;
  }
  if (PyUnicode_Check(given[0]) || PyBytes_Check(given[0])) {
    PyErr_SetString(PyExc_TypeError, "keys must be an iterable of keys, not one key");
    return nullptr;
  }
  PyObject* keys = PySequence_Tuple(given[0]);
  if (keys == nullptr) return nullptr;
  PyObject* list = nullptr;
  try {
    list = check_tuple(self, keys, cost);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  Py_DECREF(keys);
  return list;
}

PyObject* get_policy(PyObject* object, void*) {
  if (!ready(self_of(object))) return nullptr;
  return PyUnicode_FromString(saqiya_limiter_policy(self_of(object)->handle));
}

PyObject* get_name(PyObject* object, void*) {
  if (!ready(self_of(object))) return nullptr;
  const char* name = saqiya_limiter_name(self_of(object)->handle);
  if (*name == '\0') Py_RETURN_NONE;
  return PyUnicode_FromString(name);
}

PyObject* get_local(PyObject* object, void*) {
  if (!ready(self_of(object))) return nullptr;
  return PyBool_FromLong(self_of(object)->local);
}

PyObject* http_of(PyObject* object, PyObject* argument,
                  PyObject* (*make)(const saqiya_limiter*, const saqiya_decision*)) {
  LimiterObject* self = self_of(object);
  DecisionObject* decision;
  if (!ready(self) || !read_decision(self->state, argument, &decision)) return nullptr;
  return make(self->handle, &decision->decision);
}

constexpr Signature<2> kHttpHeaders = {"http_headers", 1, 2, {"decision", "fields"}};

PyObject* limiter_http_headers(PyObject* object, PyObject* const* args, Py_ssize_t count,
                               PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  DecisionObject* decision;
  if (!ready(self) || !bind(kHttpHeaders, args, count, keywords, given) ||
      !read_decision(self->state, given[0], &decision)) {
    return nullptr;
  }
  const long fields = given[1] == nullptr ? 0 : PyLong_AsLong(given[1]);
  if (fields == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (fields < 0 || fields > (SAQIYA_HTTP_LEGACY | SAQIYA_HTTP_DRAFT)) {
    return raise_error(self->state, SAQIYA_INVALID, -1, "fields must be from 0 to 3");
  }
  return http_headers(self->handle, &decision->decision, static_cast<std::uint32_t>(fields));
}

PyObject* limiter_http_body(PyObject* object, PyObject* argument) {
  return http_of(object, argument, http_body);
}
PyObject* limiter_http_status(PyObject* object, PyObject* argument) {
  return http_of(object, argument, http_status);
}

// policy: str, or (capacity, tokens, period_us).
saqiya_limiter* make_limiter(ModuleState* state, PyObject* store, PyObject* policy,
                             const saqiya_limiter_options& options) {
  auto& native_store = pybind11::cast<saqiya::api::Store&>(pybind11::handle(store));
  saqiya_limiter* limiter = nullptr;
  saqiya_error error = {};
  int status;
  if (PyUnicode_Check(policy)) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(policy, &length);
    if (text == nullptr) return nullptr;
    if (const std::size_t end = std::strlen(text); end != static_cast<std::size_t>(length)) {
      raise_error(state, SAQIYA_BAD_POLICY, static_cast<int>(end), "unexpected zero character");
      return nullptr;
    }
    status = saqiya_limiter_create(native_store.get(), text, &options, &limiter, &error);
  } else {
    long long capacity, tokens, period_us;
    if (!PyArg_ParseTuple(policy, "LLL", &capacity, &tokens, &period_us)) return nullptr;
    const saqiya_rule rule =
        saqiya::api::token_bucket(capacity, tokens, saqiya::api::Micros{period_us});
    status = saqiya_limiter_create_rules(native_store.get(), &rule, 1, &options, &limiter, &error);
  }
  if (status == SAQIYA_OK) return limiter;
  const char* message = error.message[0] != '\0' ? error.message : saqiya_status_message(status);
  raise_error(state, status, error.position, message);
  return nullptr;
}

int limiter_init(PyObject* object, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"store", "policy", "name", "deadline_us", nullptr};
  PyObject* store = nullptr;
  PyObject* policy = nullptr;
  saqiya_limiter_options options;
  saqiya_limiter_options_init(&options, sizeof options);
  long long deadline_us = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|zL:Limiter", const_cast<char**>(kNames),
                                   &store, &policy, &options.name, &deadline_us)) {
    return -1;
  }
  options.deadline_us = deadline_us;
  LimiterObject* self = self_of(object);
  if (self->handle != nullptr) {  // another thread may be using the handle
    PyErr_SetString(PyExc_RuntimeError, "a limiter cannot be initialised twice");
    return -1;
  }
  ModuleState* state = state_of(Py_TYPE(object));
  if (state == nullptr) return -1;
  try {
    saqiya_limiter* limiter = make_limiter(state, store, policy, options);
    if (limiter == nullptr) return -1;
    self->state = state;
    self->local = pybind11::cast<saqiya::api::Store&>(pybind11::handle(store)).is_local();
    self->handle = limiter;
    return 0;
  } catch (const pybind11::cast_error&) {
    PyErr_Format(PyExc_TypeError, "store must be a Store, not %.100s", Py_TYPE(store)->tp_name);
    return -1;
  }
}

void limiter_dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  saqiya_limiter_free(self_of(object)->handle);
  type->tp_free(object);
  Py_DECREF(type);
}

template <typename Function>
PyCFunction fast(Function function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef methods[] = {
    {"check", fast(limiter_check), kFast,
     "check($self, /, key, cost=1)\n--\n\n"
     "Asks for cost tokens for the key; returns a Decision, true when allowed.\n\n"
     "key is str (taken as UTF-8) or bytes, up to 65,536 bytes; cost an int, 0 ... 2**53 - 1. A\n"
     "request that is not allowed is never charged. Safe from any thread. Over Redis the call\n"
     "waits without the GIL, at most until the deadline; a store that fails gives the outcome\n"
     "\"unavailable\", not an exception. Raises TypeError for other types, SaqiyaError for a cost\n"
     "or key outside the range."},
    {"peek", fast(limiter_peek), kFast,
     "peek($self, /, key, cost=1)\n--\n\n"
     "What check() would say, charging nothing; remaining and reset_after describe the state as\n"
     "it is."},
    {"reserve", fast(limiter_reserve), kFast,
     "reserve($self, /, key, cost, max_wait_us)\n--\n\n"
     "As check(), and willing to wait: allowed when the tokens will be there within max_wait_us\n"
     "microseconds. They are taken now; the caller sleeps decision.delay before going on."},
    {"refund", fast(limiter_refund), kFast,
     "refund($self, /, key, decision)\n--\n\n"
     "Gives back what the decision of a check took, as far as it has not been refilled "
     "meanwhile.\n\n"
     "A decision can be refunded once. Outcome of the result: \"allowed\", something was given\n"
     "back; \"denied\", nothing was left to give; \"unavailable\", the store failed."},
    {"reset", fast(limiter_reset), kFast,
     "reset($self, /, key)\n--\n\nForgets the key: it is as if it had never come."},
    {"check_many", fast(limiter_check_many), kFast,
     "check_many($self, /, keys, cost=1)\n--\n\n"
     "Checks every key of an iterable, in order, with one cost each; returns a list of "
     "Decisions.\n\n"
     "Each is decided on its own. Over Redis they travel together."},
    {"http_headers", fast(limiter_http_headers), kFast,
     "http_headers($self, /, decision, fields=0)\n--\n\n"
     "The decision as HTTP fields: a dict from names to values. Retry-After, in whole seconds, is\n"
     "among them when it applies; fields chooses others: 1, X-RateLimit-*; 2, RateLimit and\n"
     "RateLimit-Policy; 0 or 3, all."},
    {"http_body", limiter_http_body, METH_O,
     "http_body($self, decision, /)\n--\n\nThe JSON body of a refusal; \"\" when allowed."},
    {"http_status", limiter_http_status, METH_O,
     "http_status($self, decision, /)\n--\n\n200 when allowed, 429 when refused, 503 when the\n"
     "store is unavailable."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef getters[] = {
    {"policy", get_policy, nullptr, "The canonical text of the policy, \"5/s burst 20\".", nullptr},
    {"name", get_name, nullptr, "The name given at creation, or None.", nullptr},
    {"is_local", get_local, nullptr, "True when the store decides in this process.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyDoc_STRVAR(kDoc,
             "Limiter(store, policy, name=None, deadline_us=0)\n--\n\n"
             "A policy bound to a store; policy is text or (capacity, tokens, period_us).");

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                       {Py_tp_init, reinterpret_cast<void*>(limiter_init)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(limiter_dealloc)},
                       {Py_tp_getset, getters},
                       {Py_tp_methods, methods},
                       {0, nullptr}};

}  // namespace

PyType_Spec limiter_spec = {"saqiya._saqiya.Limiter", sizeof(LimiterObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

bool read_limiter(ModuleState* state, PyObject* object, LimiterObject** out) {
  if (!PyObject_TypeCheck(object, state->limiter_type)) {
    PyErr_Format(PyExc_TypeError, "limiter must be a Limiter, not %.100s",
                 Py_TYPE(object)->tp_name);
    return false;
  }
  *out = self_of(object);
  return ready(*out);
}

}  // namespace saqiya::python

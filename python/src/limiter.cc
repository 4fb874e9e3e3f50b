#include "limiter.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <new>
#include <vector>

#include "arguments.h"
#include "calls.h"
#include "decision.h"
#include "group.h"
#include "http.h"
#include "policy.h"
#include "saqiya/saqiya.hpp"
#include "tickets.h"

namespace saqiya::python {
namespace {

LimiterObject* self_of(PyObject* self) { return reinterpret_cast<LimiterObject*>(self); }

// The ways of a policy of several rules, whose decisions have parts.
PyObject* check_item(LimiterObject* self, const saqiya_key& key, std::int64_t cost,
                     std::int64_t max_wait_us) {
  Items items;
  items.set(self, key, cost);
  return check_items(self->state, items, max_wait_us);
}

PyObject* peek_item(LimiterObject* self, const saqiya_key& key, std::int64_t cost) {
  Items items;
  items.set(self, key, cost);
  return peek_items(self->state, items);
}

// Limiter.__new__(Limiter) makes an object whose __init__ has not run.
bool ready(LimiterObject* self) {
  if (self->handle != nullptr) [[likely]]
    return true;
  PyErr_SetString(PyExc_RuntimeError, "the limiter was not initialised");
  return false;
}

// A call that makes one decision, in a new Decision without parts.
template <typename Call>
PyObject* decide(LimiterObject* self, Call call) {
  DecisionObject* result = new_decision(self->state);
  if (result == nullptr) return nullptr;
  if (!run_well(self->state, self->local, [&] { return call(result); })) {
    Py_DECREF(reinterpret_cast<PyObject*>(result));
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
  if (!ready(self) || !bind(kCheck, args, count, keywords, given) ||
      !read_key(self->state, given[0], &key) || !read_cost(self->state, given[1], &cost)) {
    return nullptr;
  }
  if (self->rules > 1) return check_item(self, key, cost, 0);
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
  if (!ready(self) || !bind(kPeek, args, count, keywords, given) ||
      !read_key(self->state, given[0], &key) || !read_cost(self->state, given[1], &cost)) {
    return nullptr;
  }
  if (self->rules > 1) return peek_item(self, key, cost);
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
  if (!ready(self) || !bind(kReserve, args, count, keywords, given) ||
      !read_key(self->state, given[0], &key) || !read_cost(self->state, given[1], &cost)) {
    return nullptr;
  }
  const std::int64_t max_wait_us = PyLong_AsLongLong(given[2]);
  if (max_wait_us == -1 && PyErr_Occurred() != nullptr) return nullptr;
  if (self->rules > 1) return check_item(self, key, cost, max_wait_us);
  return decide(self, [&](DecisionObject* result) {
    return saqiya_limiter_check_wait(self->handle, key.data, key.len, cost, max_wait_us,
                                     &result->decision, &result->ticket);
  });
}

// What is done with a decision's tickets by refund(), settle(), release() and renew(). The call
// gets them and the decision to fill.
template <typename Call>
PyObject* change(LimiterObject* self, PyObject* argument, Take take, Call call) {
  DecisionObject* decision;
  Tickets tickets;
  if (!read_decision(self->state, argument, &decision) ||
      !tickets.take(self->state, decision, self->rules, take)) {
    return nullptr;
  }
  PyObject* result = decide(self, [&](DecisionObject* made) {
    made->ticket = saqiya_ticket{};
    return call(tickets.data(), &made->decision);
  });
  if (result == nullptr) tickets.put_back();
  return result;
}

PyObject* give_back(LimiterObject* self, const Signature<2>& signature, Take take,
                    PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  PyObject* given[2];
  saqiya_key key;
  if (!ready(self) || !bind(signature, args, count, keywords, given) ||
      !read_key(self->state, given[0], &key)) {
    return nullptr;
  }
  return change(self, given[1], take, [&](saqiya_ticket* tickets, saqiya_decision* decision) {
    return saqiya_limiter_refund(self->handle, key.data, key.len, tickets, decision);
  });
}

constexpr Signature<2> kRefund = {"refund", 2, 2, {"key", "decision"}};

PyObject* limiter_refund(PyObject* object, PyObject* const* args, Py_ssize_t count,
                         PyObject* keywords) {
  return give_back(self_of(object), kRefund, Take::kAll, args, count, keywords);
}

constexpr Signature<2> kRelease = {"release", 2, 2, {"key", "decision"}};

PyObject* limiter_release(PyObject* object, PyObject* const* args, Py_ssize_t count,
                          PyObject* keywords) {
  return give_back(self_of(object), kRelease, Take::kLeases, args, count, keywords);
}

constexpr Signature<2> kRenew = {"renew", 2, 2, {"key", "decision"}};

PyObject* limiter_renew(PyObject* object, PyObject* const* args, Py_ssize_t count,
                        PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  saqiya_key key;
  if (!ready(self) || !bind(kRenew, args, count, keywords, given) ||
      !read_key(self->state, given[0], &key)) {
    return nullptr;
  }
  return change(self, given[1], Take::kNone,
                [&](const saqiya_ticket* tickets, saqiya_decision* decision) {
                  return saqiya_limiter_renew(self->handle, key.data, key.len, tickets, decision);
                });
}

constexpr Signature<3> kSettle = {"settle", 3, 3, {"key", "decision", "cost"}};

PyObject* limiter_settle(PyObject* object, PyObject* const* args, Py_ssize_t count,
                         PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[3];
  saqiya_key key;
  std::int64_t cost;
  if (!ready(self) || !bind(kSettle, args, count, keywords, given) ||
      !read_key(self->state, given[0], &key) || !read_cost(self->state, given[2], &cost)) {
    return nullptr;
  }
  const auto settle = [&](saqiya_ticket* tickets, saqiya_decision* decision) {
    return saqiya_limiter_settle(self->handle, key.data, key.len, tickets, cost, decision);
  };
  return change(self, given[1], Take::kCharges, settle);
}

constexpr Signature<1> kReset = {"reset", 1, 1, {"key"}};

PyObject* limiter_reset(PyObject* object, PyObject* const* args, Py_ssize_t count,
                        PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[1];
  saqiya_key key;
  if (!ready(self) || !bind(kReset, args, count, keywords, given) ||
      !read_key(self->state, given[0], &key)) {
    return nullptr;
  }
  return decide(self, [&](DecisionObject* result) {
    result->ticket = saqiya_ticket{};
    return saqiya_limiter_reset(self->handle, key.data, key.len, &result->decision);
  });
}

constexpr Signature<2> kCheckMany = {"check_many", 1, 2, {"keys", "cost"}};

// The Decision of one of many. Its parts, if any, are only tickets.
DecisionObject* one_of_many(LimiterObject* self, const saqiya_decision& decision,
                            const saqiya_ticket* tickets) {
  DecisionObject* made =
      self->rules > 1 ? new_decision_of(self->state, self->rules) : new_decision(self->state);
  if (made == nullptr) return nullptr;
  made->decision = decision;
  if (self->rules > 1) {
    Parts* parts = made->view.parts;
    parts->told = false;
    std::copy(tickets, tickets + self->rules, parts->tickets);
  } else {
    made->ticket = *tickets;
  }
  return made;
}

// keys is a tuple, so that nobody can change it while the GIL is given up.
PyObject* check_tuple(LimiterObject* self, PyObject* keys, std::int64_t cost) {
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  const auto size = static_cast<std::size_t>(count);
  std::vector<saqiya_key> native_keys(size);
  std::vector<saqiya_decision> decisions(size);
  std::vector<saqiya_ticket> tickets(size * self->rules);
  for (std::size_t i = 0; i < size; ++i) {
    if (!read_key(self->state, PyTuple_GET_ITEM(keys, static_cast<Py_ssize_t>(i)),
                  &native_keys[i])) {
      return nullptr;
    }
  }
  if (!run_well(self->state, self->local, [&] {
        return saqiya_limiter_check_many(self->handle, native_keys.data(), size, cost,
                                         decisions.data(), tickets.data());
      })) {
    return nullptr;
  }
  PyObject* list = PyList_New(count);
  for (std::size_t i = 0; list != nullptr && i < size; ++i) {
    DecisionObject* decision = one_of_many(self, decisions[i], &tickets[i * self->rules]);
    if (decision == nullptr) {
      Py_CLEAR(list);
      break;
    }
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

PyObject* get_rule_count(PyObject* object, void*) {
  if (!ready(self_of(object))) return nullptr;
  return PyLong_FromSize_t(self_of(object)->rules);
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
    auto& native_store = pybind11::cast<saqiya::api::Store&>(pybind11::handle(store));
    saqiya_limiter* limiter = make_limiter(state, native_store.get(), policy, options);
    if (limiter == nullptr) return -1;
    self->state = state;
    self->store = native_store.get();
    self->rules = saqiya_limiter_rule_count(limiter);
    self->local = native_store.is_local();
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

constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef methods[] = {
    {"check", as_method(limiter_check), kFast,
     "check($self, /, key, cost=1)\n--\n\n"
     "Asks for cost tokens for the key; returns a Decision, true when allowed.\n\n"
     "key is str (taken as UTF-8) or bytes, up to 65,536 bytes; cost an int, 0 ... 2**53 - 1. A\n"
     "request that is not allowed is never charged; one that is, is charged to every rule of the\n"
     "policy. Under a rule with a queue it may be allowed with a delay: sleep decision.delay "
     "before\n"
     "going on. Under concurrency the decision is the lease: give it to release(). Safe from any\n"
     "thread. Over Redis the call waits without the GIL, at most until the deadline; a store that\n"
     "fails gives the outcome \"unavailable\", not an exception. Raises TypeError for other "
     "types,\n"
     "SaqiyaError for a cost or key outside the range."},
    {"peek", as_method(limiter_peek), kFast,
     "peek($self, /, key, cost=1)\n--\n\n"
     "What check() would say, charging nothing; remaining and reset_after describe the state as\n"
     "it is."},
    {"reserve", as_method(limiter_reserve), kFast,
     "reserve($self, /, key, cost, max_wait_us)\n--\n\n"
     "As check(), and willing to wait: allowed when the tokens will be there within max_wait_us\n"
     "microseconds. They are taken now; the caller sleeps decision.delay before going on. 0: as\n"
     "check(); -1: without the wait of a rule's own queue, too. Only token buckets can be "
     "reserved:\n"
     "with any other rule in the policy max_wait_us counts as 0."},
    {"refund", as_method(limiter_refund), kFast,
     "refund($self, /, key, decision)\n--\n\n"
     "Gives back what the decision of a check took, as far as it still counts.\n\n"
     "A decision can be refunded, settled or released once; it is spent then, even when the store\n"
     "was unavailable: what it may have done cannot be known. Outcome of the result: \"allowed\",\n"
     "something was given back; \"denied\", nothing was left to give; \"unavailable\", the store\n"
     "failed. Raises SaqiyaError for a decision of several items: pass decision.items[i]."},
    {"settle", as_method(limiter_settle), kFast,
     "settle($self, /, key, decision, cost)\n--\n\n"
     "Makes the charge of a check what it turned out to be: check an estimate, settle the true\n"
     "cost (0 ... 2**53 - 1) when it is known.\n\n"
     "Less is given back as by refund(); more is charged whatever the limit says, so that later\n"
     "requests wait for it. Once for a decision, even when the store was unavailable. In a\n"
     "policy of several rules the lease of a concurrency rule stays as it is, to be released: a\n"
     "hold() and a settle() go together. Outcome of the result: \"allowed\", done; \"denied\",\n"
     "too late or done before: the charge no longer counts; \"unavailable\"."},
    {"renew", as_method(limiter_renew), kFast,
     "renew($self, /, key, decision)\n--\n\n"
     "Concurrency: lets the decision's lease live for its rule's ttl from now on.\n\n"
     "Outcome of the result: \"allowed\", it is still held; \"denied\", it has expired or was\n"
     "released, and its slot may be another's; \"unavailable\"."},
    {"release", as_method(limiter_release), kFast,
     "release($self, /, key, decision)\n--\n\n"
     "Concurrency: frees the slot that the decision holds. What other rules of the policy have\n"
     "counted stays counted (refund() gives back both). Releasing twice is harmless; so is\n"
     "releasing after the ttl. When the store was unavailable, too, the lease is spent: it ends\n"
     "with its ttl. Outcomes as those of refund()."},
    {"reset", as_method(limiter_reset), kFast,
     "reset($self, /, key)\n--\n\nForgets the key: it is as if it had never come."},
    {"check_many", as_method(limiter_check_many), kFast,
     "check_many($self, /, keys, cost=1)\n--\n\n"
     "Checks every key of an iterable, in order, with one cost each; returns a list of "
     "Decisions.\n\n"
     "Each is decided on its own. Over Redis they travel together."},
    {"http_headers", as_method(limiter_http_headers), kFast,
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
    {"rule_count", get_rule_count, nullptr, "How many rules the policy has, 1 ... 8.", nullptr},
    {"is_local", get_local, nullptr, "True when the store decides in this process.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyDoc_STRVAR(
    kDoc,
    "Limiter(store, policy, name=None, deadline_us=0)\n--\n\n"
    "A policy bound to a store; policy is text or a tuple of rules, each (algorithm, capacity,\n"
    "tokens, period_us, queue, unit, anchor_day, zone).");

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

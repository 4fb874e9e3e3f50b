// The type of Limiter: how one is made, and the table of its methods.
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstddef>

#include "arguments.h"
#include "calls.h"
#include "events.h"
#include "green.h"
#include "limiter_methods.h"
#include "policy.h"
#include "saqiya/saqiya.hpp"

namespace saqiya::python {
namespace {

LimiterObject* self_of(PyObject* self) { return reinterpret_cast<LimiterObject*>(self); }

template <std::size_t N>
struct Name {
  char text[N];
  consteval Name(const char (&literal)[N]) { std::copy_n(literal, N, text); }
};

// A method that asks the store.
template <methods::Method* kMethod, Name kName>
PyObject* ask(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  const LimiterObject* self = self_of(object);
  if (!ready(self)) return nullptr;
  if (self->local) [[likely]]
    return kMethod(object, args, count, keywords);
  if (PyObject* green = find_green(self->state, kName.text); green != nullptr) {
    return call_green(green, object, args, count, keywords);
  }
  if (PyErr_Occurred() != nullptr) return nullptr;
  PyObject* result = kMethod(object, args, count, keywords);
  if (result != nullptr) log_events(self->store);
  return result;
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

int limiter_init(PyObject* object, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"store",       "policy",     "name",
                                       "deadline_us", "failure",    "share_ppm",
                                       "fallback",    "deny_cache", nullptr};
  PyObject* store = nullptr;
  PyObject* policy = nullptr;
  saqiya_limiter_options options;
  saqiya_limiter_options_init(&options, sizeof options);
  long long deadline_us = 0;
  int deny_cache = 1;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|zLIIzp:Limiter", const_cast<char**>(kNames),
                                   &store, &policy, &options.name, &deadline_us, &options.failure,
                                   &options.failure_share_ppm, &options.fallback, &deny_cache)) {
    return -1;
  }
  options.deadline_us = deadline_us;
  if (deny_cache == 0) options.flags |= SAQIYA_LIMITER_NO_DENY_CACHE;
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
    Py_INCREF(store);
    self->owner = store;
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
  Py_CLEAR(self_of(object)->owner);
  type->tp_free(object);
  Py_DECREF(type);
}

constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

PyMethodDef method_table[] = {
    {"check", as_method(ask<methods::check, "check">), kFast,
     "check($self, /, key, cost=1)\n--\n\n"
     "Asks for cost tokens for the key; returns a Decision, true when allowed.\n\n"
     "key is str (taken as UTF-8) or bytes, up to 65,536 bytes; cost an int, 0 ... 2**53 - 1. A\n"
     "request that is not allowed is never charged; one that is, is charged to every rule of the\n"
     "policy. Under a rule with a queue it may be allowed with a delay: sleep decision.delay "
     "before\n"
     "going on. Under concurrency the decision is the lease: give it to release(). Safe from any\n"
     "thread. Over Redis the call waits without the GIL, at most until the deadline; what Redis "
     "does\n"
     "not answer is decided by the limiter's failure policy, and nothing is raised. Raises\n"
     "TypeError for other types, SaqiyaError for a cost or key outside the range."},
    {"peek", as_method(ask<methods::peek, "peek">), kFast,
     "peek($self, /, key, cost=1)\n--\n\n"
     "What check() would say, charging nothing; remaining and reset_after describe the state as\n"
     "it is."},
    {"reserve", as_method(ask<methods::reserve, "reserve">), kFast,
     "reserve($self, /, key, cost, max_wait_us)\n--\n\n"
     "As check(), and willing to wait: allowed when the tokens will be there within max_wait_us\n"
     "microseconds. They are taken now; the caller sleeps decision.delay before going on. 0: as\n"
     "check(); -1: without the wait of a rule's own queue, too. Only token buckets can be "
     "reserved:\n"
     "with any other rule in the policy max_wait_us counts as 0."},
    {"refund", as_method(ask<methods::refund, "refund">), kFast,
     "refund($self, /, key, decision)\n--\n\n"
     "Gives back what the decision of a check took, as far as it still counts.\n\n"
     "A decision can be refunded, settled or released once; it is spent then, also when the store\n"
     "was unavailable and what it did cannot be known; not when it certainly did nothing (reasons\n"
     "\"connect\", \"resolve\", \"auth\", \"refused\", \"read_only\", \"busy\"). Outcome of the "
     "result:\n"
     "\"allowed\", something was given back; \"denied\", nothing was left to give; "
     "\"unavailable\",\n"
     "the store failed. A decision that was made in this process while Redis did not answer is\n"
     "given back to this process, also when Redis is back. Raises SaqiyaError for a decision of\n"
     "several items: pass decision.items[i]."},
    {"settle", as_method(ask<methods::settle, "settle">), kFast,
     "settle($self, /, key, decision, cost)\n--\n\n"
     "Makes the charge of a check what it turned out to be: check an estimate, settle the true\n"
     "cost (0 ... 2**53 - 1) when it is known.\n\n"
     "Less is given back as by refund(); more is charged whatever the limit says, so that later\n"
     "requests wait for it. Once for a decision, as refund(). In a\n"
     "policy of several rules the lease of a concurrency rule stays as it is, to be released: a\n"
     "hold() and a settle() go together. Outcome of the result: \"allowed\", done; \"denied\",\n"
     "too late or done before: the charge no longer counts; \"unavailable\"."},
    {"renew", as_method(ask<methods::renew, "renew">), kFast,
     "renew($self, /, key, decision)\n--\n\n"
     "Concurrency: lets the decision's lease live for its rule's ttl from now on.\n\n"
     "Outcome of the result: \"allowed\", it is still held; \"denied\", it has expired or was\n"
     "released, and its slot may be another's; \"unavailable\"."},
    {"release", as_method(ask<methods::release, "release">), kFast,
     "release($self, /, key, decision)\n--\n\n"
     "Concurrency: frees the slot that the decision holds. What other rules of the policy have\n"
     "counted stays counted (refund() gives back both). Releasing twice is harmless; so is\n"
     "releasing after the ttl. When it is not known what an unavailable store did the lease is\n"
     "spent: it ends with its ttl. Outcomes as those of refund()."},
    {"reset", as_method(ask<methods::reset, "reset">), kFast,
     "reset($self, /, key)\n--\n\nForgets the key: it is as if it had never come."},
    {"check_many", as_method(ask<methods::check_many, "check_many">), kFast,
     "check_many($self, /, keys, cost=1)\n--\n\n"
     "Checks every key of an iterable, in order, with one cost each; returns a list of "
     "Decisions.\n\n"
     "Each is decided on its own. Over Redis they travel together."},
    {"http_headers", as_method(methods::http_headers), kFast,
     "http_headers($self, /, decision, fields=0)\n--\n\n"
     "The decision as HTTP fields: a dict from names to values. Retry-After, in whole seconds, is\n"
     "among them when it applies; fields chooses others: 1, X-RateLimit-*; 2, RateLimit and\n"
     "RateLimit-Policy; 0 or 3, all."},
    {"http_body", methods::http_body, METH_O,
     "http_body($self, decision, /)\n--\n\nThe JSON body of a refusal; \"\" when allowed."},
    {"http_status", methods::http_status, METH_O,
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
    "Limiter(store, policy, name=None, deadline_us=0, failure=0, share_ppm=0, fallback=None, "
    "deny_cache=True)\n--\n\n"
    "A policy bound to a store; policy is text or a tuple of rules, each (algorithm, capacity,\n"
    "tokens, period_us, queue, unit, anchor_day, zone). failure: its number in the C API, or 0.");

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_tp_new, reinterpret_cast<void*>(PyType_GenericNew)},
                       {Py_tp_init, reinterpret_cast<void*>(limiter_init)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(limiter_dealloc)},
                       {Py_tp_getset, getters},
                       {Py_tp_methods, method_table},
                       {0, nullptr}};

}  // namespace

bool ready(const LimiterObject* self) {
  if (self->handle != nullptr) [[likely]]
    return true;
  PyErr_SetString(PyExc_RuntimeError, "the limiter was not initialised");
  return false;
}

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

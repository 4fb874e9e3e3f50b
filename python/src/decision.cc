#include "decision.h"

#include <structmember.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace saqiya::python {
namespace {

DecisionObject* self_of(PyObject* self) { return reinterpret_cast<DecisionObject*>(self); }
const saqiya_decision& decision_of(PyObject* self) { return self_of(self)->decision; }

// The number of a name from saqiya_outcome_name or saqiya_reason_name; -1 when there is none.
int number_of(const char* (*name_of)(std::int32_t), int first, int last, const char* name) {
  for (int i = first; i <= last; ++i) {
    if (std::strcmp(name_of(i), name) == 0) return i;
  }
  return -1;
}

PyObject* decision_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"outcome",   "reason",         "limit",
                                       "remaining", "retry_after_us", "reset_after_us",
                                       "delay_us",  "rule",           nullptr};
  const char* outcome = nullptr;
  const char* reason = nullptr;
  long long limit = 0, remaining = 0, retry_after = 0, reset_after = 0, delay = 0;
  int rule = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|zLLLLLi:Decision", const_cast<char**>(kNames),
                                   &outcome, &reason, &limit, &remaining, &retry_after,
                                   &reset_after, &delay, &rule)) {
    return nullptr;
  }
  const int outcome_number =
      number_of(saqiya_outcome_name, SAQIYA_ALLOWED, SAQIYA_UNAVAILABLE, outcome);
  const int reason_number = reason == nullptr ? 0
                                              : number_of(saqiya_reason_name, SAQIYA_REASON_CONNECT,
                                                          SAQIYA_REASON_CANCELLED, reason);
  if (outcome_number < 0 || reason_number < 0) {
    PyErr_Format(PyExc_ValueError, "unknown %s: '%s'", outcome_number < 0 ? "outcome" : "reason",
                 outcome_number < 0 ? outcome : reason);
    return nullptr;
  }
  auto* self = PyObject_New(DecisionObject, type);
  if (self == nullptr) return nullptr;
  self->decision = saqiya_decision{};
  self->ticket = saqiya_ticket{};
  new (&self->spent) std::atomic<bool>(false);
  self->decision.outcome = outcome_number;
  self->decision.reason = reason_number;
  self->decision.limit = limit;
  self->decision.remaining = remaining;
  self->decision.retry_after_us = retry_after;
  self->decision.reset_after_us = reset_after;
  self->decision.delay_us = delay;
  self->decision.rule = rule;
  return reinterpret_cast<PyObject*>(self);
}

void decision_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

int decision_bool(PyObject* self) { return decision_of(self).outcome == SAQIYA_ALLOWED; }

PyObject* seconds(std::int64_t micros) {
  if (micros == SAQIYA_FOREVER) return PyFloat_FromDouble(Py_HUGE_VAL);
  return PyFloat_FromDouble(static_cast<double>(micros) / 1e6);
}

PyObject* get_allowed(PyObject* self, void*) { return PyBool_FromLong(decision_bool(self)); }

PyObject* get_outcome(PyObject* self, void*) {
  return PyUnicode_InternFromString(saqiya_outcome_name(decision_of(self).outcome));
}

PyObject* get_reason(PyObject* self, void*) {
  const std::int32_t reason = decision_of(self).reason;
  if (reason == SAQIYA_REASON_NONE) Py_RETURN_NONE;
  return PyUnicode_InternFromString(saqiya_reason_name(reason));
}

PyObject* get_retry_after(PyObject* self, void*) {
  return seconds(decision_of(self).retry_after_us);
}
PyObject* get_reset_after(PyObject* self, void*) {
  return seconds(decision_of(self).reset_after_us);
}
PyObject* get_delay(PyObject* self, void*) { return seconds(decision_of(self).delay_us); }

PyObject* decision_repr(PyObject* self) {
  const saqiya_decision& d = decision_of(self);
  const char* outcome = saqiya_outcome_name(d.outcome);
  if (d.outcome == SAQIYA_UNAVAILABLE) {
    return PyUnicode_FromFormat("Decision(%s, reason=%s)", outcome, saqiya_reason_name(d.reason));
  }
  const bool denied = d.outcome == SAQIYA_DENIED;
  const bool delayed = d.outcome == SAQIYA_ALLOWED && d.delay_us > 0;
  PyObject* wait = seconds(denied ? d.retry_after_us : d.delay_us);
  PyObject* reset = seconds(d.reset_after_us);
  PyObject* text = nullptr;
  if (wait != nullptr && reset != nullptr) {
    const auto limit = static_cast<long long>(d.limit);
    const auto remaining = static_cast<long long>(d.remaining);
    text = denied || delayed
               ? PyUnicode_FromFormat(
                     "Decision(%s, limit=%lld, remaining=%lld, %s=%R, "
                     "reset_after=%R)",
                     outcome, limit, remaining, denied ? "retry_after" : "delay", wait, reset)
               : PyUnicode_FromFormat("Decision(%s, limit=%lld, remaining=%lld, reset_after=%R)",
                                      outcome, limit, remaining, reset);
  }
  Py_XDECREF(wait);
  Py_XDECREF(reset);
  return text;
}

bool equal(const saqiya_decision& a, const saqiya_decision& b) {
  return a.outcome == b.outcome && a.reason == b.reason && a.limit == b.limit &&
         a.remaining == b.remaining && a.retry_after_us == b.retry_after_us &&
         a.reset_after_us == b.reset_after_us && a.delay_us == b.delay_us && a.rule == b.rule;
}

PyObject* decision_compare(PyObject* self, PyObject* other, int operation) {
  if (Py_TYPE(other) != Py_TYPE(self) || (operation != Py_EQ && operation != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  const bool same = equal(decision_of(self), decision_of(other));
  return PyBool_FromLong(same == (operation == Py_EQ));
}

// The constructor's arguments.
PyObject* fields(PyObject* self) {
  const saqiya_decision& d = decision_of(self);
  const char* reason = d.reason == SAQIYA_REASON_NONE ? nullptr : saqiya_reason_name(d.reason);
  return Py_BuildValue(
      "(szLLLLLi)", saqiya_outcome_name(d.outcome), reason, static_cast<long long>(d.limit),
      static_cast<long long>(d.remaining), static_cast<long long>(d.retry_after_us),
      static_cast<long long>(d.reset_after_us), static_cast<long long>(d.delay_us), d.rule);
}

Py_hash_t decision_hash(PyObject* self) {
  PyObject* tuple = fields(self);
  if (tuple == nullptr) return -1;
  const Py_hash_t hash = PyObject_Hash(tuple);
  Py_DECREF(tuple);
  return hash;
}

PyObject* decision_reduce(PyObject* self, PyObject*) {
  PyObject* arguments = fields(self);
  if (arguments == nullptr) return nullptr;
  return Py_BuildValue("(ON)", Py_TYPE(self), arguments);
}

constexpr Py_ssize_t kBase = offsetof(DecisionObject, decision);

PyMemberDef members[] = {
    {"limit", T_LONGLONG, kBase + offsetof(saqiya_decision, limit), READONLY,
     "Capacity of the rule that bound; 2**53 - 1 when unlimited."},
    {"remaining", T_LONGLONG, kBase + offsetof(saqiya_decision, remaining), READONLY,
     "Tokens left afterwards, rounded down: 0 <= remaining <= limit."},
    {"retry_after_us", T_LONGLONG, kBase + offsetof(saqiya_decision, retry_after_us), READONLY,
     "retry_after in whole microseconds; 2**63 - 1 for never."},
    {"reset_after_us", T_LONGLONG, kBase + offsetof(saqiya_decision, reset_after_us), READONLY,
     "reset_after in whole microseconds."},
    {"delay_us", T_LONGLONG, kBase + offsetof(saqiya_decision, delay_us), READONLY,
     "delay in whole microseconds."},
    {"rule", T_INT, kBase + offsetof(saqiya_decision, rule), READONLY,
     "Index of the rule that bound, from 0."},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef getters[] = {
    {"allowed", get_allowed, nullptr, "True when the request may go on, as in `if decision:`.",
     nullptr},
    {"outcome", get_outcome, nullptr, "\"allowed\", \"denied\", \"never\" or \"unavailable\".",
     nullptr},
    {"reason", get_reason, nullptr,
     "Why the store is unavailable (\"timeout\", \"connect\", ...); None for other outcomes.",
     nullptr},
    {"retry_after", get_retry_after, nullptr,
     "Seconds until this very cost passes if nobody else comes; math.inf for never, 0.0 when "
     "allowed.",
     nullptr},
    {"reset_after", get_reset_after, nullptr, "Seconds until full again if left alone.", nullptr},
    {"delay", get_delay, nullptr,
     "Seconds to wait before going on; above 0 only for a reservation. acquire() has waited them.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef methods[] = {
    {"__reduce__", decision_reduce, METH_NOARGS, "Pickles the numbers; a copy cannot be refunded."},
    {nullptr, nullptr, 0, nullptr}};

PyDoc_STRVAR(kDoc,
             "Decision(outcome, reason=None, limit=0, remaining=0, retry_after_us=0, "
             "reset_after_us=0, delay_us=0, rule=0)\n--\n\n"
             "The answer to a check: true when allowed, immutable, hashable.\n\n"
             "It also carries what refund() needs, once. Decisions compare by their numbers.");

PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>(kDoc)},
                       {Py_tp_new, reinterpret_cast<void*>(decision_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(decision_dealloc)},
                       {Py_tp_repr, reinterpret_cast<void*>(decision_repr)},
                       {Py_tp_richcompare, reinterpret_cast<void*>(decision_compare)},
                       {Py_tp_hash, reinterpret_cast<void*>(decision_hash)},
                       {Py_nb_bool, reinterpret_cast<void*>(decision_bool)},
                       {Py_tp_members, members},
                       {Py_tp_getset, getters},
                       {Py_tp_methods, methods},
                       {0, nullptr}};

}  // namespace

PyType_Spec decision_spec = {"saqiya._saqiya.Decision", sizeof(DecisionObject), 0,
#ifdef Py_TPFLAGS_IMMUTABLETYPE
                             Py_TPFLAGS_IMMUTABLETYPE |
#endif
                                 Py_TPFLAGS_DEFAULT,
                             slots};

}  // namespace saqiya::python

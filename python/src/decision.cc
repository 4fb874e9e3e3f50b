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

// Gives self the parts that are copies of these Decisions' numbers; their tickets stay where they
// are.
bool copy_parts(DecisionObject* self, PyObject* rules) {
  const Py_ssize_t count = PyTuple_GET_SIZE(rules);
  if (static_cast<std::size_t>(count) > kMaxParts) {
    PyErr_SetString(PyExc_ValueError, "too many rules");
    return false;
  }
  Parts* parts = new_parts(static_cast<std::size_t>(count));
  if (parts == nullptr) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* rule = PyTuple_GET_ITEM(rules, i);
    if (Py_TYPE(rule) != Py_TYPE(self)) {
      PyErr_Format(PyExc_TypeError, "rules must be Decisions, not %.100s", Py_TYPE(rule)->tp_name);
      release(parts);
      return false;
    }
    parts->decisions[i] = decision_of(rule);
    parts->items[i] = static_cast<std::uint8_t>(decision_of(rule).item);
  }
  self->view = {parts, 0, static_cast<std::uint32_t>(count)};
  self->several = true;
  return true;
}

PyObject* unknown(const char* what, const char* name) {
  return PyErr_Format(PyExc_ValueError, "unknown %s: '%s'", what, name);
}

PyObject* decision_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static const char* const kNames[] = {"outcome",        "reason",         "limit",    "remaining",
                                       "retry_after_us", "reset_after_us", "delay_us", "rule",
                                       "item",           "rules",          "source",   nullptr};
  const char* outcome = nullptr;
  const char* reason = nullptr;
  long long limit = 0, remaining = 0, retry_after = 0, reset_after = 0, delay = 0;
  int rule = 0, item = 0;
  PyObject* rules = nullptr;
  const char* source = "store";
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|zLLLLLiiO!s:Decision",
                                   const_cast<char**>(kNames), &outcome, &reason, &limit,
                                   &remaining, &retry_after, &reset_after, &delay, &rule, &item,
                                   &PyTuple_Type, &rules, &source)) {
    return nullptr;
  }
  const int outcome_number =
      number_of(saqiya_outcome_name, SAQIYA_ALLOWED, SAQIYA_UNAVAILABLE, outcome);
  const int reason_number = reason == nullptr ? 0
                                              : number_of(saqiya_reason_name, SAQIYA_REASON_CONNECT,
                                                          SAQIYA_REASON_CANCELLED, reason);
  const int source_number =
      number_of(saqiya_source_name, SAQIYA_SOURCE_STORE, SAQIYA_SOURCE_CLOSED, source);
  if (outcome_number < 0) return unknown("outcome", outcome);
  if (reason_number < 0) return unknown("reason", reason);
  if (source_number < 0) return unknown("source", source);
  auto* self = PyObject_New(DecisionObject, type);
  if (self == nullptr) return nullptr;
  self->decision = saqiya_decision{};
  self->ticket = saqiya_ticket{};
  new (&self->spent) std::atomic<bool>(false);
  self->several = false;
  self->decision.outcome = outcome_number;
  self->decision.reason = reason_number;
  self->decision.limit = limit;
  self->decision.remaining = remaining;
  self->decision.retry_after_us = retry_after;
  self->decision.reset_after_us = reset_after;
  self->decision.delay_us = delay;
  self->decision.rule = rule;
  self->decision.item = item;
  self->decision.source = source_number;
  if (rules != nullptr && PyTuple_GET_SIZE(rules) > 0 && !copy_parts(self, rules)) {
    Py_DECREF(reinterpret_cast<PyObject*>(self));
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(self);
}

void decision_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (self_of(self)->several) release(self_of(self)->view.parts);
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

PyObject* get_source(PyObject* self, void*) {
  return PyUnicode_InternFromString(saqiya_source_name(decision_of(self).source));
}

PyObject* get_retry_after(PyObject* self, void*) {
  return seconds(decision_of(self).retry_after_us);
}
PyObject* get_reset_after(PyObject* self, void*) {
  return seconds(decision_of(self).reset_after_us);
}
PyObject* get_delay(PyObject* self, void*) { return seconds(decision_of(self).delay_us); }

// The Decision of the parts from `first` on: the decision itself when these are all of them.
PyObject* part_of(PyObject* object, std::uint32_t first, std::uint32_t count) {
  const View& view = self_of(object)->view;
  if (count == view.count) {
    Py_INCREF(object);
    return object;
  }
  auto* part = PyObject_New(DecisionObject, Py_TYPE(object));
  if (part == nullptr) return nullptr;
  part->decision = combine(view.parts->decisions + first, count);
  part->view = {share(view.parts), first, count};
  new (&part->spent) std::atomic<bool>(false);
  part->several = true;
  return reinterpret_cast<PyObject*>(part);
}

bool tells_parts(PyObject* self) {
  return self_of(self)->several && self_of(self)->view.parts->told;
}

PyObject* get_rules(PyObject* self, void*) {
  if (!tells_parts(self)) return PyTuple_Pack(1, self);
  const View& view = self_of(self)->view;
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(view.count));
  for (std::uint32_t i = 0; tuple != nullptr && i < view.count; ++i) {
    PyObject* part = part_of(self, view.first + i, 1);
    if (part == nullptr) {
      Py_CLEAR(tuple);
    } else {
      PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), part);
    }
  }
  return tuple;
}

PyObject* get_items(PyObject* self, void*) {
  if (!tells_parts(self)) return PyTuple_Pack(1, self);
  const View& view = self_of(self)->view;
  const std::uint8_t* item = view.parts->items + view.first;
  PyObject* list = PyList_New(0);
  for (std::uint32_t begin = 0, end = 0; list != nullptr && begin < view.count; begin = end) {
    for (end = begin; end < view.count && item[end] == item[begin];) ++end;
    PyObject* part = part_of(self, view.first + begin, end - begin);
    if (part == nullptr || PyList_Append(list, part) != 0) Py_CLEAR(list);
    Py_XDECREF(part);
  }
  if (list == nullptr) return nullptr;
  PyObject* tuple = PyList_AsTuple(list);
  Py_DECREF(list);
  return tuple;
}

// What the repr tells of the numbers: those that mean something. A new reference, or null.
PyObject* numbers_text(const saqiya_decision& d) {
  const bool told = d.source != SAQIYA_SOURCE_OPEN && d.source != SAQIYA_SOURCE_CLOSED;
  if (d.outcome == SAQIYA_UNAVAILABLE || (!told && d.outcome != SAQIYA_DENIED)) {
    return PyUnicode_FromString("");
  }
  const bool denied = d.outcome == SAQIYA_DENIED;
  const bool waits = denied || (d.outcome == SAQIYA_ALLOWED && d.delay_us > 0);
  PyObject* wait = seconds(denied ? d.retry_after_us : d.delay_us);
  PyObject* reset = seconds(d.reset_after_us);
  PyObject* text = nullptr;
  if (wait != nullptr && reset != nullptr) {
    const auto limit = static_cast<long long>(d.limit);
    const auto remaining = static_cast<long long>(d.remaining);
    const char* name = denied ? "retry_after" : "delay";
    if (!told) {
      text = PyUnicode_FromFormat(", retry_after=%R", wait);
    } else if (waits) {
      text = PyUnicode_FromFormat(", limit=%lld, remaining=%lld, %s=%R, reset_after=%R", limit,
                                  remaining, name, wait, reset);
    } else {
      text = PyUnicode_FromFormat(", limit=%lld, remaining=%lld, reset_after=%R", limit, remaining,
                                  reset);
    }
  }
  Py_XDECREF(wait);
  Py_XDECREF(reset);
  return text;
}

PyObject* decision_repr(PyObject* self) {
  const saqiya_decision& d = decision_of(self);
  PyObject* numbers = numbers_text(d);
  if (numbers == nullptr) return nullptr;
  const bool stored = d.source == SAQIYA_SOURCE_STORE;
  const bool reasoned = d.reason != SAQIYA_REASON_NONE;
  PyObject* text = PyUnicode_FromFormat(
      "Decision(%s%U%s%s%s%s)", saqiya_outcome_name(d.outcome), numbers,
      stored ? "" : ", source=", stored ? "" : saqiya_source_name(d.source),
      reasoned ? ", reason=" : "", reasoned ? saqiya_reason_name(d.reason) : "");
  Py_DECREF(numbers);
  return text;
}

bool equal(const saqiya_decision& a, const saqiya_decision& b) {
  return a.outcome == b.outcome && a.reason == b.reason && a.limit == b.limit &&
         a.remaining == b.remaining && a.retry_after_us == b.retry_after_us &&
         a.reset_after_us == b.reset_after_us && a.delay_us == b.delay_us && a.rule == b.rule &&
         a.item == b.item && a.source == b.source;
}

PyObject* decision_compare(PyObject* self, PyObject* other, int operation) {
  if (Py_TYPE(other) != Py_TYPE(self) || (operation != Py_EQ && operation != Py_NE)) {
    Py_RETURN_NOTIMPLEMENTED;
  }
  const bool same = equal(decision_of(self), decision_of(other));
  return PyBool_FromLong(same == (operation == Py_EQ));
}

// The constructor's arguments; rules: of the Decision, a borrowed tuple.
PyObject* fields(PyObject* self, PyObject* rules) {
  const saqiya_decision& d = decision_of(self);
  const char* reason = d.reason == SAQIYA_REASON_NONE ? nullptr : saqiya_reason_name(d.reason);
  return Py_BuildValue("(szLLLLLiiOs)", saqiya_outcome_name(d.outcome), reason,
                       static_cast<long long>(d.limit), static_cast<long long>(d.remaining),
                       static_cast<long long>(d.retry_after_us),
                       static_cast<long long>(d.reset_after_us), static_cast<long long>(d.delay_us),
                       d.rule, d.item, rules, saqiya_source_name(d.source));
}

Py_hash_t decision_hash(PyObject* self) {
  PyObject* tuple = fields(self, Py_None);
  if (tuple == nullptr) return -1;
  const Py_hash_t hash = PyObject_Hash(tuple);
  Py_DECREF(tuple);
  return hash;
}

PyObject* decision_reduce(PyObject* self, PyObject*) {
  const bool several = tells_parts(self) && self_of(self)->view.count > 1;
  PyObject* rules = several ? get_rules(self, nullptr) : PyTuple_New(0);
  if (rules == nullptr) return nullptr;
  PyObject* arguments = fields(self, rules);
  Py_DECREF(rules);
  if (arguments == nullptr) return nullptr;
  return Py_BuildValue("(ON)", Py_TYPE(self), arguments);
}

constexpr Py_ssize_t kBase = offsetof(DecisionObject, decision);

PyMemberDef members[] = {
    {"limit", T_LONGLONG, kBase + offsetof(saqiya_decision, limit), READONLY,
     "What the rule that bound allows at the most; 2**53 - 1 when unlimited."},
    {"remaining", T_LONGLONG, kBase + offsetof(saqiya_decision, remaining), READONLY,
     "What is left of it afterwards, rounded down: 0 <= remaining <= limit."},
    {"retry_after_us", T_LONGLONG, kBase + offsetof(saqiya_decision, retry_after_us), READONLY,
     "retry_after in whole microseconds; 2**63 - 1 for never."},
    {"reset_after_us", T_LONGLONG, kBase + offsetof(saqiya_decision, reset_after_us), READONLY,
     "reset_after in whole microseconds."},
    {"delay_us", T_LONGLONG, kBase + offsetof(saqiya_decision, delay_us), READONLY,
     "delay in whole microseconds."},
    {"rule", T_INT, kBase + offsetof(saqiya_decision, rule), READONLY,
     "Index of the rule that bound, from 0: refused, of those that refused the one with the "
     "longest "
     "wait; allowed, the one with the least remaining share."},
    {"item", T_INT, kBase + offsetof(saqiya_decision, item), READONLY,
     "After check_all(): index of the item whose rule that is."},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef getters[] = {
    {"allowed", get_allowed, nullptr, "True when the request may go on, as in `if decision:`.",
     nullptr},
    {"outcome", get_outcome, nullptr, "\"allowed\", \"denied\", \"never\" or \"unavailable\".",
     nullptr},
    {"reason", get_reason, nullptr,
     "Why Redis did not answer (\"timeout\", \"connect\", ...); None when it did.", nullptr},
    {"source", get_source, nullptr,
     "Which way it was made: \"store\"; \"cache\", denied, for Redis refused this key a moment "
     "ago; "
     "or, because Redis did not answer, as the limiter's failure policy says: \"local\", by a "
     "table "
     "in this process; \"open\", allowed unseen; \"closed\", denied.",
     nullptr},
    {"retry_after", get_retry_after, nullptr,
     "Seconds until this very cost passes if nobody else comes; math.inf for never, 0.0 when "
     "allowed.",
     nullptr},
    {"reset_after", get_reset_after, nullptr,
     "Seconds until all of the limit is there again if left alone.", nullptr},
    {"delay", get_delay, nullptr,
     "Seconds to wait before going on; above 0 only for a reservation and for a rule with a queue. "
     "acquire() has waited them.",
     nullptr},
    {"rules", get_rules, nullptr,
     "What each rule alone says, as Decisions: of the policy's rules in turn, after check_all() of "
     "every item's; of a single rule, and after check_many(), this decision. They are charged when "
     "the whole is allowed.",
     nullptr},
    {"items", get_items, nullptr,
     "After check_all(), what each item alone says, as Decisions; else this decision. Each can be "
     "refunded, settled or renewed by its own limiter.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef methods[] = {
    {"__reduce__", decision_reduce, METH_NOARGS, "Pickles the numbers; a copy cannot be refunded."},
    {nullptr, nullptr, 0, nullptr}};

PyDoc_STRVAR(
    kDoc,
    "Decision(outcome, reason=None, limit=0, remaining=0, retry_after_us=0, "
    "reset_after_us=0, delay_us=0, rule=0, item=0, rules=(), source='store')\n--\n\n"
    "The answer to a check: true when allowed, immutable, hashable.\n\n"
    "It also carries what refund(), settle() and release() need, once; copies do not. Decisions\n"
    "compare by their numbers, those of their rules left out.");

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

DecisionObject* new_decision_of(ModuleState* state, std::size_t rules) {
  DecisionObject* object = new_decision(state);
  if (object == nullptr) return nullptr;
  Parts* parts = new_parts(rules);
  if (parts == nullptr) {
    Py_DECREF(reinterpret_cast<PyObject*>(object));
    PyErr_NoMemory();
    return nullptr;
  }
  object->decision = saqiya_decision{};
  object->view = {parts, 0, static_cast<std::uint32_t>(rules)};
  object->several = true;
  return object;
}

PyType_Spec decision_spec = {"saqiya._saqiya.Decision", sizeof(DecisionObject), 0,
#ifdef Py_TPFLAGS_IMMUTABLETYPE
                             Py_TPFLAGS_IMMUTABLETYPE |
#endif
                                 Py_TPFLAGS_DEFAULT,
                             slots};

}  // namespace saqiya::python

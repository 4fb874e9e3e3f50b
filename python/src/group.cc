#include "group.h"

#include "arguments.h"
#include "calls.h"
#include "events.h"
#include "green.h"
#include "tickets.h"

namespace saqiya::python {

Items::~Items() {
  for (std::size_t i = 0; i < owned_; ++i) Py_DECREF(owners_[i]);
}

void Items::set(const LimiterObject* limiter, const saqiya_key& key, std::int64_t cost) {
  items_[0] = {limiter->handle, key.data, key.len, cost};
  rules_of_[0] = static_cast<std::uint32_t>(limiter->rules);
  count_ = 1;
  rules_ = limiter->rules;
  local_ = limiter->local;
  store_ = limiter->store;
}

bool Items::read_item(ModuleState* state, PyObject* object, const LimiterObject** limiter) {
  if (!PyTuple_Check(object) && !PyList_Check(object)) {
    PyErr_Format(PyExc_TypeError,
                 "an item must be (limiter, key) or (limiter, key, cost), not %.100s",
                 Py_TYPE(object)->tp_name);
    return false;
  }
  PyObject* fields = PySequence_Tuple(object);
  if (fields == nullptr) return false;
  owners_[owned_++] = fields;
  const Py_ssize_t size = PyTuple_GET_SIZE(fields);
  if (size != 2 && size != 3) {
    PyErr_SetString(PyExc_TypeError, "an item must be (limiter, key) or (limiter, key, cost)");
    return false;
  }
  LimiterObject* native;
  saqiya_key key;
  std::int64_t cost;
  if (!read_limiter(state, PyTuple_GET_ITEM(fields, 0), &native) ||
      !read_key(state, PyTuple_GET_ITEM(fields, 1), &key) ||
      !read_cost(state, size == 3 ? PyTuple_GET_ITEM(fields, 2) : nullptr, &cost)) {
    return false;
  }
  items_[count_] = {native->handle, key.data, key.len, cost};
  rules_of_[count_] = static_cast<std::uint32_t>(native->rules);
  ++count_;
  rules_ += native->rules;
  *limiter = native;
  return true;
}

bool Items::read(ModuleState* state, PyObject* object) {
  PyObject* list = PySequence_Tuple(object);
  if (list == nullptr) return false;
  const Py_ssize_t size = PyTuple_GET_SIZE(list);
  bool good = size >= 1 && size <= SAQIYA_MAX_ITEMS;
  if (!good) raise_error(state, SAQIYA_INVALID, -1, "there must be 1 to 16 items");
  const LimiterObject* first = nullptr;
  for (Py_ssize_t i = 0; good && i < size; ++i) {
    const LimiterObject* limiter = nullptr;
    good = read_item(state, PyTuple_GET_ITEM(list, i), &limiter);
    if (i == 0) first = limiter;
    if (good && limiter->store != first->store) {
      raise_error(state, SAQIYA_INVALID, -1, "the limiters must be of one store");
      good = false;
    }
  }
  Py_DECREF(list);
  if (good) local_ = first->local;
  if (good) store_ = first->store;
  return good;
}

PyObject* Items::as_tuple() const {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(owned_));
  for (std::size_t i = 0; tuple != nullptr && i < owned_; ++i) {
    Py_INCREF(owners_[i]);
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), owners_[i]);
  }
  return tuple;
}

DecisionObject* Items::new_decision(ModuleState* state) const {
  DecisionObject* decision = new_decision_of(state, rules_);
  if (decision == nullptr) return nullptr;
  std::uint8_t* items = decision->view.parts->items;
  for (std::size_t i = 0; i < count_; ++i) {
    for (std::uint32_t k = 0; k < rules_of_[i]; ++k) *items++ = static_cast<std::uint8_t>(i);
  }
  return decision;
}

PyObject* raise_items(ModuleState* state, int status) {
  if (status != SAQIYA_INVALID) return raise_status(state, status);
  return raise_error(state, status, -1, "two limiters of one name have different rules");
}

namespace {

// Asks by the call, which gets the parts to fill.
template <typename Call>
PyObject* ask(ModuleState* state, const Items& items, Call call) {
  DecisionObject* result = items.new_decision(state);
  if (result == nullptr) return nullptr;
  const int status = run(state, items.local(), [&] { return call(result, result->view.parts); });
  if (status == SAQIYA_OK) [[likely]] {
    number(result->view.parts);
    return reinterpret_cast<PyObject*>(result);
  }
  if (status != -1) raise_items(state, status);
  Py_DECREF(reinterpret_cast<PyObject*>(result));
  return nullptr;
}

ModuleState* state_in(PyObject* capsule) {
  return static_cast<ModuleState*>(PyCapsule_GetPointer(capsule, kStateCapsule));
}

// Lets saqiya._green make the call where greenlets run in this thread: true, with what it returned.
bool ask_green(ModuleState* state, const Items& items, const char* name, PyObject* second,
               PyObject** result) {
  *result = nullptr;
  if (items.local()) return false;
  PyObject* green = find_green(state, name);
  if (green == nullptr) return PyErr_Occurred() != nullptr;
  PyObject* list = items.as_tuple();
  if (list == nullptr) {
    Py_DECREF(green);
    return true;
  }
  PyObject* args[] = {list, second};
  *result = call_green(green, nullptr, args, second == nullptr ? 1 : 2, nullptr);
  Py_DECREF(list);
  return true;
}

// The result, after what the store has to tell; null stays null.
PyObject* logged(const Items& items, PyObject* result) {
  if (result != nullptr) log_events(items.store());
  return result;
}

constexpr Signature<2> kCheckAll = {"check_all", 2, 2, {"items", "max_wait_us"}};

PyObject* check_all(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  ModuleState* state = state_in(self);
  PyObject* given[2];
  PyObject* result;
  Items items;
  if (!bind(kCheckAll, args, count, keywords, given) || !items.read(state, given[0])) {
    return nullptr;
  }
  if (ask_green(state, items, "check_all", given[1], &result)) return result;
  const std::int64_t max_wait_us = PyLong_AsLongLong(given[1]);
  if (max_wait_us == -1 && PyErr_Occurred() != nullptr) return nullptr;
  return logged(items, check_items(state, items, max_wait_us));
}

PyObject* peek_all(PyObject* self, PyObject* object) {
  ModuleState* state = state_in(self);
  PyObject* result;
  Items items;
  if (!items.read(state, object)) return nullptr;
  if (ask_green(state, items, "peek_all", nullptr, &result)) return result;
  return logged(items, peek_items(state, items));
}

constexpr Signature<2> kRefundAll = {"refund_all", 2, 2, {"items", "decision"}};

PyObject* refund_all(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  ModuleState* state = state_in(self);
  PyObject* given[2];
  PyObject* told;
  Items items;
  DecisionObject* decision;
  Tickets tickets;
  if (!bind(kRefundAll, args, count, keywords, given) || !items.read(state, given[0])) {
    return nullptr;
  }
  if (ask_green(state, items, "refund_all", given[1], &told)) return told;
  if (!read_decision(state, given[1], &decision) ||
      !tickets.take(state, decision, items.rules(), Take::kAll, items.count())) {
    return nullptr;
  }
  DecisionObject* result = new_decision(state);
  if (result == nullptr) {
    tickets.put_back();
    return nullptr;
  }
  result->ticket = saqiya_ticket{};
  const int status = run(state, items.local(), [&] {
    return saqiya_refund_all(items.data(), items.count(), tickets.data(), &result->decision);
  });
  if (status == SAQIYA_OK) {
    tickets.put_back_unspent();
    return logged(items, reinterpret_cast<PyObject*>(result));
  }
  tickets.put_back();
  if (status != -1) raise_items(state, status);
  Py_DECREF(reinterpret_cast<PyObject*>(result));
  return nullptr;
}

constexpr Signature<4> kAcquirePause = {
    "acquire_pause", 4, 4, {"items", "decision", "attempt", "left_us"}};

PyObject* acquire_pause(PyObject* self, PyObject* const* args, Py_ssize_t count,
                        PyObject* keywords) {
  ModuleState* state = state_in(self);
  PyObject* given[4];
  Items items;
  DecisionObject* decision;
  if (!bind(kAcquirePause, args, count, keywords, given) || !items.read(state, given[0]) ||
      !read_decision(state, given[1], &decision)) {
    return nullptr;
  }
  const unsigned long attempt = PyLong_AsUnsignedLong(given[2]);
  const std::int64_t left_us = PyLong_AsLongLong(given[3]);
  if (PyErr_Occurred() != nullptr) return nullptr;
  return PyLong_FromLongLong(saqiya_acquire_pause_us(items.data(), items.count(),
                                                     &decision->decision,
                                                     static_cast<std::uint32_t>(attempt), left_us));
}

constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;

// Python's functions keep pointers into it, and never write to it.
PyMethodDef functions[] = {
    {"check_all", as_method(check_all), kFast,
     "check_all($module, /, items, max_wait_us)\n--\n\n"
     "Decides (limiter, key[, cost]) items together; max_wait_us: 0, or as in reserve()."},
    {"peek_all", peek_all, METH_O,
     "peek_all($module, items, /)\n--\n\nWhat check_all() would say, charging nothing."},
    {"refund_all", as_method(refund_all), kFast,
     "refund_all($module, /, items, decision)\n--\n\nGives back what check_all() took."},
    {"acquire_pause", as_method(acquire_pause), kFast,
     "acquire_pause($module, /, items, decision, attempt, left_us)\n--\n\n"
     "Microseconds to sleep before the next try of an acquire; -1: give up."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* check_items(ModuleState* state, const Items& items, std::int64_t max_wait_us) {
  return ask(state, items, [&](DecisionObject* result, Parts* parts) {
    return saqiya_check_all(items.data(), items.count(), max_wait_us, &result->decision,
                            parts->decisions, parts->tickets);
  });
}

PyObject* peek_items(ModuleState* state, const Items& items) {
  return ask(state, items, [&](DecisionObject* result, Parts* parts) {
    return saqiya_peek_all(items.data(), items.count(), &result->decision, parts->decisions);
  });
}

bool add_group_functions(PyObject* module, PyObject* state_capsule) {
  PyObject* name = PyModule_GetNameObject(module);
  bool added = name != nullptr;
  for (PyMethodDef* method = functions; added && method->ml_name != nullptr; ++method) {
    PyObject* function = PyCFunction_NewEx(method, state_capsule, name);
    added = function != nullptr && PyObject_SetAttrString(module, method->ml_name, function) == 0;
    Py_XDECREF(function);
  }
  Py_XDECREF(name);
  return added;
}

}  // namespace saqiya::python

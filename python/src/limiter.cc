#include "limiter_methods.h"

#include <algorithm>
#include <new>
#include <vector>

#include "arguments.h"
#include "calls.h"
#include "decision.h"
#include "group.h"
#include "http.h"
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

}  // namespace

namespace methods {

constexpr Signature<2> kCheck = {"check", 1, 2, {"key", "cost"}};

PyObject* check(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  saqiya_key key;
  std::int64_t cost;
  if (!bind(kCheck, args, count, keywords, given) || !read_key(self->state, given[0], &key) ||
      !read_cost(self->state, given[1], &cost)) {
    return nullptr;
  }
  if (self->rules > 1) return check_item(self, key, cost, 0);
  return decide(self, [&](DecisionObject* result) {
    return saqiya_limiter_check(self->handle, key.data, key.len, cost, &result->decision,
                                &result->ticket);
  });
}

constexpr Signature<2> kPeek = {"peek", 1, 2, {"key", "cost"}};

PyObject* peek(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  saqiya_key key;
  std::int64_t cost;
  if (!bind(kPeek, args, count, keywords, given) || !read_key(self->state, given[0], &key) ||
      !read_cost(self->state, given[1], &cost)) {
    return nullptr;
  }
  if (self->rules > 1) return peek_item(self, key, cost);
  return decide(self, [&](DecisionObject* result) {
    result->ticket = saqiya_ticket{};
    return saqiya_limiter_peek(self->handle, key.data, key.len, cost, &result->decision);
  });
}

constexpr Signature<3> kReserve = {"reserve", 3, 3, {"key", "cost", "max_wait_us"}};

PyObject* reserve(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[3];
  saqiya_key key;
  std::int64_t cost;
  if (!bind(kReserve, args, count, keywords, given) || !read_key(self->state, given[0], &key) ||
      !read_cost(self->state, given[1], &cost)) {
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

namespace {

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
  if (result == nullptr) {
    tickets.put_back();
  } else {
    tickets.put_back_unspent();
  }
  return result;
}

PyObject* give_back(LimiterObject* self, const Signature<2>& signature, Take take,
                    PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  PyObject* given[2];
  saqiya_key key;
  if (!bind(signature, args, count, keywords, given) || !read_key(self->state, given[0], &key)) {
    return nullptr;
  }
  return change(self, given[1], take, [&](saqiya_ticket* tickets, saqiya_decision* decision) {
    return saqiya_limiter_refund(self->handle, key.data, key.len, tickets, decision);
  });
}

}  // namespace

constexpr Signature<2> kRefund = {"refund", 2, 2, {"key", "decision"}};

PyObject* refund(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return give_back(self_of(object), kRefund, Take::kAll, args, count, keywords);
}

constexpr Signature<2> kRelease = {"release", 2, 2, {"key", "decision"}};

PyObject* release(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  return give_back(self_of(object), kRelease, Take::kLeases, args, count, keywords);
}

constexpr Signature<2> kRenew = {"renew", 2, 2, {"key", "decision"}};

PyObject* renew(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  saqiya_key key;
  if (!bind(kRenew, args, count, keywords, given) || !read_key(self->state, given[0], &key)) {
    return nullptr;
  }
  return change(self, given[1], Take::kNone,
                [&](const saqiya_ticket* tickets, saqiya_decision* decision) {
                  return saqiya_limiter_renew(self->handle, key.data, key.len, tickets, decision);
                });
}

constexpr Signature<3> kSettle = {"settle", 3, 3, {"key", "decision", "cost"}};

PyObject* settle(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[3];
  saqiya_key key;
  std::int64_t cost;
  if (!bind(kSettle, args, count, keywords, given) || !read_key(self->state, given[0], &key) ||
      !read_cost(self->state, given[2], &cost)) {
    return nullptr;
  }
  const auto settle = [&](saqiya_ticket* tickets, saqiya_decision* decision) {
    return saqiya_limiter_settle(self->handle, key.data, key.len, tickets, cost, decision);
  };
  return change(self, given[1], Take::kCharges, settle);
}

constexpr Signature<1> kReset = {"reset", 1, 1, {"key"}};

PyObject* reset(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[1];
  saqiya_key key;
  if (!bind(kReset, args, count, keywords, given) || !read_key(self->state, given[0], &key)) {
    return nullptr;
  }
  return decide(self, [&](DecisionObject* result) {
    result->ticket = saqiya_ticket{};
    return saqiya_limiter_reset(self->handle, key.data, key.len, &result->decision);
  });
}

constexpr Signature<2> kCheckMany = {"check_many", 1, 2, {"keys", "cost"}};

namespace {

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

}  // namespace

PyObject* check_many(PyObject* object, PyObject* const* args, Py_ssize_t count,
                     PyObject* keywords) {
  LimiterObject* self = self_of(object);
  PyObject* given[2];
  std::int64_t cost;
  if (!bind(kCheckMany, args, count, keywords, given) || !read_cost(self->state, given[1], &cost)) {
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

namespace {

PyObject* http_of(PyObject* object, PyObject* argument,
                  PyObject* (*make)(const saqiya_limiter*, const saqiya_decision*)) {
  LimiterObject* self = self_of(object);
  DecisionObject* decision;
  if (!ready(self) || !read_decision(self->state, argument, &decision)) return nullptr;
  return make(self->handle, &decision->decision);
}

}  // namespace

constexpr Signature<2> kHttpHeaders = {"http_headers", 1, 2, {"decision", "fields"}};

PyObject* http_headers(PyObject* object, PyObject* const* args, Py_ssize_t count,
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
  return python::http_headers(self->handle, &decision->decision,
                              static_cast<std::uint32_t>(fields));
}

PyObject* http_body(PyObject* object, PyObject* argument) {
  return http_of(object, argument, python::http_body);
}
PyObject* http_status(PyObject* object, PyObject* argument) {
  return http_of(object, argument, python::http_status);
}

}  // namespace methods
}  // namespace saqiya::python

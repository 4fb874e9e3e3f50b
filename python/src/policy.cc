#include "policy.h"

#include <cstddef>
#include <cstring>

namespace saqiya::python {
namespace {

// The message with the place in the text, which is shown unless it is long.
void raise_at(ModuleState* state, int status, int position, const char* message, PyObject* policy) {
  constexpr Py_ssize_t kMostShown = 200;  // characters
  if (position < 0) {
    raise_error(state, status, position, message);
    return;
  }
  const bool shown = PyUnicode_Check(policy) && PyUnicode_GET_LENGTH(policy) <= kMostShown;
  PyObject* text = shown ? PyUnicode_FromFormat("%s (at byte %d of %R)", message, position, policy)
                         : PyUnicode_FromFormat("%s (at byte %d)", message, position);
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  if (bytes != nullptr) raise_error(state, status, position, bytes);
  Py_XDECREF(text);
}

int from_text(ModuleState* state, saqiya_store* store, PyObject* policy,
              const saqiya_limiter_options& options, saqiya_limiter** limiter,
              saqiya_error* error) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(policy, &length);
  if (text == nullptr) return -1;
  if (const std::size_t end = std::strlen(text); end != static_cast<std::size_t>(length)) {
    raise_at(state, SAQIYA_BAD_POLICY, static_cast<int>(end), "unexpected zero character", policy);
    return -1;
  }
  return saqiya_limiter_create(store, text, &options, limiter, error);
}

// zone is borrowed from the tuple.
bool read_rule(PyObject* tuple, saqiya_rule* rule) {
  saqiya_rule_init(rule, sizeof *rule);
  unsigned int algorithm = 0;
  long long capacity, tokens, period_us, queue;
  int unit = 0, anchor_day = 0;
  if (!PyArg_ParseTuple(tuple, "ILLLLiiz", &algorithm, &capacity, &tokens, &period_us, &queue,
                        &unit, &anchor_day, &rule->zone)) {
    return false;
  }
  rule->algorithm = algorithm;
  rule->capacity = capacity;
  rule->tokens = tokens;
  rule->period_us = period_us;
  rule->queue = queue;
  rule->unit = unit;
  rule->anchor_day = anchor_day;
  return true;
}

int from_rules(ModuleState* state, saqiya_store* store, PyObject* policy,
               const saqiya_limiter_options& options, saqiya_limiter** limiter,
               saqiya_error* error) {
  const Py_ssize_t count = PyTuple_GET_SIZE(policy);
  saqiya_rule rules[SAQIYA_MAX_RULES];
  if (count < 1 || count > SAQIYA_MAX_RULES) {
    raise_error(state, SAQIYA_BAD_POLICY, -1, "a policy must have 1 to 8 rules");
    return -1;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* rule = PyTuple_GET_ITEM(policy, i);
    if (!PyTuple_Check(rule)) {
      PyErr_Format(PyExc_TypeError, "a rule must be a tuple, not %.100s", Py_TYPE(rule)->tp_name);
      return -1;
    }
    if (!read_rule(rule, &rules[i])) return -1;
  }
  return saqiya_limiter_create_rules(store, rules, static_cast<std::size_t>(count), &options,
                                     limiter, error);
}

}  // namespace

saqiya_limiter* make_limiter(ModuleState* state, saqiya_store* store, PyObject* policy,
                             const saqiya_limiter_options& options) {
  saqiya_limiter* limiter = nullptr;
  saqiya_error error = {};
  int status = -1;
  if (PyUnicode_Check(policy)) {
    status = from_text(state, store, policy, options, &limiter, &error);
  } else if (PyTuple_Check(policy)) {
    status = from_rules(state, store, policy, options, &limiter, &error);
  } else {
    PyErr_Format(PyExc_TypeError, "policy must be str or tuple, not %.100s",
                 Py_TYPE(policy)->tp_name);
  }
  if (status == SAQIYA_OK) return limiter;
  if (status == -1) return nullptr;
  const char* message = error.message[0] != '\0' ? error.message : saqiya_status_message(status);
  raise_at(state, status, error.position, message, policy);
  return nullptr;
}

}  // namespace saqiya::python

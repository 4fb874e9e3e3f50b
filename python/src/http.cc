#include "http.h"

#include <cstddef>
#include <string_view>

namespace saqiya::python {
namespace {

constexpr std::size_t kBufferSize = 4096;  // 8 rules with the longest name

PyObject* failed(int status) {
  PyErr_SetString(PyExc_RuntimeError, saqiya_status_message(status));
  return nullptr;
}

bool add_line(PyObject* dict, std::string_view line) {
  const std::size_t colon = line.find(": ");
  if (colon == std::string_view::npos) return true;
  PyObject* name = PyUnicode_FromStringAndSize(line.data(), static_cast<Py_ssize_t>(colon));
  const std::string_view text = line.substr(colon + 2);
  PyObject* value = PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  const bool added = name != nullptr && value != nullptr && PyDict_SetItem(dict, name, value) == 0;
  Py_XDECREF(name);
  Py_XDECREF(value);
  return added;
}

}  // namespace

PyObject* http_headers(const saqiya_limiter* limiter, const saqiya_decision* decision,
                       std::uint32_t fields) {
  char buffer[kBufferSize];
  std::size_t length = 0;
  const int status = saqiya_http_fields(limiter, decision, fields, buffer, sizeof(buffer), &length);
  if (status != SAQIYA_OK) return failed(status);
  PyObject* dict = PyDict_New();
  std::string_view rest(buffer, length);
  while (dict != nullptr && !rest.empty()) {
    const std::size_t end = rest.find("\r\n");
    if (!add_line(dict, rest.substr(0, end))) Py_CLEAR(dict);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
  }
  return dict;
}

PyObject* http_body(const saqiya_limiter* limiter, const saqiya_decision* decision) {
  char buffer[kBufferSize];
  std::size_t length = 0;
  const int status = saqiya_http_body(limiter, decision, buffer, sizeof(buffer), &length);
  if (status != SAQIYA_OK) return failed(status);
  return PyUnicode_FromStringAndSize(buffer, static_cast<Py_ssize_t>(length));
}

PyObject* http_status(const saqiya_limiter* limiter, const saqiya_decision* decision) {
  saqiya_http_numbers numbers;
  const int status = saqiya_http_get_numbers(limiter, decision, &numbers);
  if (status != SAQIYA_OK) return failed(status);
  return PyLong_FromLong(numbers.status);
}

}  // namespace saqiya::python

#include "arguments.h"

#include <cstring>
#include <vector>

namespace saqiya::node {
namespace {

// Node writes U+FFFD for a lone surrogate, so that two different strings would become one key. Only
// when that character is in the result is the string looked at again.
bool has_replacement_character(const char* data, std::size_t size) {
  const char* at = data;
  const char* const end = data + size;
  while ((at = static_cast<const char*>(
              std::memchr(at, 0xEF, static_cast<std::size_t>(end - at)))) != nullptr) {
    if (end - at >= 3 && at[1] == '\xBF' && at[2] == '\xBD') return true;
    ++at;
  }
  return false;
}

bool is_well_formed(napi_env env, napi_value value) {
  std::size_t length = 0;
  if (napi_get_value_string_utf16(env, value, nullptr, 0, &length) != napi_ok) return false;
  std::vector<char16_t> units(length + 1);
  if (napi_get_value_string_utf16(env, value, units.data(), units.size(), &length) != napi_ok) {
    return false;
  }
  for (std::size_t i = 0; i < length; ++i) {
    if (units[i] < 0xD800 || units[i] > 0xDFFF) continue;
    const bool pair =
        units[i] <= 0xDBFF && i + 1 < length && units[i + 1] >= 0xDC00 && units[i + 1] <= 0xDFFF;
    if (!pair) return false;
    ++i;
  }
  return true;
}

bool too_long(Environment& environment) {
  environment.raise("range", "key must not be longer than 65536 bytes");
  return false;
}

bool read_long_string(Environment& environment, napi_value value, Key* key) {
  napi_env env = environment.env();
  std::size_t length = 0;
  napi_get_value_string_utf8(env, value, nullptr, 0, &length);
  if (length > SAQIYA_MAX_KEY) return too_long(environment);
  std::string& scratch = environment.scratch();
  scratch.resize(length + 1);
  napi_get_value_string_utf8(env, value, scratch.data(), scratch.size(), &key->size);
  key->data = scratch.data();
  return true;
}

bool read_bytes(Environment& environment, napi_value value, Key* key) {
  napi_env env = environment.env();
  bool is_array = false;
  napi_typedarray_type type = napi_int8_array;
  void* data = nullptr;
  if (napi_is_typedarray(env, value, &is_array) != napi_ok || !is_array ||
      napi_get_typedarray_info(env, value, &type, &key->size, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array) {
    environment.raise("type", "key must be a string or a Uint8Array");
    return false;
  }
  if (key->size > SAQIYA_MAX_KEY) return too_long(environment);
  key->data = static_cast<const char*>(data);
  return true;
}

}  // namespace

bool read_key(Environment& environment, napi_value value, Key* key) {
  napi_env env = environment.env();
  key->data = key->inline_;
  if (napi_get_value_string_utf8(env, value, key->inline_, Key::kInline, &key->size) != napi_ok) {
    return read_bytes(environment, value, key);
  }
  // A string that did not fit is cut without a word, before a whole character: up to 3 bytes early.
  if (key->size + 4 >= Key::kInline && !read_long_string(environment, value, key)) return false;
  if (has_replacement_character(key->data, key->size) && !is_well_formed(env, value)) {
    environment.raise("type", "key must not hold a lone surrogate");
    return false;
  }
  return true;
}

bool read_cost(Environment& environment, napi_value value, std::int64_t* cost) {
  double number = 0;
  if (napi_get_value_double(environment.env(), value, &number) != napi_ok) {
    environment.raise("type", "cost must be a number");
    return false;
  }
  if (number >= 0 && number <= static_cast<double>(SAQIYA_MAX_COST)) {
    *cost = static_cast<std::int64_t>(number);
    if (static_cast<double>(*cost) == number) return true;
  }
  environment.raise("range", "cost must be a whole number from 0 to Number.MAX_SAFE_INTEGER");
  return false;
}

bool read_number(Environment& environment, napi_value value, double* number) {
  if (napi_get_value_double(environment.env(), value, number) == napi_ok) return true;
  environment.raise("type", "expected a number");
  return false;
}

bool read_int64(Environment& environment, napi_value value, std::int64_t* number) {
  if (napi_get_value_int64(environment.env(), value, number) == napi_ok) return true;
  environment.raise("type", "expected a number");
  return false;
}

bool read_ticket(Environment& environment, const napi_value* value, saqiya_ticket* ticket) {
  double number[4];
  for (std::size_t i = 0; i < 4; ++i) {
    if (!read_number(environment, value[i], &number[i])) return false;
  }
  if (environment.read_ticket(number[0], number[1], number[2], number[3], ticket)) return true;
  environment.raise("type", "not a decision of this environment");
  return false;
}

bool read_optional_string(Environment& environment, napi_value value, std::string* text,
                          bool* present) {
  napi_env env = environment.env();
  napi_valuetype type = napi_undefined;
  napi_typeof(env, value, &type);
  *present = type != napi_undefined;
  if (!*present) return true;
  std::size_t length = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &length) != napi_ok) {
    environment.raise("type", "expected a string");
    return false;
  }
  text->resize(length + 1);
  napi_get_value_string_utf8(env, value, text->data(), text->size(), &length);
  text->resize(length);
  if (text->find('\0') == std::string::npos) return true;
  environment.raise("type", "text must not hold a NUL character");
  return false;
}

napi_value make_string(napi_env env, const char* text) {
  napi_value value = nullptr;
  napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value);
  return value;
}

napi_value make_number(napi_env env, double number) {
  napi_value value = nullptr;
  napi_create_double(env, number, &value);
  return value;
}

napi_value make_undefined(napi_env env) {
  napi_value value = nullptr;
  napi_get_undefined(env, &value);
  return value;
}

napi_value make_function(napi_env env, const char* name, napi_callback callback, void* data) {
  napi_value function = nullptr;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, data, &function);
  return function;
}

void set_property(napi_env env, napi_value object, const char* name, napi_value value) {
  napi_set_named_property(env, object, name, value);
}

}  // namespace saqiya::node

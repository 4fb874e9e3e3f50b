#include "arguments.h"

namespace saqiya::node {
namespace {

// Copies units while they are ASCII; returns how many. Blocks of a fixed size become vector code.
std::size_t copy_ascii(const char16_t* units, std::size_t length, char* out) {
  constexpr std::size_t kBlock = 8;
  std::size_t i = 0;
  for (; i + kBlock <= length; i += kBlock) {
    unsigned seen = 0;
    for (std::size_t j = 0; j < kBlock; ++j) {
      seen |= units[i + j];
      out[i + j] = static_cast<char>(units[i + j]);
    }
    if (seen >= 0x80) break;
  }
  for (; i < length && units[i] < 0x80; ++i) out[i] = static_cast<char>(units[i]);
  return i;
}

// Writes UTF-8, at most 3 bytes for a unit; returns its size, or kMalformed for a lone surrogate.
// (Node's own conversion would write U+FFFD, so that different strings became one key.)
constexpr std::size_t kMalformed = SIZE_MAX;

std::size_t write_utf8(const char16_t* units, std::size_t length, char* out) {
  std::size_t i = copy_ascii(units, length, out);
  char* to = out + i;
  for (; i < length; ++i) {
    std::uint32_t c = units[i];
    if (c < 0x80) {
      *to++ = static_cast<char>(c);
      continue;
    }
    if (c < 0x800) {
      *to++ = static_cast<char>(0xC0 | (c >> 6));
      *to++ = static_cast<char>(0x80 | (c & 0x3F));
      continue;
    }
    if (c >= 0xD800 && c <= 0xDFFF) {
      const bool pair =
          c <= 0xDBFF && i + 1 < length && units[i + 1] >= 0xDC00 && units[i + 1] <= 0xDFFF;
      if (!pair) return kMalformed;
      c = 0x10000 + ((c - 0xD800) << 10) + (units[++i] - 0xDC00u);
      *to++ = static_cast<char>(0xF0 | (c >> 18));
      *to++ = static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    } else {
      *to++ = static_cast<char>(0xE0 | (c >> 12));
    }
    *to++ = static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    *to++ = static_cast<char>(0x80 | (c & 0x3F));
  }
  return static_cast<std::size_t>(to - out);
}

bool too_long(Environment& environment) {
  environment.raise("range", "key must not be longer than 65536 bytes");
  return false;
}

// Strings that do not fit the inline buffers.
bool read_long_string(Environment& environment, napi_value value, Key* key, std::string* scratch) {
  napi_env env = environment.env();
  std::size_t length = 0;
  napi_get_value_string_utf16(env, value, nullptr, 0, &length);
  if (length > SAQIYA_MAX_KEY) return too_long(environment);
  std::u16string units(length + 1, u'\0');
  napi_get_value_string_utf16(env, value, units.data(), units.size(), &length);
  scratch->resize(3 * length);
  key->size = write_utf8(units.data(), length, scratch->data());
  key->data = scratch->data();
  if (key->size != kMalformed && key->size > SAQIYA_MAX_KEY) return too_long(environment);
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

bool read_key(Environment& environment, napi_value value, Key* key, std::string* scratch) {
  char16_t units[Key::kInline];
  std::size_t length = 0;
  if (napi_get_value_string_utf16(environment.env(), value, units, Key::kInline, &length) !=
      napi_ok) {
    return read_bytes(environment, value, key);
  }
  // A string that does not fit is cut without a word, to one unit less than the buffer.
  if (length + 1 < Key::kInline) {
    key->size = write_utf8(units, length, key->inline_);
    key->data = key->inline_;
  } else if (!read_long_string(environment, value, key, scratch)) {
    return false;
  }
  if (key->size != kMalformed) return true;
  environment.raise("type", "key must not hold a lone surrogate");
  return false;
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

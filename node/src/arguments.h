// Reading the arguments of a call from JavaScript. Everything here that returns bool returns false
// with an exception pending.
#pragma once

#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "environment.h"

namespace saqiya::node {

template <std::size_t N>
struct Arguments {
  // Missing arguments are undefined.
  Arguments(napi_env env, napi_callback_info info) {
    napi_get_cb_info(env, info, &count, value, nullptr, &data);
  }

  napi_value value[N];
  std::size_t count = N;  // how many were passed; more than N is possible
  void* data;             // what the function was created with
};

// A key's bytes: borrowed from the Uint8Array, or made here (long ones: in the scratch string), so
// they are valid until the call returns or the scratch is used again. Not initialised, for speed.
struct Key {
  Key() {}  // NOLINT: inline_ stays raw

  const char* data;
  std::size_t size;

  static constexpr std::size_t kInline = 128;  // UTF-16 units
  char inline_[3 * kInline];
};

// A well-formed string, as UTF-8, or a Uint8Array.
bool read_key(Environment& environment, napi_value value, Key* key, std::string* scratch);
inline bool read_key(Environment& environment, napi_value value, Key* key) {
  return read_key(environment, value, key, &environment.scratch());
}
// A whole number, 0 ... SAQIYA_MAX_COST; anything but a number is a TypeError.
bool read_cost(Environment& environment, napi_value value, std::int64_t* cost);
// A number that JavaScript has validated; false for anything else.
bool read_number(Environment& environment, napi_value value, double* number);
bool read_int64(Environment& environment, napi_value value, std::int64_t* number);
// undefined sets *present to false. Text with a NUL is refused: C would read only the part before
// it.
bool read_optional_string(Environment& environment, napi_value value, std::string* text,
                          bool* present);

napi_value make_string(napi_env env, const char* text);
napi_value make_number(napi_env env, double number);
napi_value make_undefined(napi_env env);
// A function with a data pointer. The caller adds finalizers.
napi_value make_function(napi_env env, const char* name, napi_callback callback, void* data);
void set_property(napi_env env, napi_value object, const char* name, napi_value value);

}  // namespace saqiya::node

#include "clock.h"

namespace saqiya::node {
namespace {

using Setter = int (*)(saqiya_clock*, std::int64_t);

template <Setter Set>
napi_value set_clock(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  Arguments<1> arguments(env, info);
  std::int64_t us = 0;
  if (!read_int64(environment, arguments.value[0], &us)) return nullptr;
  const int status = Set(static_cast<Clock*>(arguments.data)->get(), us);
  if (status != SAQIYA_OK) return environment.raise("range", "the clock's range is 0 to 2^52 us");
  return nullptr;
}

template <bool Wall>
napi_value read_clock(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  std::int64_t monotonic = 0;
  std::int64_t wall = 0;
  saqiya_clock_now(static_cast<Clock*>(arguments.data)->get(), &monotonic, &wall);
  return make_number(env, static_cast<double>(Wall ? wall : monotonic));
}

}  // namespace

napi_value create_clock(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  Arguments<1> arguments(env, info);
  std::int64_t now = 0;
  if (!read_int64(environment, arguments.value[0], &now)) return nullptr;
  saqiya_clock* clock = nullptr;
  const int status = saqiya_clock_create_manual(now, &clock);
  if (status == SAQIYA_INVALID) {
    return environment.raise("range", "the clock's range is 0 to 2^52 us");
  }
  if (status != SAQIYA_OK) return environment.raise_status(status);

  auto* object = new Clock(clock);
  const Held held(object);
  napi_value result = nullptr;
  napi_create_object(env, &result);
  set_property(env, result, "handle", wrap_external(env, object));
  set_method(env, result, "set", set_clock<saqiya_clock_set>, object);
  set_method(env, result, "setWall", set_clock<saqiya_clock_set_wall>, object);
  set_method(env, result, "advance", set_clock<saqiya_clock_advance>, object);
  set_method(env, result, "now", read_clock<false>, object);
  set_method(env, result, "wall", read_clock<true>, object);
  return result;
}

}  // namespace saqiya::node

// The addon's entry point, called once per environment.
#include "clock.h"
#include "environment.h"
#include "group.h"
#include "limiter.h"
#include "parts.h"
#include "queue.h"
#include "store.h"

namespace saqiya::node {
namespace {

napi_value set_error_factory(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  Environment::of(env)->set_error_factory(arguments.value[0]);
  return nullptr;
}

napi_value reason_name(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  std::int64_t reason = 0;
  if (!read_int64(*Environment::of(env), arguments.value[0], &reason)) return nullptr;
  return make_string(env, saqiya_reason_name(static_cast<std::int32_t>(reason)));
}

napi_value reason_is_undone(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  std::int64_t reason = 0;
  if (!read_int64(*Environment::of(env), arguments.value[0], &reason)) return nullptr;
  return make_number(env, saqiya_reason_is_undone(static_cast<std::int32_t>(reason)));
}

napi_value register_module(napi_env env, napi_value exports) {
  Environment* environment = Environment::create(env);
  if (environment == nullptr) return nullptr;
  const auto add = [&](const char* name, napi_callback callback) {
    set_property(env, exports, name, make_function(env, name, callback, nullptr));
  };
  set_property(env, exports, "version", make_string(env, saqiya_version()));
  set_property(env, exports, "records", environment->records());
  set_property(env, exports, "partSize", make_number(env, kPartSize));
  add("setErrorFactory", set_error_factory);
  add("reasonName", reason_name);
  add("reasonIsUndone", reason_is_undone);
  add("createClock", create_clock);
  add("createStore", create_store);
  add("createLimiter", create_limiter);
  add("createQueue", create_queue);
  add("ask", ask_items);
  add("pause", pause_items);
  add("unpack", unpack);
  return exports;
}

}  // namespace
}  // namespace saqiya::node

NAPI_MODULE_INIT() { return saqiya::node::register_module(env, exports); }

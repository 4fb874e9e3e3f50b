// The functions of a limiter as JavaScript calls them; limiter.h says what they take. Their data is
// the Limiter.
#pragma once

#include "limiter.h"

namespace saqiya::node {

// An open limiter, or null with an exception pending.
Limiter* open_limiter(void* data);

template <bool Http>
napi_value check(napi_env env, napi_callback_info info);
napi_value check_wait(napi_env env, napi_callback_info info);
napi_value peek(napi_env env, napi_callback_info info);
napi_value ask_parts(napi_env env, napi_callback_info info);
napi_value change(napi_env env, napi_callback_info info);
napi_value reset(napi_env env, napi_callback_info info);
napi_value pause(napi_env env, napi_callback_info info);

napi_value http(napi_env env, napi_callback_info info);
napi_value http_fields(napi_env env, napi_callback_info info);
napi_value http_body(napi_env env, napi_callback_info info);
// Puts the seconds of the fields into record 0; a saqiya_status.
int write_http(Environment& environment, const Limiter& limiter, const saqiya_decision& decision);

}  // namespace saqiya::node

// Decisions as HTTP answers.
#include "limiter_calls.h"

namespace saqiya::node {

int write_http(Environment& environment, const Limiter& limiter, const saqiya_decision& decision) {
  saqiya_http_numbers numbers;
  const int status = saqiya_http_get_numbers(limiter.get(), &decision, &numbers);
  if (status != SAQIYA_OK) return status;
  double* out = environment.record(0);
  out[kHttpReset] = numbers.has_limit != 0 ? static_cast<double>(numbers.reset_s) : -1;
  out[kHttpRetryAfter] = static_cast<double>(numbers.retry_after_s);
  out[kHttpT] = static_cast<double>(numbers.t_s);
  return status;
}

napi_value http(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  const int status = write_http(environment, *limiter, environment.read_decision());
  return status == SAQIYA_OK ? nullptr : environment.raise_status(status);
}

napi_value http_fields(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  std::int64_t flags = 0;
  if (!read_int64(environment, arguments.value[0], &flags)) return nullptr;
  const saqiya_decision decision = environment.read_decision();
  char text[2048];  // of policies of several rules, too
  std::size_t length = 0;
  const int status = saqiya_http_fields(
      limiter->get(), &decision, static_cast<std::uint32_t>(flags), text, sizeof text, &length);
  return status == SAQIYA_OK ? make_string(env, text) : environment.raise_status(status);
}

napi_value http_body(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  const saqiya_decision decision = environment.read_decision();
  char text[512];
  std::size_t length = 0;
  saqiya_http_numbers numbers;
  int status = saqiya_http_body(limiter->get(), &decision, text, sizeof text, &length);
  if (status == SAQIYA_OK) status = saqiya_http_get_numbers(limiter->get(), &decision, &numbers);
  if (status != SAQIYA_OK) return environment.raise_status(status);
  environment.record(0)[kHttpStatus] = numbers.status;
  return make_string(env, text);
}

}  // namespace saqiya::node

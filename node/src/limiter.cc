#include "limiter.h"

namespace saqiya::node {
namespace {

// An open limiter, or null with an exception pending.
Limiter* open_limiter(void* data) {
  auto* limiter = static_cast<Limiter*>(data);
  if (limiter->get() != nullptr) return limiter;
  limiter->environment().raise("closed", "the limiter or its store was closed");
  return nullptr;
}

// Returns undefined, which costs nothing: the decision is in record 0.
napi_value answer(Environment& environment, int status, const saqiya_decision& decision,
                  const saqiya_ticket& ticket) {
  if (status != SAQIYA_OK) return environment.raise_status(status);
  environment.write(0, decision, ticket);
  return nullptr;
}

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

// The hot path. Without a cost it is 1.
template <bool Http>
napi_value check(napi_env env, napi_callback_info info) {
  Arguments<2> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  Key key;
  std::int64_t cost = 1;
  if (!read_key(environment, arguments.value[0], &key) ||
      (arguments.count > 1 && !read_cost(environment, arguments.value[1], &cost))) {
    return nullptr;
  }
  saqiya_decision decision;
  saqiya_ticket ticket;
  int status = saqiya_limiter_check(limiter->get(), key.data, key.size, cost, &decision, &ticket);
  if (Http && status == SAQIYA_OK) status = write_http(environment, *limiter, decision);
  return answer(environment, status, decision, ticket);
}

napi_value check_wait(napi_env env, napi_callback_info info) {
  Arguments<3> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  Key key;
  std::int64_t cost = 0;
  std::int64_t max_wait = 0;
  if (!read_key(environment, arguments.value[0], &key) ||
      !read_cost(environment, arguments.value[1], &cost) ||
      !read_int64(environment, arguments.value[2], &max_wait)) {
    return nullptr;
  }
  saqiya_decision decision;
  saqiya_ticket ticket;
  const int status = saqiya_limiter_check_wait(limiter->get(), key.data, key.size, cost, max_wait,
                                               &decision, &ticket);
  return answer(environment, status, decision, ticket);
}

napi_value peek(napi_env env, napi_callback_info info) {
  Arguments<2> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  Key key;
  std::int64_t cost = 0;
  if (!read_key(environment, arguments.value[0], &key) ||
      !read_cost(environment, arguments.value[1], &cost)) {
    return nullptr;
  }
  saqiya_decision decision;
  const int status = saqiya_limiter_peek(limiter->get(), key.data, key.size, cost, &decision);
  return answer(environment, status, decision, saqiya_ticket{});
}

napi_value refund(napi_env env, napi_callback_info info) {
  Arguments<1 + kTicketCount> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  Key key;
  saqiya_ticket ticket;
  if (!read_key(environment, arguments.value[0], &key) ||
      !read_ticket(environment, arguments.value + 1, &ticket)) {
    return nullptr;
  }
  saqiya_decision decision;
  const int status = saqiya_limiter_refund(limiter->get(), key.data, key.size, &ticket, &decision);
  return answer(environment, status, decision, saqiya_ticket{});
}

napi_value reset(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  Key key;
  if (!read_key(environment, arguments.value[0], &key)) return nullptr;
  saqiya_decision decision;
  const int status = saqiya_limiter_reset(limiter->get(), key.data, key.size, &decision);
  return answer(environment, status, decision, saqiya_ticket{});
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
  char text[512];
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
  const int status = saqiya_http_body(limiter->get(), &decision, text, sizeof text, &length);
  return status == SAQIYA_OK ? make_string(env, text) : environment.raise_status(status);
}

napi_value close_limiter(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  static_cast<Limiter*>(arguments.data)->close();
  return nullptr;
}

// [capacity, tokens, period_us]
bool read_rule(Environment& environment, napi_value value, saqiya_rule* rule) {
  napi_env env = environment.env();
  saqiya_rule_init(rule, sizeof *rule);
  std::int64_t* const fields[] = {&rule->capacity, &rule->tokens, &rule->period_us};
  for (std::uint32_t i = 0; i < 3; ++i) {
    napi_value element = nullptr;
    if (napi_get_element(env, value, i, &element) != napi_ok ||
        !read_int64(environment, element, fields[i])) {
      return false;
    }
  }
  return true;
}

saqiya_limiter* create(Environment& environment, const napi_value* value, Store* store) {
  napi_env env = environment.env();
  if (store->get() == nullptr) {
    environment.raise("closed", "the store was closed");
    return nullptr;
  }
  saqiya_limiter_options options;
  saqiya_limiter_options_init(&options, sizeof options);
  std::string name;
  bool has_name = false;
  if (!read_optional_string(environment, value[2], &name, &has_name) ||
      !read_int64(environment, value[3], &options.deadline_us)) {
    return nullptr;
  }
  options.name = has_name ? name.c_str() : nullptr;

  saqiya_limiter* limiter = nullptr;
  saqiya_error error = {};
  int status = SAQIYA_OK;
  bool is_rule = false;
  napi_is_array(env, value[1], &is_rule);
  if (is_rule) {
    saqiya_rule rule;
    if (!read_rule(environment, value[1], &rule)) return nullptr;
    status = saqiya_limiter_create_rules(store->get(), &rule, 1, &options, &limiter, &error);
  } else {
    std::string text;
    bool has_text = false;
    if (!read_optional_string(environment, value[1], &text, &has_text)) return nullptr;
    status = saqiya_limiter_create(store->get(), text.c_str(), &options, &limiter, &error);
  }
  if (status != SAQIYA_OK) {
    environment.raise(saqiya_status_name(status), error.message, error.position);
  }
  return limiter;
}

}  // namespace

napi_value create_limiter(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  Arguments<4> arguments(env, info);
  Store* store = unwrap_external<Store>(environment, arguments.value[0]);
  if (store == nullptr) return nullptr;
  saqiya_limiter* limiter = create(environment, arguments.value, store);
  if (limiter == nullptr) return nullptr;

  auto* object = new Limiter(environment, store, limiter);
  napi_value result = nullptr;
  napi_create_object(env, &result);
  set_property(env, result, "handle", wrap_external(env, object));
  set_property(env, result, "text", make_string(env, saqiya_limiter_policy(limiter)));
  set_property(env, result, "name", make_string(env, saqiya_limiter_name(limiter)));
  set_property(env, result, "httpPolicy", make_string(env, saqiya_http_policy(limiter)));
  set_property(env, result, "httpItem", make_string(env, saqiya_http_item(limiter)));
  set_method(env, result, "check", check<false>, object);
  set_method(env, result, "checkHttp", check<true>, object);
  set_method(env, result, "checkWait", check_wait, object);
  set_method(env, result, "peek", peek, object);
  set_method(env, result, "refund", refund, object);
  set_method(env, result, "reset", reset, object);
  set_method(env, result, "http", http, object);
  set_method(env, result, "httpFields", http_fields, object);
  set_method(env, result, "httpBody", http_body, object);
  set_method(env, result, "close", close_limiter, object);
  return result;
}

}  // namespace saqiya::node

#include "limiter.h"

#include "limiter_calls.h"
#include "rules.h"

namespace saqiya::node {
namespace {

napi_value close_limiter(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  static_cast<Limiter*>(arguments.data)->close();
  return nullptr;
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
  std::string fallback;
  bool has_name = false;
  bool has_fallback = false;
  std::int64_t flags = 0;
  std::int64_t failure = 0;
  std::int64_t share = 0;
  if (!read_optional_string(environment, value[2], &name, &has_name) ||
      !read_int64(environment, value[3], &options.deadline_us) ||
      !read_int64(environment, value[4], &flags) || !read_int64(environment, value[5], &failure) ||
      !read_int64(environment, value[6], &share) ||
      !read_optional_string(environment, value[7], &fallback, &has_fallback)) {
    return nullptr;
  }
  options.name = has_name ? name.c_str() : nullptr;
  options.flags = static_cast<std::uint32_t>(flags);
  options.failure = static_cast<std::uint32_t>(failure);
  options.failure_share_ppm = static_cast<std::uint32_t>(share);
  options.fallback = has_fallback ? fallback.c_str() : nullptr;

  saqiya_limiter* limiter = nullptr;
  saqiya_error error = {};
  int status = SAQIYA_OK;
  bool has_rules = false;
  napi_is_array(env, value[1], &has_rules);
  if (has_rules) {
    Rules rules;
    if (!rules.read(environment, value[1], store->get())) return nullptr;
    status = saqiya_limiter_create_rules(store->get(), rules.data(), rules.size(), &options,
                                         &limiter, &error);
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

napi_value make_http_items(napi_env env, const saqiya_limiter* limiter) {
  napi_value result = nullptr;
  napi_create_array(env, &result);
  for (std::uint32_t i = 0; i < saqiya_limiter_rule_count(limiter); ++i) {
    napi_set_element(env, result, i, make_string(env, saqiya_http_item(limiter, i)));
  }
  return result;
}

}  // namespace

napi_value create_limiter(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  Arguments<8> arguments(env, info);
  Store* store = unwrap_external<Store>(environment, arguments.value[0]);
  if (store == nullptr) return nullptr;
  saqiya_limiter* limiter = create(environment, arguments.value, store);
  if (limiter == nullptr) return nullptr;

  auto* object = new Limiter(environment, store, limiter);
  const Held held(object);
  napi_value result = nullptr;
  napi_create_object(env, &result);
  set_property(env, result, "handle", wrap_external(env, object));
  set_property(env, result, "text", make_string(env, saqiya_limiter_policy(limiter)));
  set_property(env, result, "name", make_string(env, saqiya_limiter_name(limiter)));
  set_property(env, result, "rules", make_rules(env, limiter));
  set_property(env, result, "httpPolicy", make_string(env, saqiya_http_policy(limiter)));
  set_property(env, result, "httpItems", make_http_items(env, limiter));
  set_method(env, result, "check", check<false>, object);
  set_method(env, result, "checkHttp", check<true>, object);
  set_method(env, result, "checkWait", check_wait, object);
  set_method(env, result, "peek", peek, object);
  set_method(env, result, "askParts", ask_parts, object);
  set_method(env, result, "change", change, object);
  set_method(env, result, "reset", reset, object);
  set_method(env, result, "pause", pause, object);
  set_method(env, result, "http", http, object);
  set_method(env, result, "httpFields", http_fields, object);
  set_method(env, result, "httpBody", http_body, object);
  set_method(env, result, "close", close_limiter, object);
  return result;
}

}  // namespace saqiya::node

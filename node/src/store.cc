#include "store.h"

#include "clock.h"

namespace saqiya::node {
namespace {

Store* store_of(Environment& environment, void* data) {
  auto* store = static_cast<Store*>(data);
  if (store->get() != nullptr) return store;
  environment.raise("closed", "the store was closed");
  return nullptr;
}

napi_value get_stats(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  Arguments<1> arguments(env, info);
  Store* store = store_of(environment, arguments.data);
  if (store == nullptr) return nullptr;
  saqiya_store_stats stats;
  saqiya_store_stats_init(&stats, sizeof stats);
  const int status = saqiya_store_get_stats(store->get(), &stats);
  if (status != SAQIYA_OK) return environment.raise_status(status);

  napi_value result = nullptr;
  napi_create_object(env, &result);
  const auto set = [&](const char* name, std::uint64_t value) {
    set_property(env, result, name, make_number(env, static_cast<double>(value)));
  };
  set("keys", stats.keys);
  set("bytes", stats.bytes);
  set("evictions", stats.evictions);
  set("requests", stats.requests);
  set("batches", stats.batches);
  set("connects", stats.connects);
  set("failures", stats.failures);
  set("allowed", stats.allowed);
  set("denied", stats.denied);
  set("cached", stats.cached);
  set("localAllowed", stats.local_allowed);
  set("localDenied", stats.local_denied);
  set("opened", stats.opened);
  set("closed", stats.closed);
  set("outages", stats.outages);
  set("degraded", stats.degraded);
  napi_value latency = nullptr;
  napi_create_array(env, &latency);
  std::uint32_t index = 0;
  for (const std::uint64_t count : stats.latency) {
    napi_set_element(env, latency, index++, make_number(env, static_cast<double>(count)));
  }
  set_property(env, result, "latency", latency);
  return result;
}

napi_value has_event(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  napi_value result = nullptr;
  napi_get_boolean(env, static_cast<Store*>(arguments.data)->has_event(), &result);
  return result;
}

napi_value next_event(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  Arguments<1> arguments(env, info);
  auto* store = static_cast<Store*>(arguments.data);
  if (store->get() == nullptr) return nullptr;
  saqiya_event event;
  saqiya_event_init(&event, sizeof event);
  const int status = saqiya_store_next_event(store->get(), &event);
  if (status != SAQIYA_OK) return environment.raise_status(status);
  if (event.kind == SAQIYA_EVENT_NONE) return nullptr;

  const auto number = [env](auto value) { return make_number(env, static_cast<double>(value)); };
  const napi_value fields[] = {number(event.kind),
                               number(event.reason),
                               make_string(env, event.server),
                               make_string(env, event.message),
                               number(event.suppressed),
                               number(event.wall_us),
                               number(event.duration_us),
                               number(event.decisions)};
  napi_value result = nullptr;
  napi_create_array(env, &result);
  std::uint32_t at = 0;
  for (napi_value field : fields) napi_set_element(env, result, at++, field);
  return result;
}

napi_value close_store(napi_env env, napi_callback_info info) {
  Arguments<1> arguments(env, info);
  static_cast<Store*>(arguments.data)->close();
  return nullptr;
}

// The secret's bytes are copied: the C API copies what it is given, but a Key may lie in scratch.
bool read_secret(Environment& environment, napi_value value, std::string* secret) {
  napi_valuetype type = napi_undefined;
  napi_typeof(environment.env(), value, &type);
  if (type == napi_undefined) return true;
  Key key;
  if (!read_key(environment, value, &key)) return false;
  secret->assign(key.data, key.size);
  return true;
}

}  // namespace

napi_value create_store(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  Arguments<8> arguments(env, info);
  const napi_value* value = arguments.value;

  saqiya_store_options options;
  saqiya_store_options_init(&options, sizeof options);
  napi_valuetype clock_type = napi_undefined;
  napi_typeof(env, value[1], &clock_type);
  if (clock_type != napi_undefined) {
    Clock* clock = unwrap_external<Clock>(environment, value[1]);
    if (clock == nullptr) return nullptr;
    options.clock = clock->get();
  }
  std::string url;
  std::string prefix;
  std::string secret;
  bool has_url = false;
  bool has_prefix = false;
  std::int64_t flags = 0;
  std::int64_t max_keys = 0;
  std::int64_t connections = 0;
  if (!read_optional_string(environment, value[0], &url, &has_url) ||
      !read_int64(environment, value[2], &flags) || !read_int64(environment, value[3], &max_keys) ||
      !read_int64(environment, value[4], &options.deadline_us) ||
      !read_optional_string(environment, value[5], &prefix, &has_prefix) ||
      !read_secret(environment, value[6], &secret) ||
      !read_int64(environment, value[7], &connections)) {
    return nullptr;
  }
  options.flags = static_cast<std::uint32_t>(flags);
  options.max_keys = static_cast<std::uint64_t>(max_keys);
  options.prefix = has_prefix ? prefix.c_str() : nullptr;
  options.secret = secret.empty() ? nullptr : secret.data();
  options.secret_len = secret.size();
  options.connections = static_cast<std::uint32_t>(connections);

  saqiya_store* store = nullptr;
  saqiya_error error = {};
  const int status = saqiya_store_open(url.c_str(), &options, &store, &error);
  if (status != SAQIYA_OK) {
    return environment.raise(saqiya_status_name(status), error.message, error.position);
  }
  auto* object = new Store(store);
  const Held held(object);
  napi_value result = nullptr;
  napi_value is_local = nullptr;
  napi_create_object(env, &result);
  napi_get_boolean(env, saqiya_store_is_local(store) != 0, &is_local);
  set_property(env, result, "handle", wrap_external(env, object));
  set_property(env, result, "isLocal", is_local);
  set_method(env, result, "stats", get_stats, object);
  set_method(env, result, "hasEvent", has_event, object);
  set_method(env, result, "nextEvent", next_event, object);
  set_method(env, result, "close", close_store, object);
  return result;
}

}  // namespace saqiya::node

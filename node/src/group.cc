#include "group.h"

#include "parts.h"

namespace saqiya::node {

bool read_items(Environment& environment, const ItemArguments& arguments, std::size_t first,
                Items* items) {
  const std::size_t passed = arguments.count > first ? arguments.count - first : 0;
  items->count = passed / 3;
  items->rules = 0;
  if (passed == 0 || passed % 3 != 0 || items->count > SAQIYA_MAX_ITEMS) {
    environment.raise("range", "there must be 1 to 16 items");
    return false;
  }
  for (std::size_t i = 0; i < items->count; ++i) {
    const napi_value* value = arguments.value + first + 3 * i;
    Limiter* limiter = unwrap_external<Limiter>(environment, value[0]);
    if (limiter == nullptr) return false;
    if (limiter->get() == nullptr) {
      environment.raise("closed", "a limiter or its store was closed");
      return false;
    }
    Key& key = items->key[i];
    saqiya_item& item = items->item[i];
    if (!read_key(environment, value[1], &key, &items->scratch[i]) ||
        !read_cost(environment, value[2], &item.cost)) {
      return false;
    }
    item.limiter = limiter->get();
    item.key = key.data;
    item.key_len = key.size;
    items->rules += saqiya_limiter_rule_count(item.limiter);
  }
  return true;
}

napi_value raise_items(Environment& environment, int status) {
  if (status != SAQIYA_INVALID) return environment.raise_status(status);
  return environment.raise("invalid",
                           "the limiters must be of one store, and those of one name must have the "
                           "same rules on a key that is asked for twice");
}

napi_value ask_items(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  ItemArguments arguments(env, info);
  std::int64_t op = 0;
  std::int64_t max_wait = 0;
  Items items;
  Parts parts;
  if (!read_int64(environment, arguments.value[0], &op) ||
      !read_int64(environment, arguments.value[1], &max_wait) ||
      !read_items(environment, arguments, 3, &items)) {
    return nullptr;
  }
  const bool refunds = op == SAQIYA_OP_REFUND;
  if (refunds ? !read_parts(environment, arguments.value[2], &parts)
              : !read_room(environment, arguments.value[2], items.rules, &parts)) {
    return nullptr;
  }
  if (parts.count != items.rules) {
    return environment.raise("type", "the decision is not one of these items");
  }
  saqiya_decision decision;
  int status = SAQIYA_OK;
  if (refunds) {
    status = saqiya_refund_all(items.item, items.count, parts.tickets, &decision);
  } else if (op == SAQIYA_OP_PEEK) {
    status = saqiya_peek_all(items.item, items.count, &decision, parts.decisions);
  } else {
    status = saqiya_check_all(items.item, items.count, max_wait, &decision, parts.decisions,
                              parts.tickets);
  }
  if (status != SAQIYA_OK) return raise_items(environment, status);
  environment.write(0, decision);
  return nullptr;
}

napi_value pause_items(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  ItemArguments arguments(env, info);
  std::int64_t attempt = 0;
  std::int64_t left = 0;
  Items items;
  if (!read_int64(environment, arguments.value[0], &attempt) ||
      !read_int64(environment, arguments.value[1], &left) ||
      !read_items(environment, arguments, 2, &items)) {
    return nullptr;
  }
  const saqiya_decision decision = environment.read_decision();
  return make_number(
      env, static_cast<double>(saqiya_acquire_pause_us(items.item, items.count, &decision,
                                                       static_cast<std::uint32_t>(attempt), left)));
}

}  // namespace saqiya::node

// A limiter's decisions, as its methods in JavaScript: on stores in the process, but for pause.
#include "limiter_calls.h"

#include "parts.h"

namespace saqiya::node {
namespace {

// Returns undefined, which costs nothing: the decision is in record 0.
napi_value answer(Environment& environment, int status, const saqiya_decision& decision,
                  const saqiya_ticket& ticket) {
  if (status != SAQIYA_OK) return environment.raise_status(status);
  environment.write(0, decision, ticket);
  return nullptr;
}

}  // namespace

Limiter* open_limiter(void* data) {
  auto* limiter = static_cast<Limiter*>(data);
  if (limiter->get() != nullptr) return limiter;
  limiter->environment().raise("closed", "the limiter or its store was closed");
  return nullptr;
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

napi_value ask_parts(napi_env env, napi_callback_info info) {
  Arguments<5> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  Key key;
  std::int64_t op = 0;
  std::int64_t max_wait = 0;
  Parts parts;
  saqiya_item item = {};
  item.limiter = limiter->get();
  if (!read_int64(environment, arguments.value[0], &op) ||
      !read_key(environment, arguments.value[1], &key) ||
      !read_cost(environment, arguments.value[2], &item.cost) ||
      !read_int64(environment, arguments.value[3], &max_wait) ||
      !read_room(environment, arguments.value[4], saqiya_limiter_rule_count(limiter->get()),
                 &parts)) {
    return nullptr;
  }
  item.key = key.data;
  item.key_len = key.size;
  saqiya_decision decision;
  const int status = op == SAQIYA_OP_PEEK ? saqiya_peek_all(&item, 1, &decision, parts.decisions)
                                          : saqiya_check_all(&item, 1, max_wait, &decision,
                                                             parts.decisions, parts.tickets);
  return answer(environment, status, decision, saqiya_ticket{});
}

napi_value change(napi_env env, napi_callback_info info) {
  Arguments<3 + kTicketArguments> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  saqiya_limiter* self = limiter->get();
  Key key;
  std::int64_t op = 0;
  std::int64_t cost = 0;
  Tickets tickets;
  if (!read_int64(environment, arguments.value[0], &op) ||
      !read_key(environment, arguments.value[1], &key) ||
      !read_cost(environment, arguments.value[2], &cost) ||
      !read_tickets(environment, arguments.value + 3, saqiya_limiter_rule_count(self),
                    static_cast<std::uint32_t>(op), &tickets)) {
    return nullptr;
  }
  saqiya_decision decision;
  int status = SAQIYA_OK;
  if (op == SAQIYA_OP_SETTLE) {
    status = saqiya_limiter_settle(self, key.data, key.size, tickets.own, cost, &decision);
  } else if (op == SAQIYA_OP_RENEW) {
    status = saqiya_limiter_renew(self, key.data, key.size, tickets.own, &decision);
  } else {
    status = saqiya_limiter_refund(self, key.data, key.size, tickets.own, &decision);
  }
  if (status == SAQIYA_OK) tickets.write_back();
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

napi_value pause(napi_env env, napi_callback_info info) {
  Arguments<2> arguments(env, info);
  Limiter* limiter = open_limiter(arguments.data);
  if (limiter == nullptr) return nullptr;
  Environment& environment = limiter->environment();
  std::int64_t attempt = 0;
  std::int64_t left = 0;
  if (!read_int64(environment, arguments.value[0], &attempt) ||
      !read_int64(environment, arguments.value[1], &left)) {
    return nullptr;
  }
  saqiya_item item = {};
  item.limiter = limiter->get();
  const saqiya_decision decision = environment.read_decision();
  return make_number(env, static_cast<double>(saqiya_acquire_pause_us(
                              &item, 1, &decision, static_cast<std::uint32_t>(attempt), left)));
}

template napi_value check<false>(napi_env, napi_callback_info);
template napi_value check<true>(napi_env, napi_callback_info);

}  // namespace saqiya::node

#include "parts.h"

#include <algorithm>

namespace saqiya::node {
namespace {

bool wrong_parts(Environment& environment) {
  environment.raise("type", "the decision is not one of this limiter");
  return false;
}

bool read_record_ticket(Environment& environment, const napi_value* value, saqiya_ticket* ticket) {
  double number[kTicketArguments];
  for (std::size_t i = 0; i < kTicketArguments; ++i) {
    if (!read_number(environment, value[i], &number[i])) return false;
  }
  const auto field = [&number](Field which) {
    return static_cast<std::uint64_t>(number[which - kTicketQ]);
  };
  const std::uint64_t n = field(kTicketN);
  ticket->q = static_cast<std::int64_t>(field(kTicketQ));
  ticket->r = static_cast<std::uint32_t>(field(kTicketR));
  ticket->n = static_cast<std::uint32_t>(n);
  ticket->flags = static_cast<std::uint32_t>(n >> 32 & 0xFF);
  ticket->algorithm = static_cast<std::uint32_t>(n >> 40);
  ticket->cost = static_cast<std::int64_t>(field(kTicketCost));
  ticket->epoch = field(kTicketEpochHigh) << 32 | field(kTicketEpochLow);
  return true;
}

}  // namespace

bool read_parts(Environment& environment, napi_value value, Parts* parts) {
  napi_env env = environment.env();
  bool is_array = false;
  napi_typedarray_type type = napi_int8_array;
  std::size_t size = 0;
  void* data = nullptr;
  if (napi_is_typedarray(env, value, &is_array) != napi_ok || !is_array ||
      napi_get_typedarray_info(env, value, &type, &size, &data, nullptr, nullptr) != napi_ok ||
      type != napi_uint8_array || size % kPartSize != 0 ||
      reinterpret_cast<std::uintptr_t>(data) % alignof(saqiya_decision) != 0) {
    return wrong_parts(environment);
  }
  parts->count = size / kPartSize;
  parts->decisions = static_cast<saqiya_decision*>(data);
  parts->tickets = reinterpret_cast<saqiya_ticket*>(parts->decisions + parts->count);
  return true;
}

bool read_room(Environment& environment, napi_value value, std::size_t rules, Parts* parts) {
  if (!read_parts(environment, value, parts)) return false;
  if (parts->count != rules) return wrong_parts(environment);
  std::fill_n(parts->decisions, rules, saqiya_decision{});
  std::fill_n(parts->tickets, rules, saqiya_ticket{});
  return true;
}

void Tickets::write_back() const {
  if (origin == nullptr) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (own[i].n != 0) origin[i].flags = own[i].flags;
  }
}

bool read_tickets(Environment& environment, const napi_value* value, std::size_t rules,
                  std::uint32_t op, Tickets* tickets) {
  tickets->count = rules;
  std::fill_n(tickets->own, rules, saqiya_ticket{});
  napi_valuetype type = napi_undefined;
  napi_typeof(environment.env(), value[0], &type);
  if (type == napi_number) {
    if (!read_record_ticket(environment, value, &tickets->own[0])) return false;
  } else {
    Parts parts;
    std::int64_t first = 0;
    std::int64_t count = 0;
    if (!read_parts(environment, value[0], &parts) || !read_int64(environment, value[1], &first) ||
        !read_int64(environment, value[2], &count)) {
      return false;
    }
    if (first < 0 || count != static_cast<std::int64_t>(rules) ||
        first + count > static_cast<std::int64_t>(parts.count)) {
      return wrong_parts(environment);
    }
    tickets->origin = parts.tickets + first;
    std::copy_n(tickets->origin, rules, tickets->own);
  }
  if (op != kRelease) return true;
  for (std::size_t i = 0; i < rules; ++i) {
    if (tickets->own[i].algorithm != SAQIYA_CONCURRENCY) tickets->own[i] = saqiya_ticket{};
  }
  return true;
}

napi_value unpack(napi_env env, napi_callback_info info) {
  Environment& environment = *Environment::of(env);
  Arguments<2> arguments(env, info);
  Parts parts;
  std::int64_t index = 0;
  if (!read_parts(environment, arguments.value[0], &parts) ||
      !read_int64(environment, arguments.value[1], &index)) {
    return nullptr;
  }
  if (index < 0 || index >= static_cast<std::int64_t>(parts.count)) {
    return environment.raise("range", "there is no such rule");
  }
  environment.write(0, parts.decisions[index]);
  return nullptr;
}

}  // namespace saqiya::node

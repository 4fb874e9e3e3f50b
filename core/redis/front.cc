#include "core/redis/front.h"

#include <array>
#include <new>
#include <string>

#include "core/key.h"
#include "core/redis/resp.h"

namespace saqiya::redis {
namespace {

// Calls each(part, subject) for all parts of a group.
template <typename Each>
void for_subjects(const Group& group, std::string_view keys, Each&& each) {
  std::array<std::string_view, kMaxItems * kMaxRules> subjects;  // of the leaders
  const std::span<const Part> parts = group.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (group.is_leader(i)) {
      subjects[i] = subject_in(*parts[i].limiter, parts[i].rule_index, take_bulk(&keys));
    }
    each(parts[i], subjects[parts[i].leader]);
  }
}

}  // namespace

std::string name_of(const Place& place) {
  if (place.local) return place.path;
  const bool v6 = place.host.find(':') != std::string::npos;
  return (v6 ? "[" + place.host + "]" : place.host) + ":" + std::to_string(place.port);
}

bool answer_here(const Config& config, const Request& request, Answer* answer) {
  if (!is_ask(request.op)) return config.failover.answers_itself(request, answer);
  if (!is_plain(request) || !request.limiter->remembers_denials()) return false;
  const DenyCache& cache = config.deny_cache;
  if (cache.is_empty()) return false;
  if (!config.hash_subjects && is_plain_subject(request.key)) {
    return cache.find(request, request.key, system_monotonic(), answer);
  }
  std::string subject;
  append_subject(request.key, config.hash_subjects, config.secret, &subject);
  return cache.find(request, subject, system_monotonic(), answer);
}

void learn(const Config& config, const Call& call, std::string_view keys, const Answer& answer,
           Micros server_now, Micros flushed_at) {
  DenyCache& cache = config.deny_cache;
  if (is_ask(call.op)) {
    if (call.group != nullptr || answer.decision.outcome != Outcome::kDenied) return;
    const Limiter& limiter = *call.held->limiter;
    if (!limiter.remembers_denials()) return;
    // Rounded up by less than a microsecond, which the cache allows for.
    const Fraction full_at{server_now + answer.decision.reset_after, 0};
    cache.remember(limiter, subject_in(limiter, 0, take_bulk(&keys)), full_at, server_now,
                   flushed_at);
    return;
  }
  if (call.op == Op::kRenew) return;
  const Micros now = system_monotonic();
  if (call.group == nullptr) {
    const Limiter& limiter = *call.held->limiter;
    return cache.forget(limiter, subject_in(limiter, 0, take_bulk(&keys)), now);
  }
  for_subjects(call.group->group, keys, [&](const Part& part, std::string_view subject) {
    cache.forget(*part.limiter, subject, now);
  });
}

void answer_without_server(const Config& config, const Call& call, std::string_view keys,
                           Reason reason, Answer* answer) {
  if (!is_ask(call.op)) learn(config, call, keys, *answer, 0, 0);  // it may have been done
  Request request;
  request.op = call.op;
  request.want_ticket = call.want_ticket;
  if (call.group == nullptr) {
    request.limiter = call.held->limiter;
    request.key = subject_in(*request.limiter, 0, take_bulk(&keys));
    request.cost = call.cost;
    request.max_wait = call.max_wait;
    return config.failover.answer(request, reason, answer);
  }
  const GroupCall& group = *call.group;
  request.max_wait = group.max_wait;
  request.each = group.group.each();
  request.tickets_out = group.group.tickets_out();
  std::array<Item, kMaxItems> items;
  for (std::size_t i = 0; i < group.items.size(); ++i) items[i] = group.items[i];
  for_subjects(group.group, keys,
               [&](const Part& part, std::string_view subject) { items[part.item].key = subject; });
  // What is not asked but changed fails, whatever its tickets.
  const std::array<Ticket, kMaxItems * kMaxRules> tickets;
  if (!is_ask(call.op) && call.op != Op::kReset) request.tickets = tickets;
  if (group.is_single) {
    request.limiter = items[0].limiter;
    request.key = items[0].key;
    request.cost = items[0].cost;
  } else {
    request.items = {items.data(), group.items.size()};
  }
  config.failover.answer(request, reason, answer);
}

}  // namespace saqiya::redis

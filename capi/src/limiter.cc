// Limiters and their blocking calls.
#include <string>
#include <vector>

#include "core/calendar.h"
#include "handles.h"

namespace {

using saqiya::Answer;
using saqiya::Limiter;
using saqiya::LimiterOptions;
using saqiya::Op;
using saqiya::Policy;
using saqiya::PolicyError;
using saqiya::Request;
using saqiya::Rule;
using saqiya::RuleSpec;
using saqiya::capi::as_key;
using saqiya::capi::as_tickets;
using saqiya::capi::clear;
using saqiya::capi::copy_as;
using saqiya::capi::fail;
using saqiya::capi::guard;
using saqiya::capi::init_sized;
using saqiya::capi::is_cost;
using saqiya::capi::is_key;
using saqiya::capi::is_wait;
using saqiya::capi::mark_spent;
using saqiya::capi::read_sized;
using saqiya::capi::rule_count;
using saqiya::capi::write_sized;

// More keys than any memory holds: sizes in bytes must not overflow.
constexpr std::size_t kMostKeys =
    PTRDIFF_MAX / std::max(sizeof(Request), saqiya::kMaxRules * sizeof(saqiya_ticket));

// Null when they are in their ranges, else what is not. All but the fallback.
const char* convert(const saqiya_limiter_options& in, LimiterOptions* out) {
  if ((in.flags & ~static_cast<std::uint32_t>(SAQIYA_LIMITER_NO_DENY_CACHE)) != 0) {
    return "unknown option flags are set";
  }
  out->deny_cache = (in.flags & SAQIYA_LIMITER_NO_DENY_CACHE) == 0;
  if (in.deadline_us != 0 && (in.deadline_us < 1'000 || in.deadline_us > 3'600'000'000)) {
    return "the deadline must be between 1,000 and 3,600,000,000 microseconds";
  }
  out->deadline = in.deadline_us;
  out->name = in.name != nullptr ? in.name : "";
  if (in.name != nullptr && !saqiya::is_valid_name(out->name)) {
    return "the name must be 1 to 64 printable ASCII characters";
  }
  if (in.failure > SAQIYA_FAILURE_ERROR) return "unknown failure policy";
  out->failure =
      in.failure != 0 ? static_cast<saqiya::FailureMode>(in.failure) : saqiya::FailureMode::kLocal;
  if (in.failure_share_ppm > saqiya::kWholeShare) {
    return "the share must be 1 to 1,000,000 millionths";
  }
  if (in.failure_share_ppm != 0) out->share = in.failure_share_ppm;
  const bool has_share = out->share != saqiya::kWholeShare;
  if (out->failure != saqiya::FailureMode::kLocal && (has_share || in.fallback != nullptr)) {
    return "a share and a fallback go with the failure policy \"local\" only";
  }
  if (has_share && in.fallback != nullptr) return "there is a share or a fallback, not both";
  return nullptr;
}

// The fallback of such a policy. Of no consequence where there is no limit.
int read_fallback(const char* text, const Policy& policy, LimiterOptions* out, PolicyError* wrong) {
  Policy fallback;
  if (!saqiya::parse_policy(text, &fallback, wrong)) {
    wrong->message.insert(0, "fallback: ");
    return SAQIYA_BAD_POLICY;
  }
  if (policy.is_unlimited()) return SAQIYA_OK;
  if (fallback.rules.size() != policy.rules.size()) {
    wrong->message = "the fallback must have as many rules as the policy";
    return SAQIYA_BAD_POLICY;
  }
  out->fallback = std::move(fallback);
  return SAQIYA_OK;
}

// Shared end of both ways to make a limiter: parse(Policy*, PolicyError*) says which policy.
template <typename Parse>
int create(saqiya_store* store, const saqiya_limiter_options* options, saqiya_limiter** limiter,
           saqiya_error* error, Parse&& parse) {
  clear(error);
  if (limiter == nullptr) return fail(error, SAQIYA_INVALID, "the limiter pointer is null");
  *limiter = nullptr;
  if (store == nullptr) return fail(error, SAQIYA_INVALID, "the store is null");
  return guard(error, [&] {
    saqiya_limiter_options known;
    saqiya_limiter_options_init(&known, sizeof known);
    if (options != nullptr && !read_sized(options, &known)) {
      return fail(error, SAQIYA_INVALID, "the options were not initialised by this version");
    }
    LimiterOptions converted;
    if (const char* wrong = convert(known, &converted)) return fail(error, SAQIYA_INVALID, wrong);
    Policy policy;
    PolicyError wrong;
    int parsed = parse(&policy, &wrong);
    if (parsed == SAQIYA_OK && known.fallback != nullptr) {
      parsed = read_fallback(known.fallback, policy, &converted, &wrong);
    }
    if (parsed != SAQIYA_OK) {
      return fail(error, parsed, wrong.message, static_cast<std::int32_t>(wrong.position));
    }
    auto made = std::make_unique<saqiya_limiter>();
    made->limiter =
        std::make_shared<Limiter>(store->store, std::move(policy), std::move(converted));
    *limiter = made.release();
    return static_cast<int>(SAQIYA_OK);
  });
}

// tickets: null, or zeroed room for one of each rule.
int execute(const saqiya_limiter* handle, Request* request, saqiya_decision* decision,
            saqiya_ticket* tickets, saqiya::Decision* outcome = nullptr) {
  const Limiter& limiter = *handle->limiter;
  const std::size_t rules = rule_count(limiter);
  Answer answer;
  request->want_ticket = tickets != nullptr;
  if (rules > 1) request->tickets_out = as_tickets(tickets, rules);
  const int code = guard([&] {
    if (limiter.is_unlimited()) {
      answer.decision = saqiya::unlimited_decision(request->op);
    } else {
      limiter.store().execute(*request, &answer);
    }
    return SAQIYA_OK;
  });
  if (code != SAQIYA_OK) return code;
  if (decision != nullptr) copy_as(answer.decision, decision);
  if (outcome != nullptr) *outcome = answer.decision;
  if (tickets != nullptr && rules == 1) copy_as(answer.ticket, tickets);
  return SAQIYA_OK;
}

Request make_request(Op op, const saqiya_limiter* handle, const void* key, std::size_t key_len,
                     std::int64_t cost, std::int64_t max_wait) {
  Request request;
  request.op = op;
  request.limiter = handle->limiter.get();
  request.key = as_key(key, key_len);
  request.cost = cost;
  request.max_wait = std::min<std::int64_t>(max_wait, saqiya::kMaxSpan);
  return request;
}

// A refund or a settlement, which spends the tickets.
int spend(Op op, const saqiya_limiter* handle, const void* key, std::size_t key_len,
          saqiya_ticket* tickets, std::int64_t cost, saqiya_decision* decision) {
  clear(decision);
  if (handle == nullptr || tickets == nullptr || !is_key(key, key_len) || !is_cost(cost)) {
    return SAQIYA_INVALID;
  }
  const std::size_t rules = rule_count(*handle->limiter);
  Request request = make_request(op, handle, key, key_len, cost, 0);
  request.tickets = as_tickets(static_cast<const saqiya_ticket*>(tickets), rules);
  saqiya::Decision outcome;
  const int code = execute(handle, &request, decision, nullptr, &outcome);
  if (code == SAQIYA_OK) mark_spent(op, outcome, tickets, rules);
  return code;
}

// What core makes a rule of. Ranges are its to check.
RuleSpec as_spec(const saqiya_rule& rule) {
  RuleSpec spec;
  spec.algorithm = rule.algorithm == 0 ? saqiya::Algorithm::kTokenBucket
                                       : static_cast<saqiya::Algorithm>(rule.algorithm);
  spec.capacity = rule.capacity;
  spec.tokens = rule.tokens;
  spec.period = rule.period_us;
  spec.queue = rule.queue;
  spec.unit = static_cast<saqiya::Calendar::Unit>(rule.unit);
  spec.anchor = rule.anchor_day;
  if (rule.zone != nullptr) spec.zone = rule.zone;
  return spec;
}

void describe(const Rule& rule, saqiya_rule* out) {
  out->algorithm = static_cast<std::uint32_t>(rule.algorithm);
  out->capacity = rule.capacity();
  out->period_us = rule.period;
  if (rule.is_bucket()) {
    // Those of a policy of several keep their period, which is part of their names.
    const RuleSpec spec = saqiya::to_spec(rule);
    out->tokens = spec.tokens;
    out->period_us = spec.period;
    out->queue = spec.queue;
  }
  if (rule.calendar != nullptr) {
    out->unit = static_cast<std::int32_t>(rule.calendar->unit());
    out->anchor_day = rule.calendar->anchor();
    out->zone = rule.calendar->zone().c_str();
  }
}

// The caller's rules, which lie apart by the size that its version gives them.
int make_policy(const saqiya_rule* rules, std::size_t count, Policy* out, PolicyError* wrong) {
  if (rules == nullptr || count == 0 || count > saqiya::kMaxRules) {
    wrong->message = "there must be 1 to 8 rules";
    return SAQIYA_INVALID;
  }
  const std::uint32_t size = rules->size;
  std::vector<RuleSpec> specs;
  specs.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const at = reinterpret_cast<const unsigned char*>(rules) + i * size;
    const auto* const in = reinterpret_cast<const saqiya_rule*>(at);
    saqiya_rule rule;
    if (in->size != size || !read_sized(in, &rule)) {
      wrong->message = "a rule was not initialised by this version";
      return SAQIYA_INVALID;
    }
    if (rule.algorithm == SAQIYA_NO_LIMIT) {
      if (count == 1)
        return saqiya::parse_policy("unlimited", out, wrong) ? SAQIYA_OK : SAQIYA_INTERNAL;
      wrong->message = "a policy without a limit has no other rules";
      return SAQIYA_BAD_POLICY;
    }
    if (rule.algorithm > SAQIYA_CONCURRENCY) {
      wrong->message = "unknown algorithm";
      return SAQIYA_BAD_POLICY;
    }
    specs.push_back(as_spec(rule));
  }
  return saqiya::make_policy(specs, out, wrong) ? SAQIYA_OK : SAQIYA_BAD_POLICY;
}

}  // namespace

extern "C" {

void saqiya_limiter_options_init(saqiya_limiter_options* options, size_t size) {
  init_sized(options, size);
}

int saqiya_limiter_create(saqiya_store* store, const char* policy,
                          const saqiya_limiter_options* options, saqiya_limiter** limiter,
                          saqiya_error* error) {
  return create(store, options, limiter, error, [&](Policy* out, PolicyError* wrong) {
    if (policy == nullptr) {
      wrong->message = "the policy is null";
      return SAQIYA_INVALID;
    }
    return saqiya::parse_policy(policy, out, wrong) ? SAQIYA_OK : SAQIYA_BAD_POLICY;
  });
}

void saqiya_rule_init(saqiya_rule* rule, size_t size) { init_sized(rule, size); }

int saqiya_limiter_create_rules(saqiya_store* store, const saqiya_rule* rules, size_t count,
                                const saqiya_limiter_options* options, saqiya_limiter** limiter,
                                saqiya_error* error) {
  return create(store, options, limiter, error, [&](Policy* out, PolicyError* wrong) {
    return make_policy(rules, count, out, wrong);
  });
}

void saqiya_limiter_free(saqiya_limiter* limiter) { delete limiter; }

const char* saqiya_limiter_policy(const saqiya_limiter* limiter) {
  return limiter != nullptr ? limiter->limiter->policy().text.c_str() : "";
}

const char* saqiya_limiter_name(const saqiya_limiter* limiter) {
  return limiter != nullptr ? limiter->limiter->name().c_str() : "";
}

size_t saqiya_limiter_rule_count(const saqiya_limiter* limiter) {
  return limiter != nullptr ? rule_count(*limiter->limiter) : 0;
}

int saqiya_limiter_get_rule(const saqiya_limiter* limiter, size_t index, saqiya_rule* rule) {
  saqiya_rule found;
  saqiya_rule_init(&found, sizeof found);
  const bool exists = limiter != nullptr && index < rule_count(*limiter->limiter);
  if (exists) {
    const std::span<const Rule> rules = limiter->limiter->rules();
    if (rules.empty()) {
      found.algorithm = SAQIYA_NO_LIMIT;
    } else {
      describe(rules[index], &found);
    }
  }
  return write_sized(found, rule) && exists ? SAQIYA_OK : SAQIYA_INVALID;
}

int saqiya_limiter_check(saqiya_limiter* limiter, const void* key, size_t key_len, int64_t cost,
                         saqiya_decision* decision, saqiya_ticket* ticket) {
  return saqiya_limiter_check_wait(limiter, key, key_len, cost, 0, decision, ticket);
}

int saqiya_limiter_check_wait(saqiya_limiter* limiter, const void* key, size_t key_len,
                              int64_t cost, int64_t max_wait_us, saqiya_decision* decision,
                              saqiya_ticket* ticket) {
  clear(decision);
  if (limiter == nullptr) {
    clear(ticket);
    return SAQIYA_INVALID;
  }
  clear(ticket, rule_count(*limiter->limiter));
  if (decision == nullptr || !is_key(key, key_len) || !is_cost(cost) || !is_wait(max_wait_us)) {
    return SAQIYA_INVALID;
  }
  Request request = make_request(Op::kCheck, limiter, key, key_len, cost, max_wait_us);
  return execute(limiter, &request, decision, ticket);
}

int saqiya_limiter_peek(saqiya_limiter* limiter, const void* key, size_t key_len, int64_t cost,
                        saqiya_decision* decision) {
  clear(decision);
  if (limiter == nullptr || decision == nullptr || !is_key(key, key_len) || !is_cost(cost)) {
    return SAQIYA_INVALID;
  }
  Request request = make_request(Op::kPeek, limiter, key, key_len, cost, 0);
  return execute(limiter, &request, decision, nullptr);
}

int saqiya_limiter_refund(saqiya_limiter* limiter, const void* key, size_t key_len,
                          saqiya_ticket* ticket, saqiya_decision* decision) {
  return spend(Op::kRefund, limiter, key, key_len, ticket, 0, decision);
}

int saqiya_limiter_settle(saqiya_limiter* limiter, const void* key, size_t key_len,
                          saqiya_ticket* ticket, int64_t cost, saqiya_decision* decision) {
  return spend(Op::kSettle, limiter, key, key_len, ticket, cost, decision);
}

int saqiya_limiter_renew(saqiya_limiter* limiter, const void* key, size_t key_len,
                         const saqiya_ticket* ticket, saqiya_decision* decision) {
  clear(decision);
  if (limiter == nullptr || ticket == nullptr || !is_key(key, key_len)) return SAQIYA_INVALID;
  Request request = make_request(Op::kRenew, limiter, key, key_len, 0, 0);
  request.tickets = as_tickets(ticket, rule_count(*limiter->limiter));
  return execute(limiter, &request, decision, nullptr);
}

int saqiya_limiter_reset(saqiya_limiter* limiter, const void* key, size_t key_len,
                         saqiya_decision* decision) {
  clear(decision);
  if (limiter == nullptr || !is_key(key, key_len)) return SAQIYA_INVALID;
  Request request = make_request(Op::kReset, limiter, key, key_len, 0, 0);
  return execute(limiter, &request, decision, nullptr);
}

int saqiya_limiter_check_many(saqiya_limiter* limiter, const saqiya_key* keys, size_t count,
                              int64_t cost, saqiya_decision* decisions, saqiya_ticket* tickets) {
  if (count > kMostKeys) return SAQIYA_INVALID;
  const std::size_t rules = limiter != nullptr ? rule_count(*limiter->limiter) : 1;
  clear(decisions, count);
  clear(tickets, count * rules);
  if (limiter == nullptr || !is_cost(cost)) return SAQIYA_INVALID;
  if (count == 0) return SAQIYA_OK;
  if (keys == nullptr || decisions == nullptr) return SAQIYA_INVALID;
  for (size_t i = 0; i < count; ++i) {
    if (!is_key(keys[i].data, keys[i].len)) return SAQIYA_INVALID;
  }
  const int code = guard([&] {
    const Limiter& target = *limiter->limiter;
    std::vector<Request> requests(count);
    std::vector<Answer> answers(count);
    for (size_t i = 0; i < count; ++i) {
      requests[i] = make_request(Op::kCheck, limiter, keys[i].data, keys[i].len, cost, 0);
      if (tickets != nullptr && rules > 1) {
        requests[i].tickets_out = as_tickets(tickets + i * rules, rules);
      }
    }
    if (target.is_unlimited()) {
      for (Answer& answer : answers) answer.decision = saqiya::unlimited_decision();
    } else {
      target.store().execute_many(requests, answers);
    }
    for (size_t i = 0; i < count; ++i) {
      copy_as(answers[i].decision, &decisions[i]);
      if (tickets != nullptr && rules == 1) copy_as(answers[i].ticket, &tickets[i]);
    }
    return SAQIYA_OK;
  });
  if (code != SAQIYA_OK) clear(tickets, count * rules);
  return code;
}

int64_t saqiya_limiter_take(saqiya_limiter* limiter, const void* key, size_t key_len,
                            int64_t cost) {
  saqiya_decision d;
  if (saqiya_limiter_check(limiter, key, key_len, cost, &d, nullptr) != SAQIYA_OK) {
    return SAQIYA_TAKE_MISUSE;
  }
  switch (d.outcome) {
    case SAQIYA_ALLOWED:
      return d.remaining;
    case SAQIYA_DENIED:
      return -d.retry_after_us;
    case SAQIYA_NEVER:
      return SAQIYA_TAKE_NEVER;
    default:
      return SAQIYA_TAKE_UNAVAILABLE;
  }
}

}  // extern "C"

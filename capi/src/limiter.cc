// Limiters and their blocking calls.
#include <string>
#include <vector>

#include "handles.h"

namespace {

using saqiya::Answer;
using saqiya::Limiter;
using saqiya::Op;
using saqiya::Policy;
using saqiya::PolicyError;
using saqiya::Request;
using saqiya::capi::as_key;
using saqiya::capi::clear;
using saqiya::capi::copy_as;
using saqiya::capi::fail;
using saqiya::capi::guard;
using saqiya::capi::init_sized;
using saqiya::capi::is_cost;
using saqiya::capi::is_key;
using saqiya::capi::read_sized;
using saqiya::capi::write_sized;

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
    if (known.flags != 0) return fail(error, SAQIYA_INVALID, "unknown option flags are set");
    if (known.deadline_us != 0 &&
        (known.deadline_us < 1'000 || known.deadline_us > 3'600'000'000)) {
      return fail(error, SAQIYA_INVALID,
                  "the deadline must be between 1,000 and 3,600,000,000 microseconds");
    }
    std::string name = known.name != nullptr ? known.name : "";
    if (known.name != nullptr && !saqiya::is_valid_name(name)) {
      return fail(error, SAQIYA_INVALID, "the name must be 1 to 64 printable ASCII characters");
    }
    Policy policy;
    PolicyError wrong;
    const int parsed = parse(&policy, &wrong);
    if (parsed != SAQIYA_OK) {
      return fail(error, parsed, wrong.message, static_cast<std::int32_t>(wrong.position));
    }
    auto made = std::make_unique<saqiya_limiter>();
    made->limiter = std::make_shared<Limiter>(store->store, std::move(policy), std::move(name),
                                              known.deadline_us);
    *limiter = made.release();
    return static_cast<int>(SAQIYA_OK);
  });
}

int execute(const saqiya_limiter* handle, const Request& request, saqiya_decision* decision,
            saqiya_ticket* ticket) {
  Answer answer;
  const int code = guard([&] {
    const Limiter& limiter = *handle->limiter;
    if (limiter.policy().unlimited) {
      answer.decision = saqiya::unlimited_decision(request.op);
    } else {
      limiter.store().execute(request, &answer);
    }
    return SAQIYA_OK;
  });
  if (code != SAQIYA_OK) return code;
  if (decision != nullptr) copy_as(answer.decision, decision);
  if (ticket != nullptr) copy_as(answer.ticket, ticket);
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
    saqiya_rule rule;
    if (rules == nullptr || count != 1) {
      wrong->message = "this version takes exactly one rule";
      return SAQIYA_INVALID;
    }
    if (!read_sized(rules, &rule)) {
      wrong->message = "the rule was not initialised by this version";
      return SAQIYA_INVALID;
    }
    if (rule.algorithm == SAQIYA_NO_LIMIT) {
      return saqiya::parse_policy("unlimited", out, wrong) ? SAQIYA_OK : SAQIYA_BAD_POLICY;
    }
    if (rule.algorithm != 0 && rule.algorithm != SAQIYA_TOKEN_BUCKET) {
      wrong->message = "unknown algorithm";
      return SAQIYA_BAD_POLICY;
    }
    return saqiya::make_policy(rule.capacity, rule.tokens, rule.period_us, out, wrong)
               ? SAQIYA_OK
               : SAQIYA_BAD_POLICY;
  });
}

void saqiya_limiter_free(saqiya_limiter* limiter) { delete limiter; }

const char* saqiya_limiter_policy(const saqiya_limiter* limiter) {
  return limiter != nullptr ? limiter->limiter->policy().text.c_str() : "";
}

const char* saqiya_limiter_name(const saqiya_limiter* limiter) {
  return limiter != nullptr ? limiter->limiter->name().c_str() : "";
}

int saqiya_limiter_get_rule(const saqiya_limiter* limiter, size_t index, saqiya_rule* rule) {
  saqiya_rule found;
  saqiya_rule_init(&found, sizeof found);
  const bool exists = limiter != nullptr && index == 0;
  if (exists) {
    const Policy& policy = limiter->limiter->policy();
    found.algorithm = policy.unlimited ? SAQIYA_NO_LIMIT : SAQIYA_TOKEN_BUCKET;
    if (!policy.unlimited) {
      found.capacity = policy.bucket.capacity;
      found.tokens = policy.bucket.tokens;
      found.period_us = policy.bucket.period;
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
  clear(ticket);
  if (limiter == nullptr || decision == nullptr || !is_key(key, key_len) || !is_cost(cost) ||
      max_wait_us < 0) {
    return SAQIYA_INVALID;
  }
  Request request = make_request(Op::kCheck, limiter, key, key_len, cost, max_wait_us);
  request.want_ticket = ticket != nullptr;
  return execute(limiter, request, decision, ticket);
}

int saqiya_limiter_peek(saqiya_limiter* limiter, const void* key, size_t key_len, int64_t cost,
                        saqiya_decision* decision) {
  clear(decision);
  if (limiter == nullptr || decision == nullptr || !is_key(key, key_len) || !is_cost(cost)) {
    return SAQIYA_INVALID;
  }
  return execute(limiter, make_request(Op::kPeek, limiter, key, key_len, cost, 0), decision,
                 nullptr);
}

int saqiya_limiter_refund(saqiya_limiter* limiter, const void* key, size_t key_len,
                          saqiya_ticket* ticket, saqiya_decision* decision) {
  clear(decision);
  if (limiter == nullptr || ticket == nullptr || !is_key(key, key_len)) return SAQIYA_INVALID;
  Request request = make_request(Op::kRefund, limiter, key, key_len, 0, 0);
  copy_as(*ticket, &request.ticket);
  const int code = execute(limiter, request, decision, nullptr);
  if (code == SAQIYA_OK) ticket->flags |= saqiya::Ticket::kSpent;
  return code;
}

int saqiya_limiter_reset(saqiya_limiter* limiter, const void* key, size_t key_len,
                         saqiya_decision* decision) {
  clear(decision);
  if (limiter == nullptr || !is_key(key, key_len)) return SAQIYA_INVALID;
  return execute(limiter, make_request(Op::kReset, limiter, key, key_len, 0, 0), decision, nullptr);
}

int saqiya_limiter_check_many(saqiya_limiter* limiter, const saqiya_key* keys, size_t count,
                              int64_t cost, saqiya_decision* decisions, saqiya_ticket* tickets) {
  if (count > PTRDIFF_MAX / sizeof(Request)) return SAQIYA_INVALID;
  if (decisions != nullptr) std::memset(decisions, 0, count * sizeof *decisions);
  if (tickets != nullptr) std::memset(tickets, 0, count * sizeof *tickets);
  if (limiter == nullptr || !is_cost(cost)) return SAQIYA_INVALID;
  if (count == 0) return SAQIYA_OK;
  if (keys == nullptr || decisions == nullptr) return SAQIYA_INVALID;
  for (size_t i = 0; i < count; ++i) {
    if (!is_key(keys[i].data, keys[i].len)) return SAQIYA_INVALID;
  }
  return guard([&] {
    const Limiter& target = *limiter->limiter;
    std::vector<Request> requests(count);
    std::vector<Answer> answers(count);
    for (size_t i = 0; i < count; ++i) {
      requests[i] = make_request(Op::kCheck, limiter, keys[i].data, keys[i].len, cost, 0);
    }
    if (target.policy().unlimited) {
      for (Answer& answer : answers) answer.decision = saqiya::unlimited_decision();
    } else {
      target.store().execute_many(requests, answers);
    }
    for (size_t i = 0; i < count; ++i) {
      copy_as(answers[i].decision, &decisions[i]);
      if (tickets != nullptr) copy_as(answers[i].ticket, &tickets[i]);
    }
    return SAQIYA_OK;
  });
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

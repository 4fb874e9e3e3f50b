#include "rules.h"

namespace saqiya::node {
namespace {

// Put behind a text, so that its rules are those of a policy of several: their numbers are then
// told as they were written, which is what keys are named by.
constexpr char kAnotherRule[] = "; fixed-window: 0/1125899906842624us";

}  // namespace

bool Rules::read(Environment& environment, napi_value value, saqiya_store* store) {
  napi_env env = environment.env();
  std::uint32_t length = 0;
  napi_get_array_length(env, value, &length);
  for (std::uint32_t i = 0; i < length; ++i) {
    napi_value element = nullptr;
    napi_valuetype type = napi_undefined;
    napi_get_element(env, value, i, &element);
    napi_typeof(env, element, &type);
    const bool read = type == napi_string ? read_text(environment, element, store)
                                          : read_numbers(environment, element);
    if (!read) return false;
  }
  return true;
}

bool Rules::read_text(Environment& environment, napi_value value, saqiya_store* store) {
  std::string text;
  bool present = false;
  if (!read_optional_string(environment, value, &text, &present)) return false;
  text += kAnotherRule;
  saqiya_limiter* limiter = nullptr;
  saqiya_error error = {};
  const int status = saqiya_limiter_create(store, text.c_str(), nullptr, &limiter, &error);
  if (status != SAQIYA_OK) {
    environment.raise(saqiya_status_name(status), error.message, error.position);
    return false;
  }
  texts_.emplace_back(limiter);
  for (std::size_t i = 0; i + 1 < saqiya_limiter_rule_count(limiter); ++i) {
    saqiya_rule rule;
    saqiya_rule_init(&rule, sizeof rule);
    saqiya_limiter_get_rule(limiter, i, &rule);
    rules_.push_back(rule);
  }
  return true;
}

bool Rules::read_numbers(Environment& environment, napi_value value) {
  napi_env env = environment.env();
  constexpr std::size_t kNumbers = 7;
  std::int64_t number[kNumbers];
  napi_value element = nullptr;
  for (std::uint32_t i = 0; i < kNumbers; ++i) {
    if (napi_get_element(env, value, i, &element) != napi_ok) {
      environment.raise("type", "a rule must be an array");
      return false;
    }
    if (!read_int64(environment, element, &number[i])) return false;
  }
  std::string zone;
  bool has_zone = false;
  if (napi_get_element(env, value, kNumbers, &element) != napi_ok ||
      !read_optional_string(environment, element, &zone, &has_zone)) {
    return false;
  }
  saqiya_rule rule;
  saqiya_rule_init(&rule, sizeof rule);
  rule.algorithm = static_cast<std::uint32_t>(number[0]);
  rule.capacity = number[1];
  rule.tokens = number[2];
  rule.period_us = number[3];
  rule.queue = number[4];
  rule.unit = static_cast<std::int32_t>(number[5]);
  rule.anchor_day = static_cast<std::int32_t>(number[6]);
  if (has_zone) {
    zones_.push_back(std::make_unique<std::string>(std::move(zone)));
    rule.zone = zones_.back()->c_str();
  }
  rules_.push_back(rule);
  return true;
}

napi_value make_rules(napi_env env, const saqiya_limiter* limiter) {
  napi_value result = nullptr;
  napi_create_array(env, &result);
  for (std::uint32_t i = 0; i < saqiya_limiter_rule_count(limiter); ++i) {
    saqiya_rule rule;
    saqiya_rule_init(&rule, sizeof rule);
    saqiya_limiter_get_rule(limiter, i, &rule);
    const std::int64_t numbers[] = {rule.algorithm, rule.capacity, rule.tokens,    rule.period_us,
                                    rule.queue,     rule.unit,     rule.anchor_day};
    napi_value row = nullptr;
    napi_create_array(env, &row);
    std::uint32_t at = 0;
    for (const std::int64_t number : numbers) {
      napi_set_element(env, row, at++, make_number(env, static_cast<double>(number)));
    }
    const bool is_calendar = rule.algorithm == SAQIYA_CALENDAR && rule.zone != nullptr;
    napi_set_element(env, row, at, is_calendar ? make_string(env, rule.zone) : make_undefined(env));
    napi_set_element(env, result, i, row);
  }
  return result;
}

}  // namespace saqiya::node

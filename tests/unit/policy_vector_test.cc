// tests/vectors/policies.json through core's parser. C20, C36, C157, C158.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <vector>

#include "core/rate.h"
#include "tests/support/limited.h"
#include "tests/support/policy_check.h"
#include "tests/support/vector_runner.h"

namespace saqiya::test {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void expect_mentions(const Json& row, const std::string& message) {
  EXPECT_LT(message.size(), 248U);  // the C API's buffer
  const Json words = row.value("mentions", Json::array());
  for (const Json& word : words) {
    EXPECT_NE(lower(message).find(lower(word)), std::string::npos)
        << message << " does not mention " << word;
  }
  if (row.contains("message")) {
    EXPECT_EQ(message, row.at("message"));
  }
}

Algorithm to_algorithm(const std::string& name) {
  static const std::map<std::string, Algorithm> names = {
      {"token-bucket", Algorithm::kTokenBucket},
      {"fixed-window", Algorithm::kFixedWindow},
      {"sliding-window", Algorithm::kSlidingWindow},
      {"sliding-log", Algorithm::kSlidingLog},
      {"calendar", Algorithm::kCalendar},
      {"concurrency", Algorithm::kConcurrency}};
  return names.at(name);
}

Calendar::Unit to_unit(const std::string& name) {
  static const std::map<std::string, Calendar::Unit> names = {{"", Calendar::Unit{}},
                                                              {"day", Calendar::Unit::kDay},
                                                              {"week", Calendar::Unit::kWeek},
                                                              {"month", Calendar::Unit::kMonth},
                                                              {"year", Calendar::Unit::kYear}};
  return names.at(name);
}

RuleSpec to_spec(const Json& rule) {
  RuleSpec spec;
  spec.algorithm = to_algorithm(rule.at("algorithm"));
  const bool is_bucket = spec.algorithm == Algorithm::kTokenBucket;
  const bool is_lease = spec.algorithm == Algorithm::kConcurrency;
  spec.capacity = rule.at(is_bucket ? "capacity" : "limit");
  spec.tokens = rule.value("tokens", std::int64_t{0});
  spec.period = rule.value(is_lease ? "ttl_us" : "period_us", Micros{0});
  spec.queue = rule.value("queue", std::int64_t{0});
  spec.unit = to_unit(rule.value("unit", ""));
  spec.anchor = rule.value("anchor", 0);
  spec.zone = rule.value("zone", "");
  return spec;
}

void expect_rules(const Json& row, const Policy& policy) {
  const Json& rules = row.at("rules");
  ASSERT_EQ(policy.rules.size(), rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    RuleSpec want = to_spec(rules[i]);
    const RuleSpec got = saqiya::to_spec(policy.rules[i]);
    if (want.capacity == 0 && policy.rules[i].is_bucket()) {
      EXPECT_EQ(got.capacity, 0);
      EXPECT_EQ(got.queue, want.queue);
    } else {
      EXPECT_EQ(got, want);
    }
    EXPECT_EQ(policy.rules[i].capacity(), want.capacity);
    EXPECT_EQ(rule_name(policy, i), row.at("names").at(i));
  }
}

// The one bucket's numbers, reduced.
void expect_bucket(const Json& row, const Policy& policy) {
  ASSERT_EQ(policy.rules.size(), 1U);
  const TokenBucket& bucket = policy.rules.front().bucket;
  EXPECT_EQ(bucket.capacity, row.at("capacity").get<std::int64_t>());
  if (row.at("capacity") == 0) return;
  EXPECT_EQ(bucket.tokens, row.at("tokens").get<std::uint32_t>());
  EXPECT_EQ(bucket.period, row.at("period_us").get<Micros>());
}

TEST(PolicyVectors, Accepted) {
  const Json rows = read_vectors("policies.json").at("accepted");
  EXPECT_GE(rows.size(), 150U);
  for (const Json& row : rows) {
    SCOPED_TRACE(row.dump());
    Policy policy;
    PolicyError error;
    ASSERT_TRUE(parse_policy(row.at("text").get<std::string>(), &policy, &error)) << error.message;
    EXPECT_FALSE(policy.is_unlimited());
    expect_rules(row, policy);
    if (row.contains("tokens")) expect_bucket(row, policy);
    if (row.contains("canonical")) {
      EXPECT_EQ(policy.text, row.at("canonical"));
    }
    Policy again;
    ASSERT_TRUE(parse_policy(policy.text, &again, &error)) << policy.text;
    EXPECT_TRUE(same_policy(policy, again)) << policy.text << " became " << again.text;
  }
}

TEST(PolicyVectors, Unlimited) {
  const Json rows = read_vectors("policies.json").at("unlimited");
  EXPECT_GE(rows.size(), 3U);
  for (const Json& row : rows) {
    SCOPED_TRACE(row.dump());
    Policy policy;
    PolicyError error;
    ASSERT_TRUE(parse_policy(row.at("text").get<std::string>(), &policy, &error)) << error.message;
    EXPECT_TRUE(policy.is_unlimited());
    EXPECT_EQ(policy.text, row.at("canonical"));
  }
}

TEST(PolicyVectors, Refused) {
  const Json rows = read_vectors("policies.json").at("refused");
  EXPECT_GE(rows.size(), 300U);
  for (const Json& row : rows) {
    SCOPED_TRACE(row.dump());
    Policy policy;
    policy.text = "untouched";
    PolicyError error;
    const auto text = row.at("text").get<std::string>();
    EXPECT_FALSE(parse_policy(text, &policy, &error)) << policy.text;
    EXPECT_EQ(policy.text, "untouched");
    EXPECT_TRUE(policy.rules.empty());
    EXPECT_EQ(error.position, row.at("offset").get<std::size_t>()) << error.message;
    EXPECT_TRUE(can_go_on(text.substr(0, error.position))) << "what was before is wrong already";
    expect_mentions(row, error.message);
  }
}

TEST(PolicyVectors, Numbers) {
  const Json data = read_vectors("policies.json");
  Policy policy;
  PolicyError error;
  for (const Json& row : data.at("numbers_accepted")) {
    SCOPED_TRACE(row.dump());
    const auto given = row.at("given").get<std::vector<std::int64_t>>();
    ASSERT_TRUE(make_policy(bucket_spec(given.at(0), given.at(1), given.at(2)), &policy, &error))
        << error.message;
    expect_bucket(row, policy);
  }
  for (const Json& row : data.at("numbers_refused")) {
    SCOPED_TRACE(row.dump());
    const auto given = row.at("given").get<std::vector<std::int64_t>>();
    TokenBucket rule;
    std::string message;
    const RangeFault fault =
        TokenBucket::make(given.at(0), given.at(1), given.at(2), 0, &rule, &message);
    static const std::map<RangeFault, std::string> names = {{RangeFault::kNone, "none"},
                                                            {RangeFault::kCapacity, "capacity"},
                                                            {RangeFault::kTokens, "tokens"},
                                                            {RangeFault::kPeriod, "period"},
                                                            {RangeFault::kSpan, "span"}};
    EXPECT_EQ(names.at(fault), row.at("limit")) << message;
  }
}

std::vector<RuleSpec> given_specs(const Json& row) {
  std::vector<RuleSpec> specs;
  for (const Json& rule : row.at("given")) specs.push_back(to_spec(rule));
  return specs;
}

TEST(PolicyVectors, GivenAsNumbers) {  // C36: text and numbers make the same policy
  const Json data = read_vectors("policies.json");
  for (const Json& row : data.at("given_accepted")) {
    SCOPED_TRACE(row.dump());
    Policy policy;
    PolicyError error;
    ASSERT_TRUE(make_policy(given_specs(row), &policy, &error)) << error.message;
    EXPECT_EQ(policy.text, row.at("canonical"));
    Policy read;
    ASSERT_TRUE(parse_policy(policy.text, &read, &error)) << error.message;
    EXPECT_TRUE(same_policy(policy, read));
  }
  EXPECT_GE(data.at("given_refused").size(), 25U);
  for (const Json& row : data.at("given_refused")) {
    SCOPED_TRACE(row.dump());
    Policy policy;
    policy.text = "untouched";
    PolicyError error;
    EXPECT_FALSE(make_policy(given_specs(row), &policy, &error)) << policy.text;
    EXPECT_EQ(policy.text, "untouched");
    EXPECT_EQ(error.position, PolicyError::kNowhere);
    expect_mentions(row, error.message);
  }
}

TEST(PolicyVectors, WhatARuleIsMadeOfMakesItAgain) {
  const Json rows = read_vectors("policies.json").at("accepted");
  for (const Json& row : rows) {
    SCOPED_TRACE(row.dump());
    Policy policy;
    Policy again;
    PolicyError error;
    ASSERT_TRUE(parse_policy(row.at("text").get<std::string>(), &policy, &error)) << error.message;
    std::vector<RuleSpec> specs;
    for (const Rule& rule : policy.rules) specs.push_back(saqiya::to_spec(rule));
    ASSERT_TRUE(make_policy(specs, &again, &error)) << error.message;
    EXPECT_TRUE(same_policy(policy, again)) << policy.text << " became " << again.text;
  }
}

}  // namespace
}  // namespace saqiya::test

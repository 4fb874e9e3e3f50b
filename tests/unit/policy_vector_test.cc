// tests/vectors/policies.json through core's parser. C20, C157, C158.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "core/rate.h"
#include "tests/support/vector_runner.h"

namespace saqiya::test {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void expect_rule(const Json& row, const Policy& policy) {
  ASSERT_EQ(policy.rules.size(), 1U);
  const TokenBucket& bucket = policy.rules.front().bucket;
  EXPECT_EQ(bucket.capacity, row.at("capacity").get<std::int64_t>());
  if (row.at("capacity") == 0) return;
  EXPECT_EQ(bucket.tokens, row.at("tokens").get<std::uint32_t>());
  EXPECT_EQ(bucket.period, row.at("period_us").get<Micros>());
}

TEST(PolicyVectors, Accepted) {
  const Json rows = read_vectors("policies.json").at("accepted");
  EXPECT_GE(rows.size(), 80U);
  for (const Json& row : rows) {
    SCOPED_TRACE(row.dump());
    Policy policy;
    PolicyError error;
    ASSERT_TRUE(parse_policy(row.at("text").get<std::string>(), &policy, &error)) << error.message;
    expect_rule(row, policy);
    if (row.contains("canonical")) {
      EXPECT_EQ(policy.text, row.at("canonical"));
    }
    Policy again;
    ASSERT_TRUE(parse_policy(policy.text, &again, &error)) << policy.text;
    expect_rule(row, again);
    EXPECT_EQ(again.text, policy.text);
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
  EXPECT_GE(rows.size(), 120U);
  for (const Json& row : rows) {
    SCOPED_TRACE(row.dump());
    Policy policy;
    PolicyError error;
    EXPECT_FALSE(parse_policy(row.at("text").get<std::string>(), &policy, &error)) << policy.text;
    EXPECT_EQ(error.position, row.at("offset").get<std::size_t>()) << error.message;
    if (!row.contains("mentions")) continue;
    for (const std::string& word : row.at("mentions").get<std::vector<std::string>>()) {
      EXPECT_NE(lower(error.message).find(lower(word)), std::string::npos)
          << error.message << " does not mention " << word;
    }
  }
}

TEST(PolicyVectors, Numbers) {
  const Json data = read_vectors("policies.json");
  Policy policy;
  PolicyError error;
  for (const Json& row : data.at("numbers_accepted")) {
    SCOPED_TRACE(row.dump());
    const auto given = row.at("given").get<std::vector<std::int64_t>>();
    ASSERT_TRUE(make_policy(given.at(0), given.at(1), given.at(2), &policy, &error))
        << error.message;
    expect_rule(row, policy);
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

}  // namespace
}  // namespace saqiya::test

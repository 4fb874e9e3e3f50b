// The policy text by hand: forms, units, positions of errors. The 250 rows of
// tests/vectors/policies.json are read by policy_vector_test.cc. C22, C157, C158.
#include "core/rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/bucket_harness.h"

namespace saqiya {
namespace {

constexpr Micros kSecond = 1'000'000;

Policy parsed(std::string_view text) {
  Policy policy;
  PolicyError error;
  EXPECT_TRUE(parse_policy(text, &policy, &error))
      << text << ": " << error.message << " at " << error.position;
  return policy;
}

PolicyError refused(std::string_view text) {
  Policy policy;
  policy.text = "untouched";
  PolicyError error;
  EXPECT_FALSE(parse_policy(text, &policy, &error)) << text << " became " << policy.text;
  EXPECT_EQ(policy.text, "untouched");
  EXPECT_FALSE(error.message.empty()) << text;
  EXPECT_LE(error.position, text.size());
  return error;
}

TEST(Rate, EveryUnitIsExact) {  // C22
  const std::pair<std::string_view, Micros> units[] = {
      {"us", 1},
      {"microsecond", 1},
      {"microseconds", 1},
      {"ms", 1'000},
      {"millisecond", 1'000},
      {"milliseconds", 1'000},
      {"s", kSecond},
      {"sec", kSecond},
      {"secs", kSecond},
      {"second", kSecond},
      {"seconds", kSecond},
      {"m", 60 * kSecond},
      {"min", 60 * kSecond},
      {"mins", 60 * kSecond},
      {"minute", 60 * kSecond},
      {"minutes", 60 * kSecond},
      {"h", 3'600 * kSecond},
      {"hr", 3'600 * kSecond},
      {"hrs", 3'600 * kSecond},
      {"hour", 3'600 * kSecond},
      {"hours", 3'600 * kSecond},
      {"d", 86'400 * kSecond},
      {"day", 86'400 * kSecond},
      {"days", 86'400 * kSecond},
      {"w", 604'800 * kSecond},
      {"week", 604'800 * kSecond},
      {"weeks", 604'800 * kSecond},
  };
  for (const auto& [unit, micros] : units) {
    std::string upper(unit);
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    for (const std::string& text : {"1/" + std::string(unit), "1 per " + upper, "1/1" + upper,
                                    "1 PER 1 " + std::string(unit), "1/1.0" + std::string(unit)}) {
      const Policy policy = parsed(text);
      EXPECT_EQ(policy.bucket.period, micros) << text;
      EXPECT_EQ(policy.bucket.capacity, 1) << text;
    }
    EXPECT_EQ(parsed("1/3 " + std::string(unit)).bucket.period, 3 * micros);
  }
}

TEST(Rate, FormsThatPeopleWrite) {  // C158
  struct Row {
    std::string_view text;
    std::int64_t capacity;
    std::int64_t tokens;
    Micros period;
    std::string_view canonical;
  };
  const Row rows[] = {
      {"5/30s", 5, 1, 6 * kSecond, "1/6s burst 5"},
      {"1 per 2 seconds", 1, 1, 2 * kSecond, "1/2s burst 1"},
      {"10_000/day", 10'000, 1, 8'640'000, "10000/d burst 10000"},
      {"100/minute", 100, 1, 600'000, "100/min burst 100"},
      {"5/s burst 20", 20, 1, 200'000, "5/s burst 20"},
      {"5/s burst 2", 2, 1, 200'000, "5/s burst 2"},
      {"1/1.5h", 1, 1, 5'400 * kSecond, "16/d burst 1"},
      {"3/s", 3, 3, kSecond, "3/s burst 3"},
      {"7/min burst 4", 4, 7, 60 * kSecond, "7/min burst 4"},
      {"token-bucket: 3/s", 3, 3, kSecond, "3/s burst 3"},
      {"Leaky-Bucket : 3 / s", 3, 3, kSecond, "3/s burst 3"},
      {" \t3/s\t ", 3, 3, kSecond, "3/s burst 3"},
      {"1000000000/s", 1'000'000'000, 1'000, 1, "1000/us burst 1000000000"},
      {"2/2w", 2, 1, 604'800 * kSecond, "1/w burst 2"},
  };
  for (const Row& row : rows) {
    const Policy policy = parsed(row.text);
    EXPECT_FALSE(policy.unlimited);
    EXPECT_EQ(policy.bucket.capacity, row.capacity) << row.text;
    EXPECT_EQ(policy.bucket.tokens, row.tokens) << row.text;
    EXPECT_EQ(policy.bucket.period, row.period) << row.text;
    EXPECT_EQ(policy.text, row.canonical) << row.text;
  }
}

TEST(Rate, UnlimitedIsAWordOfItsOwn) {  // C21
  for (const std::string_view text : {"unlimited", "UNLIMITED", "  Unlimited\t"}) {
    const Policy policy = parsed(text);
    EXPECT_TRUE(policy.unlimited);
    EXPECT_EQ(policy.text, "unlimited");
  }
  EXPECT_EQ(refused("unlimited/s").position, 9U);
  EXPECT_FALSE(parsed("0/s").unlimited);
  EXPECT_EQ(parsed("0/s").bucket.capacity, 0);
}

TEST(Rate, ErrorsPointAtWhatCouldNotBeRead) {  // C157
  struct Row {
    std::string_view text;
    std::size_t position;
    std::string_view mentions;
  };
  const Row rows[] = {
      {"", 0, "count"},
      {"ten/s", 0, "count"},
      {"-1/s", 0, "count"},
      {"0.5/s", 1, "/"},
      {"5", 1, "/"},
      {"5 s", 2, "per"},
      {"5/", 2, "unit"},
      {"5/x", 2, "unit"},
      {"5/s burst", 9, "count"},
      {"5/s burst x", 10, "count"},
      {"5/s burst 1.5", 11, "end"},
      {"5/s brust 20", 4, "end"},
      {"5/s 20", 4, "end"},
      {"5/s!", 3, "end"},
      {"5/0s", 2, "at least 1"},
      {"5/1.s", 4, "digits"},
      {"5/0.0000001s", 2, "whole"},
      {"5/1.5us", 2, "whole"},
      {"1_/s", 1, "/"},
      {"1__0/s", 1, "/"},
      {"_1/s", 0, "count"},
      {"1/month", 2, "30d"},
      {"1000 per months", 9, "calendar"},
      {"1/year", 2, "calendar"},
      {"token-bucket 5/s", 13, ":"},
      {"bucket: 5/s", 0, "token-bucket"},
      {"fixed-window: 5/s", 0, "not offered"},
      {"concurrency: 5", 0, "not offered"},
      {"5/s; 100/h", 3, "several"},
      {"5/s, 100/h", 3, "several"},
      {"5/s | 100/h", 4, "several"},
      {"10/s queue 50", 5, "queue"},
      {"9007199254740992/s", 0, "2^53"},
      {"99999999999999999999999999999999999999999/s", 0, "2^53"},
      {"4294967297/2us burst 1", 0, "2^32"},
      {"1/1125899906842625us", 2, "2^50"},
      {"5/s burst 9007199254740991", 10, "2^50"},
      {"1/13032d", 2, "2^50"},
      {"1000/1000000000000000000000000000000.000000000000000us", 5, "2^50"},
      {"1/9223372036855s", 2, "2^50"},
      {"\xc3\xa9", 0, "count"},
      {std::string_view("5/s\0", 4), 3, "end"},
      {std::string_view("5\0/s", 4), 1, "/"},
  };
  for (const Row& row : rows) {
    const PolicyError error = refused(row.text);
    EXPECT_EQ(error.position, row.position) << row.text << ": " << error.message;
    EXPECT_THAT(error.message, testing::HasSubstr(row.mentions)) << row.text;
  }
}

TEST(Rate, OfferedLaterIsNotTakenForSomethingElse) {
  for (const std::string_view name :
       {"fixed-window", "sliding-window", "sliding-log", "calendar", "concurrency"}) {
    EXPECT_THAT(refused(std::string(name) + ": 5/s").message, testing::HasSubstr(name));
  }
}

TEST(Rate, NumbersInsteadOfText) {
  Policy policy;
  PolicyError error;
  ASSERT_TRUE(make_policy(20, 5, kSecond, &policy, &error));
  EXPECT_EQ(policy.text, "5/s burst 20");
  EXPECT_EQ(parsed(policy.text).bucket.period, policy.bucket.period);
  EXPECT_FALSE(make_policy(20, 0, kSecond, &policy, &error));
  EXPECT_FALSE(error.message.empty());
  EXPECT_EQ(policy.text, "5/s burst 20");
}

TEST(Rate, TheCanonicalTextGivesTheSamePolicy) {  // C157: parse(format(p)) == p
  test::Random random(157);
  for (int i = 0; i < 50'000; ++i) {
    const TokenBucket rule = test::random_rule(random);
    Policy made;
    PolicyError error;
    ASSERT_TRUE(make_policy(rule.capacity, rule.tokens, rule.period, &made, &error));
    const Policy again = parsed(made.text);
    ASSERT_EQ(again.text, made.text);
    ASSERT_EQ(again.bucket.capacity, rule.capacity) << made.text;
    if (rule.capacity == 0) continue;
    ASSERT_EQ(again.bucket.tokens, rule.tokens) << made.text;
    ASSERT_EQ(again.bucket.period, rule.period) << made.text;
    ASSERT_EQ(again.bucket.span, rule.span) << made.text;
  }
}

TEST(Rate, AnyLeftOverCharacterIsAnError) {  // C157
  for (const std::string_view text : {"5/s burst 20", "unlimited", "10 per 2 hours"}) {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (c == ' ' || c == '\t') continue;
      const std::string longer = std::string(text) + " " + c;
      EXPECT_EQ(refused(longer).position, text.size() + 1) << byte;
    }
  }
}

}  // namespace
}  // namespace saqiya

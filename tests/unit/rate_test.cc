// The policy text by hand: forms, units, positions of errors. The 500 rows of
// tests/vectors/policies.json are read by policy_vector_test.cc. C22, C157, C158.
#include "core/rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/bucket_harness.h"
#include "tests/support/limited.h"
#include "tests/support/policy_check.h"

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

const TokenBucket& bucket(const Policy& policy) { return policy.rules.at(0).bucket; }

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
      EXPECT_EQ(bucket(policy).period, micros) << text;
      EXPECT_EQ(bucket(policy).capacity, 1) << text;
    }
    EXPECT_EQ(bucket(parsed("1/3 " + std::string(unit))).period, 3 * micros);
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
    EXPECT_FALSE(policy.is_unlimited());
    EXPECT_EQ(bucket(policy).capacity, row.capacity) << row.text;
    EXPECT_EQ(bucket(policy).tokens, row.tokens) << row.text;
    EXPECT_EQ(bucket(policy).period, row.period) << row.text;
    EXPECT_EQ(policy.text, row.canonical) << row.text;
  }
}

TEST(Rate, UnlimitedIsAWordOfItsOwn) {  // C21
  for (const std::string_view text : {"unlimited", "UNLIMITED", "  Unlimited\t"}) {
    const Policy policy = parsed(text);
    EXPECT_TRUE(policy.is_unlimited());
    EXPECT_EQ(policy.text, "unlimited");
  }
  EXPECT_EQ(refused("unlimited/s").position, 9U);
  EXPECT_FALSE(parsed("0/s").is_unlimited());
  EXPECT_EQ(bucket(parsed("0/s")).capacity, 0);
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
      {"fixed-window: 5/s burst 5", 18, "burst"},
      {"concurrency: 5", 14, "ttl"},
      {"5/s; 100/x", 9, "unit"},
      {"5/s; 7/s", 5, "rule 1"},
      {"10/s queue x", 11, "count"},
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

// Names end up in keys: they must never change.
TEST(Rate, NamesOfRules) {
  const auto names = [](std::string_view text) {
    const Policy policy = parsed(text);
    std::string all;
    for (std::size_t i = 0; i < policy.rules.size(); ++i) all += rule_name(policy, i) + " ";
    return all;
  };
  EXPECT_EQ(names("5/s"), "b ");
  EXPECT_EQ(names("fixed-window: 5/h"), "f ");
  EXPECT_EQ(names("sliding-window: 5/h"), "w ");
  EXPECT_EQ(names("sliding-log: 5/h"), "l ");
  EXPECT_EQ(names("calendar: 5/month"), "c ");
  EXPECT_EQ(names("concurrency: 5 ttl 30s"), "n ");
  EXPECT_EQ(names("5/1000ms; 5/15min; 5/1.5h; 5/14d"), "b1s b15min b90min b2w ");
  EXPECT_EQ(names("fixed-window: 5/h; sliding-window: 5/7d; sliding-log: 5/90s"), "f1h w1w l90s ");
  EXPECT_EQ(names("calendar: 1/day; calendar: 1/week; calendar: 1/month; calendar: 1/year"),
            "cday cweek cmonth cyear ");
  EXPECT_EQ(names("concurrency: 5 ttl 30s; 100/h"), "n b1h ");
  // A limit is not in the name, so raising one keeps the state.
  EXPECT_EQ(names("5/s burst 9; 100/h"), names("7/s; 200/h burst 3 queue 4"));
}

TEST(Rate, LeakyBuckets) {
  // As a meter it is the token bucket.
  EXPECT_EQ(parsed("leaky-bucket: 10/s").text, "10/s burst 10");
  // As a queue they leave one at a time, unless a burst is given.
  const Policy queue = parsed("leaky-bucket: 3/s queue 50");
  EXPECT_EQ(bucket(queue).capacity, 1);
  EXPECT_EQ(bucket(queue).queue, 50);
  EXPECT_EQ(bucket(queue).queue_wait, (Fraction{16'666'666, 2}));  // 50/3 s
  EXPECT_EQ(queue.text, "3/s burst 1 queue 50");
  EXPECT_EQ(parsed("leaky-bucket: 3/s burst 2 queue 50").text, "3/s burst 2 queue 50");
  EXPECT_EQ(parsed("3/s queue 50").text, "3/s burst 3 queue 50");
  EXPECT_EQ(bucket(parsed("leaky-bucket: 0/s queue 50")).capacity, 0);
}

TEST(Rate, TheWrittenPeriodStaysWhereItIsPartOfAName) {
  EXPECT_EQ(parsed("100/15min").text, "1/9s burst 100");
  EXPECT_EQ(parsed("100/15min").rules.at(0).period, 9 * kSecond);
  const Policy policy = parsed("100/15min; fixed-window: 1/d");
  EXPECT_EQ(policy.text, "100/15min burst 100; fixed-window: 1/d");
  EXPECT_EQ(policy.rules.at(0).period, 900 * kSecond);
  EXPECT_EQ(to_spec(policy.rules.at(0)).tokens, 100);
}

TEST(Rate, AnAlgorithmMisspeltIsNotTakenForSomethingElse) {
  for (const std::string_view name :
       {"fixed", "window", "sliding", "sliding-counter", "log", "calender", "concurrent", "gcra"}) {
    const PolicyError error = refused(std::string(name) + ": 5/s");
    EXPECT_EQ(error.position, 0U);
    EXPECT_THAT(error.message, testing::HasSubstr("sliding-window, sliding-log, calendar"));
  }
}

TEST(Rate, NumbersInsteadOfText) {
  Policy policy;
  PolicyError error;
  ASSERT_TRUE(make_policy(test::bucket_spec(20, 5, kSecond), &policy, &error));
  EXPECT_EQ(policy.text, "5/s burst 20");
  EXPECT_EQ(bucket(parsed(policy.text)).period, bucket(policy).period);
  EXPECT_FALSE(make_policy(test::bucket_spec(20, 0, kSecond), &policy, &error));
  EXPECT_FALSE(error.message.empty());
  EXPECT_EQ(policy.text, "5/s burst 20");
}

TEST(Rate, TheCanonicalTextGivesTheSamePolicy) {  // C157: parse(format(p)) == p
  test::Random random(157);
  for (int i = 0; i < 50'000; ++i) {
    const TokenBucket rule = test::random_rule(random);
    Policy made;
    PolicyError error;
    const auto spec = test::bucket_spec(rule.capacity, rule.tokens, rule.period);
    ASSERT_TRUE(make_policy(spec, &made, &error));
    const Policy again = parsed(made.text);
    ASSERT_EQ(again.text, made.text);
    ASSERT_EQ(bucket(again).capacity, rule.capacity) << made.text;
    if (rule.capacity == 0) continue;
    ASSERT_EQ(bucket(again).tokens, rule.tokens) << made.text;
    ASSERT_EQ(bucket(again).period, rule.period) << made.text;
    ASSERT_EQ(bucket(again).span, rule.span) << made.text;
  }
}

// Policies of up to eight rules with random numbers, given as numbers.
TEST(Rate, TheCanonicalTextOfSeveralRulesGivesTheSamePolicy) {
  std::mt19937_64 random(158);
  const auto below = [&random](std::int64_t end) {
    const auto bits = static_cast<int>(random() % 54);
    return static_cast<std::int64_t>(random() >> 11 >> bits) % end;
  };
  constexpr Algorithm kAlgorithms[] = {Algorithm::kTokenBucket,   Algorithm::kFixedWindow,
                                       Algorithm::kSlidingWindow, Algorithm::kSlidingLog,
                                       Algorithm::kCalendar,      Algorithm::kConcurrency};
  int made = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::vector<RuleSpec> specs(1 + random() % 8);
    for (RuleSpec& spec : specs) {
      spec.algorithm = kAlgorithms[random() % 6];
      const bool is_calendar = spec.algorithm == Algorithm::kCalendar;
      spec.capacity = below(spec.algorithm == Algorithm::kConcurrency ? 65536 : 1 << 20);
      if (spec.algorithm == Algorithm::kTokenBucket) {
        spec.tokens = spec.capacity == 0 ? 0 : 1 + below(1 << 30);
        spec.queue = random() % 2 == 0 ? below(1 << 10) : 0;
      }
      if (!is_calendar) spec.period = 1 + below(Micros{1} << 40);
      if (is_calendar) spec.unit = static_cast<Calendar::Unit>(1 + random() % 4);
      if (spec.unit == Calendar::Unit::kMonth) spec.anchor = static_cast<int>(random() % 32);
      if (is_calendar && random() % 2 == 0) spec.zone = "Africa/Cairo";
    }
    Policy policy;
    PolicyError error;
    if (!make_policy(specs, &policy, &error)) {
      EXPECT_EQ(error.position, PolicyError::kNowhere);
      continue;
    }
    ++made;
    ASSERT_TRUE(test::same_policy(policy, parsed(policy.text))) << policy.text;
  }
  EXPECT_GT(made, 10'000);
}

TEST(Rate, AnyLeftOverCharacterIsAnError) {  // C157
  for (const std::string_view text :
       {"5/s burst 20", "unlimited", "10 per 2 hours", "calendar: 5/month tz UTC",
        "concurrency: 5 ttl 3s", "5/s; fixed-window: 100/h"}) {
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (c == ' ' || c == '\t') continue;
      if (text != "unlimited" && (c == ';' || c == ',' || c == '|')) continue;
      const std::string longer = std::string(text) + " " + c;
      EXPECT_EQ(refused(longer).position, text.size() + 1) << byte;
    }
  }
}

}  // namespace
}  // namespace saqiya

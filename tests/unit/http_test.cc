// Decisions as HTTP: C41, C79, C80, C81, C83, and the agreement of the fields with each other.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <regex>
#include <string>
#include <string_view>

#include "core/http/headers.h"
#include "tests/support/limited.h"

namespace saqiya {
namespace {

using test::Limited;
using test::MemorySetup;

Decision denied(Micros retry_after) {
  Decision d;
  d.outcome = Outcome::kDenied;
  d.limit = 20;
  d.retry_after = retry_after;
  d.reset_after = 4'000'000;
  return d;
}

// Strict: every line "Name: value\r\n", integers without sign or leading zeros, RateLimit and
// RateLimit-Policy as structured field items with integer parameters (RFC 9651).
std::map<std::string, std::string> parse_fields(const std::string& text) {
  static const std::regex integer("0|[1-9][0-9]{0,18}");
  static const std::regex item(
      R"re("(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"(?:;[a-z]=(?:0|[1-9][0-9]{0,14}|[1-9][0-9]{15}))*)re");
  std::map<std::string, std::string> fields;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find("\r\n", at);
    const std::size_t colon = text.find(": ", at);
    if (end == std::string::npos || colon == std::string::npos || colon > end) {
      ADD_FAILURE() << "not a field line: " << text.substr(at);
      return fields;
    }
    const std::string name = text.substr(at, colon - at);
    const std::string value = text.substr(colon + 2, end - colon - 2);
    const bool structured = name == "RateLimit" || name == "RateLimit-Policy";
    EXPECT_TRUE(std::regex_match(value, structured ? item : integer)) << name << ": " << value;
    EXPECT_TRUE(fields.emplace(name, value).second) << name << " twice";
    at = end + 2;
  }
  return fields;
}

std::int64_t parameter(const std::string& value, char name) {
  const std::size_t at = value.rfind(std::string(";") + name + "=");
  return at == std::string::npos ? -1 : std::stoll(value.substr(at + 3));
}

class HttpTest : public testing::Test {
 protected:
  std::string all(const Limited& limited, const Decision& d, http::Choice choice = {}) {
    return http::fields(limited.limiter(), d, choice);
  }

  MemorySetup setup_;
  Limited limited_{setup_.store, "5/s burst 20"};
};

TEST_F(HttpTest, GoldenFieldsOfAnAllowedCheck) {
  EXPECT_EQ(all(limited_, limited_.check("k")),
            "X-RateLimit-Limit: 20\r\n"
            "X-RateLimit-Remaining: 19\r\n"
            "X-RateLimit-Reset: 1\r\n"
            "RateLimit: \"default\";r=19;t=1\r\n"
            "RateLimit-Policy: \"default\";q=20;w=4\r\n");
}

TEST_F(HttpTest, GoldenFieldsOfARefusal) {
  limited_.admitted("k", 20);
  const Decision d = limited_.check("k");
  EXPECT_EQ(all(limited_, d),
            "Retry-After: 1\r\n"
            "X-RateLimit-Limit: 20\r\n"
            "X-RateLimit-Remaining: 0\r\n"
            "X-RateLimit-Reset: 4\r\n"
            "RateLimit: \"default\";r=0;t=1\r\n"
            "RateLimit-Policy: \"default\";q=20;w=4\r\n");
  EXPECT_EQ(http::body(limited_.limiter(), d),
            "{\"error\":\"rate_limited\",\"retry_after\":1,\"limit\":20,\"remaining\":0}");
}

TEST_F(HttpTest, FieldsCanBeChosen) {
  limited_.admitted("k", 20);
  const Decision d = limited_.check("k");
  EXPECT_EQ(all(limited_, d, {.legacy = false, .draft = false}), "Retry-After: 1\r\n");
  const auto legacy = parse_fields(all(limited_, d, {.legacy = true, .draft = false}));
  EXPECT_EQ(legacy.size(), 4U);
  EXPECT_EQ(legacy.count("RateLimit"), 0U);
  const auto draft = parse_fields(all(limited_, d, {.legacy = false, .draft = true}));
  EXPECT_EQ(draft.size(), 3U);
  EXPECT_EQ(draft.count("X-RateLimit-Limit"), 0U);
}

TEST_F(HttpTest, RetryAfterIsRoundedUpAndAtLeastOne) {  // C79, C81
  const std::pair<Micros, std::string> rows[] = {
      {1, "1"},         {1'000, "1"},     {400'000, "1"},
      {500'000, "1"},   {999'999, "1"},   {1'000'000, "1"},
      {1'000'001, "2"}, {1'001'000, "2"}, {60'000'000'001, "60001"},
  };
  for (const auto& [wait, seconds] : rows) {
    const auto fields = parse_fields(all(limited_, denied(wait)));
    EXPECT_EQ(fields.at("Retry-After"), seconds) << wait;
  }
}

TEST_F(HttpTest, NeverHasNoRetryAfter) {  // C7
  const Decision d = limited_.check("k", 21);
  ASSERT_EQ(d.outcome, Outcome::kNever);
  const http::Numbers n = http::numbers(limited_.limiter(), d);
  EXPECT_EQ(n.status, 429);
  EXPECT_EQ(n.retry_after_s, -1);
  EXPECT_EQ(parse_fields(all(limited_, d)).count("Retry-After"), 0U);
  EXPECT_EQ(http::body(limited_.limiter(), d),
            "{\"error\":\"rate_limited\",\"retry_after\":null,\"limit\":20,\"remaining\":20}");
}

TEST_F(HttpTest, AnUnavailableStoreIs503WithoutNumbers) {  // C105
  const Decision d = unavailable(Reason::kTimeout);
  EXPECT_EQ(all(limited_, d), "Retry-After: 1\r\n");
  EXPECT_EQ(http::numbers(limited_.limiter(), d).status, 503);
  EXPECT_EQ(http::body(limited_.limiter(), d),
            "{\"error\":\"rate_limiter_unavailable\",\"retry_after\":1}");
  EXPECT_EQ(http::numbers(limited_.limiter(), Decision{}).status,
            503);  // a zeroed one never admits
}

TEST_F(HttpTest, UnlimitedHasNoFields) {
  const Limited open(setup_.store, "unlimited");
  EXPECT_EQ(all(open, unlimited_decision()), "");
  EXPECT_EQ(http::body(open.limiter(), unlimited_decision()), "");
  EXPECT_EQ(open.limiter().http_policy(), "");
}

TEST_F(HttpTest, NamesAreQuoted) {
  const Limited odd(setup_.store, "1/s", "say \"hi\" \\ ;r=9");
  const std::string quoted = R"("say \"hi\" \\ ;r=9")";
  EXPECT_EQ(odd.limiter().http_policy(), quoted + ";q=1;w=1");
  EXPECT_EQ(odd.limiter().http_item(0), quoted + ";r=");
  const auto fields = parse_fields(all(odd, odd.check("k")));
  EXPECT_EQ(fields.at("RateLimit"), quoted + ";r=0;t=1");
}

TEST_F(HttpTest, TheWindowIsTheTimeToFillRoundedUp) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"3/s", "\"default\";q=3;w=1"},  {"7/min burst 4", "\"default\";q=4;w=35"},
      {"1/ms", "\"default\";q=1;w=1"}, {"1/365d", "\"default\";q=1;w=31536000"},
      {"0/s", "\"default\";q=0"},
  };
  for (const auto& [text, field] : rows) {
    EXPECT_EQ(Limited(setup_.store, text).limiter().http_policy(), field) << text;
  }
}

// Every decision of a long random trace: strict syntax, and numbers that agree with each other.
TEST_F(HttpTest, EveryLineOfARandomTraceParsesAndTheWaitIsEnough) {  // C79, C83
  std::mt19937_64 random(79);
  for (const std::string_view text : {"5/min", "3/s", "7/min burst 4", "1000/ms burst 5", "2/7s",
                                      "1/100us", "11/13ms burst 30"}) {
    const Limited limited(setup_.store, text);
    const std::int64_t capacity = limited.limiter().bucket().capacity;
    for (int i = 0; i < 4'000; ++i) {
      const auto span = static_cast<std::uint64_t>(limited.limiter().bucket().span.q);
      ASSERT_TRUE(setup_.clock->advance(static_cast<Micros>(random() % (span / 2 + 1))));
      const auto cost =
          1 + static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(capacity) + 1));
      const Micros wait = random() % 4 == 0 ? 2'000'000 : 0;
      const Decision d = limited.check("k", cost, wait);
      const auto fields = parse_fields(all(limited, d));
      const std::int64_t t = parameter(fields.at("RateLimit"), 't');
      EXPECT_EQ(parameter(fields.at("RateLimit"), 'r'), d.remaining);
      EXPECT_EQ(t == -1, d.remaining == d.limit);
      if (d.outcome == Outcome::kDenied) {
        const std::int64_t retry = std::stoll(fields.at("Retry-After"));
        EXPECT_GE(retry, 1);
        EXPECT_LE(t, retry);
        if (cost == 1) {
          EXPECT_EQ(t, retry);
        }
        const Micros now = setup_.clock->monotonic();
        // The same request, willing to wait as long, passes then; peek does not wait.
        ASSERT_TRUE(setup_.clock->advance(retry * kMicrosPerSecond + wait));
        EXPECT_EQ(limited.peek("k", cost).outcome, Outcome::kAllowed) << text;
        ASSERT_TRUE(setup_.clock->set(now));
      } else {
        EXPECT_EQ(fields.count("Retry-After"), 0U);
      }
      // Within t seconds one more token is there. (A refusal despite a wait cuts t to its own.)
      if (t >= 0 && (d.outcome != Outcome::kDenied || wait == 0)) {
        const Micros now = setup_.clock->monotonic();
        ASSERT_TRUE(setup_.clock->advance(t * kMicrosPerSecond));
        EXPECT_GT(limited.peek("k").remaining, d.remaining) << text;
        ASSERT_TRUE(setup_.clock->set(now));
      }
    }
  }
}

TEST_F(HttpTest, FiveAMinuteSaysBetween1And60) {  // C80
  const Limited limited(setup_.store, "5/min");
  limited.admitted("k", 5);
  for (int i = 0; i < 120; ++i) {
    const Decision d = limited.check("k", 5);
    if (d.outcome == Outcome::kDenied) {
      const std::int64_t n = http::numbers(limited.limiter(), d).retry_after_s;
      EXPECT_GE(n, 1);
      EXPECT_LE(n, 60);
    }
    ASSERT_TRUE(setup_.clock->advance(499'999));
  }
}

// A decision may come from a program, not from us: any numbers give some answer.
TEST_F(HttpTest, OddDecisionsDoNoHarm) {
  std::mt19937_64 random(83);
  const std::int64_t odd[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, 20, kMaxCount, INT64_MAX};
  const Limited slow(setup_.store, "1/365d burst 30");
  for (int i = 0; i < 20'000; ++i) {
    Decision d;
    d.outcome = static_cast<Outcome>(static_cast<int>(random() % 7) - 1);
    for (std::int64_t* field : {&d.limit, &d.remaining, &d.retry_after, &d.reset_after, &d.delay}) {
      *field = odd[random() % std::size(odd)];
    }
    http::fields(slow.limiter(), d, {});
    http::body(slow.limiter(), d);
  }
}

// What was decided without the server: closed is 503 and a short wait, not 429.
TEST_F(HttpTest, ClosedIsUnavailableForAMoment) {
  for (const auto& [retry_after, seconds] : {std::pair<Micros, std::int64_t>{0, 1},
                                             {1, 1},
                                             {1'000'000, 1},
                                             {1'000'001, 2},
                                             {kForever, 5}}) {
    Decision d;
    d.outcome = Outcome::kDenied;
    d.source = Source::kClosed;
    d.reason = Reason::kConnect;
    d.retry_after = retry_after;
    const http::Numbers n = http::numbers(limited_.limiter(), d);
    EXPECT_EQ(n.status, 503);
    EXPECT_EQ(n.has_limit, 0);
    EXPECT_EQ(n.retry_after_s, seconds);
    EXPECT_EQ(http::fields(limited_.limiter(), d, {}),
              "Retry-After: " + std::to_string(seconds) + "\r\n");
    EXPECT_EQ(
        http::body(limited_.limiter(), d),
        "{\"error\":\"rate_limiter_unavailable\",\"retry_after\":" + std::to_string(seconds) + "}");
  }
}

TEST_F(HttpTest, OpenSaysNothing) {
  Decision d;
  d.outcome = Outcome::kAllowed;
  d.source = Source::kOpen;
  EXPECT_EQ(http::numbers(limited_.limiter(), d).status, 200);
  EXPECT_EQ(http::fields(limited_.limiter(), d, {}), "");
  EXPECT_EQ(http::body(limited_.limiter(), d), "");
}

}  // namespace
}  // namespace saqiya

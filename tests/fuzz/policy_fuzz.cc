// Policy text: read or refused with a position inside the text, before which nothing is wrong; what
// was read is within the ranges, and its canonical text and its numbers give the same policy. C157.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/rate.h"
#include "tests/support/policy_check.h"

namespace {

using saqiya::Algorithm;
using saqiya::Rule;

void require(bool holds, const char* what, std::string_view text) {
  if (holds) return;
  std::fprintf(stderr, "%s: \"%.*s\"\n", what, static_cast<int>(text.size()), text.data());
  std::abort();
}

void check_ranges(const Rule& rule, std::string_view text) {
  require(0 <= rule.capacity() && rule.capacity() <= saqiya::kMaxCount, "limit", text);
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      require(1 <= rule.bucket.tokens && 1 <= rule.bucket.period, "rate", text);
      require(rule.bucket.period <= saqiya::kMaxSpan, "period", text);
      require(rule.bucket.span.q <= saqiya::kMaxSpan, "span", text);
      require(0 <= rule.bucket.queue && rule.bucket.queue_wait.q <= saqiya::kMaxSpan, "queue",
              text);
      break;
    case Algorithm::kCalendar:
      require(rule.calendar != nullptr && rule.period == 0, "calendar", text);
      break;
    case Algorithm::kFixedWindow:
      require(1 <= rule.period && rule.period <= saqiya::kMaxSpan, "period", text);
      break;
    case Algorithm::kSlidingWindow:
      require(rule.limit <= saqiya::kMaxSlidingLimit, "limit", text);
      require(1 <= rule.period && rule.period <= saqiya::kMaxSpan, "period", text);
      break;
    case Algorithm::kSlidingLog:
    case Algorithm::kConcurrency:
      require(rule.limit <= saqiya::kMaxSlidingLimit, "limit", text);
      require(1 <= rule.period && rule.period <= saqiya::kMaxListPeriod, "period", text);
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  saqiya::Policy policy;
  saqiya::PolicyError error;
  if (!saqiya::parse_policy(text, &policy, &error)) {
    require(error.position <= text.size(), "a position outside", text);
    require(!error.message.empty() && error.message.size() < 248, "no message", text);
    require(saqiya::test::can_go_on(std::string(text.substr(0, error.position))),
            "an error before the position", text);
    return 0;
  }
  require(policy.rules.size() <= saqiya::kMaxRules, "too many rules", text);
  std::set<std::string> names;
  std::vector<saqiya::RuleSpec> specs;
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    check_ranges(policy.rules[i], text);
    require(names.insert(saqiya::rule_name(policy, i)).second, "two rules of one name", text);
    specs.push_back(saqiya::to_spec(policy.rules[i]));
  }
  saqiya::Policy again;
  require(saqiya::parse_policy(policy.text, &again, &error), "canonical text refused", text);
  require(saqiya::test::same_policy(policy, again), "canonical text differs", text);
  if (policy.is_unlimited()) return 0;
  require(saqiya::make_policy(specs, &again, &error), "numbers refused", text);
  require(saqiya::test::same_policy(policy, again), "numbers differ", text);
  return 0;
}

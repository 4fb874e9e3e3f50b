// Inside of rate.cc and policy_text.cc: units, and rules on their way into a policy.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/rate.h"

namespace saqiya {

struct TimeUnit {
  Micros micros;
  std::string_view symbol;                // in canonical text
  std::array<std::string_view, 5> names;  // lower case, as accepted
};

// From large to small.
inline constexpr std::array<TimeUnit, 7> kTimeUnits = {{
    {604'800'000'000, "w", {"w", "week", "weeks"}},
    {86'400'000'000, "d", {"d", "day", "days"}},
    {3'600'000'000, "h", {"h", "hr", "hrs", "hour", "hours"}},
    {60'000'000, "min", {"m", "min", "mins", "minute", "minutes"}},
    {1'000'000, "s", {"s", "sec", "secs", "second", "seconds"}},
    {1'000, "ms", {"ms", "millisecond", "milliseconds"}},
    {1, "us", {"us", "microsecond", "microseconds"}},
}};

inline constexpr char kPeriodTooLong[] =
    "the period must be at most 1125899906842624 us (2^50, 35.7 years)";

// What a fault is about, so that the reader of text can tell its position.
enum class RuleField : std::size_t {
  kRule,  // the rule as a whole
  kCapacity,
  kTokens,
  kPeriod,
  kQueue,
  kUnit,
  kAnchor,
  kZone,
};
inline constexpr std::size_t kRuleFields = 8;

struct RuleFault {
  RuleField field = RuleField::kRule;
  std::string message;
};

// Checks rules one by one and puts a policy together.
class PolicyBuilder {
 public:
  bool add(const RuleSpec& spec, RuleFault* fault);
  std::size_t size() const { return policy_.rules.size(); }
  // At least one rule was added.
  Policy finish();

 private:
  Policy policy_;
};

// "fixed-window", ...
std::string_view algorithm_name(Algorithm algorithm);

}  // namespace saqiya

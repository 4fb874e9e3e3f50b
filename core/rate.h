// Policies: parsed from text or numbers, validated once, turned into integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/calendar.h"
#include "core/rule.h"

namespace saqiya {

struct Policy {
  std::vector<Rule> rules;  // decided together, all or nothing; empty when unlimited
  std::string text;         // canonical: parsing it gives the same policy
  bool is_unlimited() const { return rules.empty(); }
};

struct PolicyError {
  static constexpr auto kNowhere = static_cast<std::size_t>(-1);

  std::size_t position = kNowhere;  // byte offset in the text of what could not be read
  std::string message;
};

// The rule's part of key names: a letter (b token bucket, f fixed window, w sliding window, l
// sliding log, c calendar, n concurrency), followed by its period ("b1s", "cmonth"; nothing for
// concurrency) in a policy of several rules. Limits are not in it, so raising one keeps the state.
std::string rule_name(const Policy& policy, std::size_t rule);

// A rule as it is given: by numbers, or read from text. 0 for what the algorithm does not use.
struct RuleSpec {
  Algorithm algorithm = Algorithm::kTokenBucket;
  std::int64_t capacity = 0;  // the limit. Token bucket: its burst
  std::int64_t tokens = 0;    // token bucket: so many come back every period
  Micros period = 0;          // concurrency: a lease's time to live. Calendar: 0
  std::int64_t queue = 0;     // token bucket: how many more may wait
  Calendar::Unit unit{};      // calendar
  int anchor = 0;             // calendar, months: 1 ... 31; 0: 1
  std::string zone;           // calendar; "": UTC
  friend bool operator==(const RuleSpec&, const RuleSpec&) = default;
};

// One rule or several, as docs/policies.md describes, or "unlimited". On failure *policy is
// untouched.
//
//   POLICY   = "unlimited" | RULE { (";" | "," | "|") RULE }
//   RULE     = [("token-bucket" | "leaky-bucket") ":"] RATE { "burst" COUNT | "queue" COUNT }
//            | ("fixed-window" | "sliding-window" | "sliding-log") ":" RATE
//            | "calendar" ":" COUNT PER ("day" | "week" | "month" | "year")
//                             { "anchor" DAY | "tz" ZONE }
//            | "concurrency" ":" COUNT "ttl" NUMBER UNIT
//   RATE     = COUNT PER [NUMBER] UNIT
//   PER      = "/" | "per"
bool parse_policy(std::string_view text, Policy* policy, PolicyError* error);

// From numbers, 1 ... kMaxRules rules: an error has no position.
bool make_policy(std::span<const RuleSpec> specs, Policy* policy, PolicyError* error);

// What make_policy() would make the rule of. Of a token bucket in a policy of several rules its
// numbers per period as it was written, else reduced.
RuleSpec to_spec(const Rule& rule);

}  // namespace saqiya

// What holds of every policy and of every error; for the unit tests and the fuzzer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/rate.h"

namespace saqiya::test {

inline bool same_rule(const Rule& a, const Rule& b) {
  if (a.algorithm != b.algorithm || a.limit != b.limit || a.period != b.period) return false;
  if ((a.calendar == nullptr) != (b.calendar == nullptr)) return false;
  if (a.calendar != nullptr &&
      (a.calendar->unit() != b.calendar->unit() || a.calendar->zone() != b.calendar->zone() ||
       a.calendar->anchor() != b.calendar->anchor())) {
    return false;
  }
  return a.bucket.capacity == b.bucket.capacity && a.bucket.tokens == b.bucket.tokens &&
         a.bucket.period == b.bucket.period && a.bucket.span == b.bucket.span &&
         a.bucket.queue == b.bucket.queue && a.bucket.queue_wait == b.bucket.queue_wait;
}

inline bool same_policy(const Policy& a, const Policy& b) {
  if (a.text != b.text || a.rules.size() != b.rules.size()) return false;
  for (std::size_t i = 0; i < a.rules.size(); ++i) {
    if (!same_rule(a.rules[i], b.rules[i]) || rule_name(a, i) != rule_name(b, i)) return false;
  }
  return true;
}

// Whether the text before an error is the beginning of a policy, so that the error is not later
// than the first byte that is wrong. Some faults are found at the end of a rule only and tell an
// earlier position: those are fine, too.
inline bool can_go_on(const std::string& text) {
  static constexpr std::string_view kEnds[] = {"",
                                               "1",
                                               "1/12345671us",
                                               "/12345671us",
                                               "12345671us",
                                               "7us",
                                               "us",
                                               "s",
                                               "per s",
                                               "0s",
                                               ":1/s",
                                               ": 1/day",
                                               "1 ttl 1s",
                                               ":1 ttl 1s",
                                               "ttl 1s",
                                               "day",
                                               "week",
                                               "month",
                                               "year",
                                               "/day",
                                               "UTC",
                                               " anchor 1",
                                               "5us",
                                               "1/week",
                                               "1/month",
                                               "1/year",
                                               "fixed-window: 1/12345671us",
                                               "sliding-log: 1/12345671us"};
  for (const std::string_view end : kEnds) {
    Policy policy;
    PolicyError error;
    if (parse_policy(text + std::string(end), &policy, &error)) return true;
    if (error.position < text.size()) return true;
  }
  return false;
}

}  // namespace saqiya::test

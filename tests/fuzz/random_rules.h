// Random policies that prefer the edges of the ranges, for differential fuzzers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "core/rate.h"

namespace saqiya::testing {

using Random = std::mt19937_64;

inline std::uint64_t below(Random& random, std::uint64_t bound) { return random() % bound; }

// 0 ... most, of any magnitude, both ends often.
inline std::int64_t magnitude(Random& random, std::int64_t most) {
  if (most <= 0) return 0;
  const auto few = [&](std::uint64_t bound) {
    return static_cast<std::int64_t>(
        below(random, std::min<std::uint64_t>(bound, static_cast<std::uint64_t>(most) + 1)));
  };
  switch (below(random, 10)) {
    case 0:
      return most;
    case 1:
      return most - few(3);
    case 2:
      return few(4);
    default: {
      const auto value = static_cast<std::int64_t>(random() >> (1 + below(random, 62)));
      return value % most + (below(random, 2) == 0 ? 0 : 1);
    }
  }
}

inline RuleSpec random_bucket(Random& random) {
  RuleSpec spec;
  switch (below(random, 4)) {
    case 0:
      spec.tokens = 1;
      break;
    case 1:
      spec.tokens = 1 + static_cast<std::int64_t>(below(random, 10));
      break;
    default:
      spec.tokens = 1 + magnitude(random, (std::int64_t{1} << 32) - 2);
  }
  spec.period = 1 + magnitude(random, kMaxSpan - 1);
  // Up to the largest capacity whose span is allowed.
  __extension__ using Wide = __int128;
  const Wide most = Wide{kMaxSpan} * spec.tokens / spec.period;
  const std::int64_t cap = most > kMaxCount ? kMaxCount : static_cast<std::int64_t>(most);
  spec.capacity = magnitude(random, cap);
  if (below(random, 3) == 0) spec.queue = magnitude(random, cap);
  return spec;
}

inline RuleSpec random_rule(Random& random) {
  static constexpr Algorithm kAlgorithms[] = {Algorithm::kTokenBucket,   Algorithm::kFixedWindow,
                                              Algorithm::kSlidingWindow, Algorithm::kSlidingLog,
                                              Algorithm::kCalendar,      Algorithm::kConcurrency};
  static constexpr const char* kZones[] = {"", "Africa/Cairo", "America/Santiago", "Asia/Kathmandu",
                                           "Europe/London"};
  RuleSpec spec;
  spec.algorithm = kAlgorithms[below(random, 6)];
  if (spec.algorithm == Algorithm::kTokenBucket) return random_bucket(random);
  const bool small = below(random, 2) == 0;
  const auto period = [&](Micros most) {
    return 1 + (small ? magnitude(random, 1'000'000) : magnitude(random, most - 1));
  };
  switch (spec.algorithm) {
    case Algorithm::kCalendar:
      spec.capacity = magnitude(random, small ? 50 : kMaxCount);
      spec.unit = static_cast<Calendar::Unit>(1 + below(random, 4));
      spec.zone = kZones[below(random, 5)];
      if (spec.unit == Calendar::Unit::kMonth) spec.anchor = static_cast<int>(below(random, 32));
      break;
    case Algorithm::kConcurrency:
      spec.capacity = magnitude(random, small ? 10 : kMaxLeases);
      spec.period = period(kMaxListPeriod);
      break;
    case Algorithm::kSlidingLog:
      spec.capacity = magnitude(random, small ? 50 : kMaxSlidingLimit);
      spec.period = period(kMaxListPeriod);
      break;
    case Algorithm::kSlidingWindow:
      spec.capacity = magnitude(random, small ? 50 : kMaxSlidingLimit);
      spec.period = period(kMaxSpan);
      break;
    default:
      spec.capacity = magnitude(random, small ? 50 : kMaxCount);
      spec.period = period(kMaxSpan);
  }
  return spec;
}

// One to three rules.
inline Policy random_policy(Random& random) {
  while (true) {
    std::vector<RuleSpec> specs;
    const std::uint64_t count = below(random, 2) == 0 ? 1 : 1 + below(random, 3);
    for (std::uint64_t i = 0; i < count; ++i) specs.push_back(random_rule(random));
    Policy policy;
    PolicyError error;
    if (make_policy(specs, &policy, &error)) return policy;
  }
}

}  // namespace saqiya::testing

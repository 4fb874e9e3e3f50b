// A rule: one algorithm with its numbers. Validated once, immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/time.h"
#include "core/token_bucket.h"

namespace saqiya {

class Calendar;

// The numbers are those of saqiya_algorithm; 2 is "no limit", which is no rule.
enum class Algorithm : std::uint32_t {
  kTokenBucket = 1,
  kFixedWindow = 3,
  kSlidingWindow = 4,
  kSlidingLog = 5,
  kCalendar = 6,
  kConcurrency = 7,
};

inline constexpr std::size_t kMaxRules = 8;  // in a policy
inline constexpr std::int64_t kMaxSlidingLimit = (std::int64_t{1} << 32) - 1;
inline constexpr std::int64_t kMaxLeases = 65535;
inline constexpr Micros kMaxListPeriod = Micros{1} << 47;  // 4.4 years: logs and leases

struct Rule {
  Algorithm algorithm = Algorithm::kTokenBucket;
  TokenBucket bucket;      // token bucket
  std::int64_t limit = 0;  // all others
  // Window or log: its length. Concurrency: a lease's time to live. Calendar: 0. Token bucket: in a
  // policy of several rules the period as it was written, for names; else the reduced one.
  Micros period = 0;
  std::shared_ptr<const Calendar> calendar;

  bool is_bucket() const { return algorithm == Algorithm::kTokenBucket; }
  // What is shown as limit: a cost above it can never pass.
  std::int64_t capacity() const { return is_bucket() ? bucket.capacity : limit; }
  // Whether its now is the wall clock's: windows are aligned to it.
  bool uses_wall_clock() const {
    return algorithm == Algorithm::kFixedWindow || algorithm == Algorithm::kSlidingWindow ||
           algorithm == Algorithm::kCalendar;
  }
};

}  // namespace saqiya

#include "core/share.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace saqiya {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kMostTokens = (std::uint64_t{1} << 32) - 1;

std::int64_t share_of_count(std::int64_t count, std::uint32_t share) {
  if (count == 0) return 0;
  const Wide part = Wide{static_cast<std::uint64_t>(count)} * share / kWholeShare;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(part));
}

struct Pace {
  std::uint64_t tokens = 1;
  std::uint64_t period = 1;
};

// tokens * share per period * kWholeShare: exactly, where the ranges of a rule have room for it,
// else as much less as makes it fit.
Pace share_of_pace(const TokenBucket& rule, std::uint32_t share) {
  const std::uint64_t divisor = std::gcd(share, kWholeShare);
  std::uint64_t tokens = std::uint64_t{rule.tokens} * (share / divisor);
  Wide period = Wide{static_cast<std::uint64_t>(rule.period)} * (kWholeShare / divisor);
  const std::uint64_t common = std::gcd(tokens, static_cast<std::uint64_t>(period % tokens));
  tokens /= common;
  period /= common;
  unsigned cut = 0;
  while (tokens >> cut > kMostTokens || period >> cut >= kMaxSpan) ++cut;
  if (cut == 0) return {tokens, static_cast<std::uint64_t>(period)};
  // Either way loses less than a millionth: few tokens are told by the time of one, many by their
  // count in a shorter time.
  const Wide one = (period + tokens - 1) / tokens;
  if (one >> 20 > 0) return {1, static_cast<std::uint64_t>(std::min<Wide>(one, kMaxSpan))};
  const Wide shorter = std::max<Wide>(1, period >> cut);
  const Wide count = std::min<Wide>(shorter * tokens / period, kMostTokens);
  return {static_cast<std::uint64_t>(count), static_cast<std::uint64_t>(shorter)};
}

TokenBucket share_of_bucket(const TokenBucket& rule, std::uint32_t share) {
  if (rule.capacity == 0) return rule;
  const Pace pace = share_of_pace(rule, share);
  // So many tokens come back within the longest span.
  const Wide in_span = Wide{static_cast<std::uint64_t>(kMaxSpan)} * pace.tokens / pace.period;
  const auto most = static_cast<std::int64_t>(std::min<Wide>(in_span, kMaxCount));
  const std::int64_t capacity = std::min(share_of_count(rule.capacity, share), most);
  const std::int64_t queue = std::min(share_of_count(rule.queue, share), most);
  TokenBucket shared = rule;
  std::string error;  // the ranges have been kept
  TokenBucket::make(capacity, static_cast<std::int64_t>(pace.tokens),
                    static_cast<Micros>(pace.period), queue, &shared, &error);
  return shared;
}

}  // namespace

Policy share_of(const Policy& policy, std::uint32_t share) {
  Policy shared = policy;
  if (share == kWholeShare) return shared;
  for (Rule& rule : shared.rules) {
    if (rule.is_bucket()) {
      rule.bucket = share_of_bucket(rule.bucket, share);
    } else {
      rule.limit = share_of_count(rule.limit, share);
    }
  }
  return shared;
}

}  // namespace saqiya

// Policies: parsed from text or numbers, validated once, turned into integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/token_bucket.h"

namespace saqiya {

struct Policy {
  bool unlimited = false;
  TokenBucket bucket;  // meaningless when unlimited
  std::string text;    // canonical: parsing it gives the same policy
};

struct PolicyError {
  static constexpr auto kNowhere = static_cast<std::size_t>(-1);

  std::size_t position = kNowhere;  // byte offset in the text of what could not be read
  std::string message;
};

// The grammar of DESIGN 8 for one token bucket, or "unlimited":
//   [token-bucket: | leaky-bucket:] COUNT (/ | per) [NUMBER] UNIT [burst COUNT]
bool parse_policy(std::string_view text, Policy* policy, PolicyError* error);

// From numbers: an error has no position.
bool make_policy(std::int64_t capacity, std::int64_t tokens, Micros period, Policy* policy,
                 PolicyError* error);

}  // namespace saqiya

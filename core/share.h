// A share of a policy: what one process of several may let through on its own.
#pragma once

#include <cstdint>

#include "core/rate.h"

namespace saqiya {

inline constexpr std::uint32_t kWholeShare = 1'000'000;

// Limits and rates times share / 1,000,000 (1 ... kWholeShare), rounded down; a limit or a queue
// that is not 0 stays at least 1, and a rate at least one token in kMaxSpan. Periods of windows and
// times to live stay. The same rules in the same order, never more than the policy lets through
// beyond those least limits; text and names are the policy's.
Policy share_of(const Policy& policy, std::uint32_t share);

}  // namespace saqiya

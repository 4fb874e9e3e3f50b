// Instants and durations as q + r/N microseconds, 0 <= r < N, where N belongs to the rule at hand.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace saqiya {

struct Fraction {
  std::int64_t q = 0;
  std::uint32_t r = 0;
  friend bool operator==(const Fraction&, const Fraction&) = default;
};

// Arithmetic in units of 1/N. With kWhole (N = 1, the common case) all remainders are 0 and what is
// left is plain integer arithmetic; both are instances of one text.
template <bool kWhole>
struct Units {
  std::uint32_t n;

  Fraction add(Fraction a, Fraction b) const {
    if constexpr (kWhole) return {a.q + b.q, 0};
    const std::uint64_t r = std::uint64_t{a.r} + b.r;
    const std::uint32_t carry = r >= n ? 1 : 0;
    return {a.q + b.q + carry, static_cast<std::uint32_t>(r - (carry != 0 ? n : 0))};
  }

  Fraction sub(Fraction a, Fraction b) const {
    if constexpr (kWhole) return {a.q - b.q, 0};
    const std::uint32_t borrow = a.r < b.r ? 1 : 0;
    return {a.q - b.q - borrow,
            static_cast<std::uint32_t>(std::uint64_t{a.r} + (borrow != 0 ? n : 0) - b.r)};
  }

  static bool less(Fraction a, Fraction b) {
    if constexpr (kWhole) return a.q < b.q;
    return a.q < b.q || (a.q == b.q && a.r < b.r);
  }

  static bool positive(Fraction a) {
    if constexpr (kWhole) return a.q > 0;
    return a.q > 0 || (a.q == 0 && a.r > 0);
  }

  static Micros ceil(Fraction a) {
    if constexpr (kWhole) return a.q;
    return a.q + (a.r > 0 ? 1 : 0);
  }
};

}  // namespace saqiya

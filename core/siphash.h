// SipHash with a 128-bit result (Aumasson and Bernstein, "SipHash: a fast short-input PRF"): a
// keyed hash whose collisions nobody can prepare without the key. C rounds a block, D rounds at the
// end.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace saqiya {

static_assert(std::endian::native == std::endian::little, "SipHash here reads little-endian words");

struct SipKey {
  std::uint64_t k0 = 0;
  std::uint64_t k1 = 0;
};

struct Hash128 {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

// Inlined: as a call, it is a twentieth of a check in the process.
template <int C, int D>
[[gnu::always_inline]] inline Hash128 siphash128(const SipKey& key, std::string_view text) {
  std::uint64_t v0 = key.k0 ^ 0x736f6d6570736575ULL;
  std::uint64_t v1 = key.k1 ^ 0x646f72616e646f6dULL ^ 0xee;
  std::uint64_t v2 = key.k0 ^ 0x6c7967656e657261ULL;
  std::uint64_t v3 = key.k1 ^ 0x7465646279746573ULL;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  };
  const char* p = text.data();
  std::size_t left = text.size();
  for (; left >= 8; p += 8, left -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    v3 ^= word;
    rounds(C);
    v0 ^= word;
  }
  std::uint64_t last = std::uint64_t{text.size()} << 56;
  if (left != 0 && text.size() >= 8) {
    // The last eight bytes hold the tail; the shift drops what was hashed already.
    std::uint64_t word = 0;
    std::memcpy(&word, p + left - 8, 8);
    last |= word >> (8 * (8 - left));
  } else {
    for (std::size_t i = 0; i < left; ++i) {
      last |= std::uint64_t{static_cast<unsigned char>(p[i])} << (8 * i);
    }
  }
  v3 ^= last;
  rounds(C);
  v0 ^= last;
  v2 ^= 0xee;
  rounds(D);
  const std::uint64_t lo = v0 ^ v1 ^ v2 ^ v3;
  v1 ^= 0xdd;
  rounds(D);
  return {lo, v0 ^ v1 ^ v2 ^ v3};
}

// The one the memory store uses: 1-3, as the hash tables of Rust and CPython do.
inline Hash128 keyed_hash(const SipKey& key, std::string_view text) {
  return siphash128<1, 3>(key, text);
}

}  // namespace saqiya

// SipHash-128 against the authors' vectors and against OpenSSL's.
#include "core/siphash.h"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>

namespace saqiya {
namespace {

using Bytes16 = std::array<unsigned char, 16>;

Bytes16 as_bytes(const Hash128& hash) {
  Bytes16 out{};
  std::memcpy(out.data(), &hash.lo, 8);
  std::memcpy(out.data() + 8, &hash.hi, 8);
  return out;
}

SipKey as_key(const Bytes16& bytes) {
  SipKey key;
  std::memcpy(&key.k0, bytes.data(), 8);
  std::memcpy(&key.k1, bytes.data() + 8, 8);
  return key;
}

Bytes16 openssl_siphash(const Bytes16& key, const std::string& text, unsigned c, unsigned d) {
  const std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)> mac(
      EVP_MAC_fetch(nullptr, "SIPHASH", nullptr), EVP_MAC_free);
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(
      EVP_MAC_CTX_new(mac.get()), EVP_MAC_CTX_free);
  std::size_t size = 16;
  OSSL_PARAM parameters[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                             OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_C_ROUNDS, &c),
                             OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_D_ROUNDS, &d),
                             OSSL_PARAM_construct_end()};
  Bytes16 out{};
  EXPECT_EQ(EVP_MAC_init(context.get(), key.data(), key.size(), parameters), 1);
  EXPECT_EQ(EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(text.data()),
                           text.size()),
            1);
  EXPECT_EQ(EVP_MAC_final(context.get(), out.data(), &size, out.size()), 1);
  return out;
}

constexpr Bytes16 kCountingKey = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

std::string counting_text(std::size_t length) {
  std::string text;
  for (std::size_t i = 0; i < length; ++i) text.push_back(static_cast<char>(i));
  return text;
}

TEST(SipHash, AuthorsVectors) {
  const std::pair<std::size_t, Bytes16> vectors[] = {
      {0,
       {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02,
        0x93}},
      {1,
       {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
        0x45}},
      {2,
       {0x81, 0x77, 0x22, 0x8d, 0xa4, 0xa4, 0x5d, 0xc7, 0xfc, 0xa3, 0x8b, 0xde, 0xf6, 0x0a, 0xff,
        0xe4}},
      {3,
       {0x9c, 0x70, 0xb6, 0x0c, 0x52, 0x67, 0xa9, 0x4e, 0x5f, 0x33, 0xb6, 0xb0, 0x29, 0x85, 0xed,
        0x51}},
  };
  for (const auto& [length, expected] : vectors) {
    EXPECT_EQ(as_bytes(siphash128<2, 4>(as_key(kCountingKey), counting_text(length))), expected)
        << length;
  }
}

TEST(SipHash, SameAsOpenSslForEveryLengthAndBothRounds) {
  std::mt19937_64 random(20261130);
  for (std::size_t length = 0; length <= 300; ++length) {
    Bytes16 key = kCountingKey;
    std::string text = counting_text(length);
    if (length >= 64) {
      for (auto& byte : key) byte = static_cast<unsigned char>(random());
      for (auto& byte : text) byte = static_cast<char>(random());
    }
    ASSERT_EQ(as_bytes(siphash128<2, 4>(as_key(key), text)), openssl_siphash(key, text, 2, 4))
        << length;
    ASSERT_EQ(as_bytes(keyed_hash(as_key(key), text)), openssl_siphash(key, text, 1, 3)) << length;
  }
}

TEST(SipHash, ReadsNothingBesideTheText) {
  // Exact allocations, so that AddressSanitizer sees a read before or behind them.
  for (std::size_t length = 1; length <= 64; ++length) {
    const std::unique_ptr<char[]> exact(new char[length]);
    const std::string text = counting_text(length);
    std::memcpy(exact.get(), text.data(), length);
    EXPECT_EQ(keyed_hash({1, 2}, {exact.get(), length}), keyed_hash({1, 2}, text));
  }
}

TEST(SipHash, AKeyForEachPolicyGivesUnrelatedHashes) {  // C174
  std::set<std::uint64_t> seen;
  for (std::uint64_t k = 0; k < 1'000; ++k) seen.insert(keyed_hash({k, 0}, "user:42").lo);
  EXPECT_EQ(seen.size(), 1'000U);
}

}  // namespace
}  // namespace saqiya

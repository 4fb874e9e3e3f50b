#include "core/key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <new>

#include "core/fork.h"

namespace saqiya {
namespace {

constexpr std::size_t kMaxPlainSubject = 64;
constexpr char kUpperHex[] = "0123456789ABCDEF";
constexpr char kLowerHex[] = "0123456789abcdef";

using Digest = std::array<unsigned char, 32>;

// Fetched once: a later fetch takes locks inside OpenSSL, which a child must not need. Never freed.
const EVP_MD* sha256_algorithm() {
  // No configuration file and no exit handler: the host program's OpenSSL is not ours to set up.
  static const EVP_MD* const algorithm =
      OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) == 1
          ? EVP_MD_fetch(nullptr, "SHA256", nullptr)
          : nullptr;
  return algorithm;
}

// Of the one after the other.
Digest sha256(std::string_view first, std::string_view second) {
  const EVP_MD* const algorithm = sha256_algorithm();
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  Digest digest{};
  if (algorithm == nullptr || context == nullptr ||
      EVP_DigestInit_ex(context.get(), algorithm, nullptr) != 1 ||
      EVP_DigestUpdate(context.get(), first.data(), first.size()) != 1 ||
      EVP_DigestUpdate(context.get(), second.data(), second.size()) != 1 ||
      EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) != 1) {
    throw std::bad_alloc();  // the only way these calls fail
  }
  return digest;
}

std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// RFC 2104. OpenSSL's HMAC() fetches its algorithms anew on each call, by name and under locks.
Digest hmac_sha256(std::string_view secret, std::string_view text) {
  std::array<char, 64> inner{};
  Digest shortened;
  if (secret.size() > inner.size()) {
    shortened = sha256(secret, {});
    secret = bytes_of(shortened);
  }
  std::copy(secret.begin(), secret.end(), inner.begin());
  std::array<char, 64> outer = inner;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5C);
  const Digest first = sha256({inner.data(), inner.size()}, text);
  return sha256({outer.data(), outer.size()}, bytes_of(first));
}

bool needs_escape(unsigned char c) {
  return c < 0x20 || c == '%' || c == '{' || c == '}' || c == ':';
}

}  // namespace

bool prepare_digests() {
  const ForkHold hold;
  return sha256_algorithm() != nullptr;
}

void append_key_part(std::string_view part, std::string* out) {
  if (part.empty()) {
    out->push_back('%');
    return;
  }
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (needs_escape(byte)) {
      out->push_back('%');
      out->push_back(kUpperHex[byte >> 4]);
      out->push_back(kUpperHex[byte & 15]);
    } else {
      out->push_back(c);
    }
  }
}

void append_subject(std::string_view subject, bool hash_all, std::string_view secret,
                    std::string* out) {
  if (!hash_all && subject.size() <= kMaxPlainSubject) {
    // A short subject that begins like a digest must not pass for one.
    if (!subject.empty() && subject.front() == '#') {
      out->append("%23");
      if (subject.size() > 1) append_key_part(subject.substr(1), out);
      return;
    }
    append_key_part(subject, out);
    return;
  }
  const Digest digest = secret.empty() ? sha256(subject, {}) : hmac_sha256(secret, subject);
  out->push_back('#');
  for (std::size_t i = 0; i < 16; ++i) {
    out->push_back(kLowerHex[digest[i] >> 4]);
    out->push_back(kLowerHex[digest[i] & 15]);
  }
}

bool is_plain_subject(std::string_view subject) {
  if (subject.empty() || subject.size() > kMaxPlainSubject || subject.front() == '#') return false;
  return std::none_of(subject.begin(), subject.end(),
                      [](char c) { return needs_escape(static_cast<unsigned char>(c)); });
}

std::string policy_identity(std::string_view name, std::string_view canonical_text) {
  std::string out;
  if (name.empty()) {
    static constexpr char kBase32[] = "abcdefghijklmnopqrstuvwxyz234567";
    const Digest digest = sha256({}, canonical_text);
    for (std::size_t i = 0; i < 6; ++i) out.push_back(kBase32[digest[i] & 31]);
  } else {
    append_key_part(name, &out);
  }
  return out;
}

}  // namespace saqiya

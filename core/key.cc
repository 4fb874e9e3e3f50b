#include "core/key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstddef>
#include <new>

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

Digest sha256(std::string_view secret, std::string_view text) {
  const EVP_MD* const algorithm = sha256_algorithm();
  Digest digest{};
  unsigned int length = digest.size();
  const auto* data = reinterpret_cast<const unsigned char*>(text.data());
  bool ok = algorithm != nullptr;
  if (ok && secret.empty()) {
    ok = EVP_Digest(data, text.size(), digest.data(), &length, algorithm, nullptr) == 1;
  } else if (ok) {
    ok = HMAC(algorithm, secret.data(), static_cast<int>(secret.size()), data, text.size(),
              digest.data(), &length) != nullptr;
  }
  if (!ok) throw std::bad_alloc();  // the only way these calls fail
  return digest;
}

bool needs_escape(unsigned char c) {
  return c < 0x20 || c == '%' || c == '{' || c == '}' || c == ':';
}

}  // namespace

bool prepare_digests() { return sha256_algorithm() != nullptr; }

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
  const Digest digest = sha256(secret, subject);
  out->push_back('#');
  for (std::size_t i = 0; i < 16; ++i) {
    out->push_back(kLowerHex[digest[i] >> 4]);
    out->push_back(kLowerHex[digest[i] & 15]);
  }
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

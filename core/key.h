// Key names (DESIGN 5, a contract with other processes and versions):
//   prefix{subject}:policy:rule
// Parts are escaped, so that different parts never give one name.
#pragma once

#include <string>
#include <string_view>

namespace saqiya {

// Sets OpenSSL up, when the first store is opened, so that no child of a fork has to. False when it
// cannot be.
bool prepare_digests();

// '%', '{', '}', ':' and bytes below 0x20 become %XX; the empty part becomes "%".
void append_key_part(std::string_view part, std::string* out);

// The subject as it stands between the braces: escaped, or, when it is longer than 64 bytes or
// hash_all is set, '#' and 32 hex digits of its SHA-256 (HMAC-SHA-256 under a non-empty secret).
void append_subject(std::string_view subject, bool hash_all, std::string_view secret,
                    std::string* out);

// Whether a subject stands there as it is, unless all are hashed.
bool is_plain_subject(std::string_view subject);

// The policy's part of key names: the escaped name, or six characters of a digest of the canonical
// text.
std::string policy_identity(std::string_view name, std::string_view canonical_text);

}  // namespace saqiya

// A decision as HTTP: whole seconds, header fields, the body of a refusal.
//
// Fields: Retry-After (RFC 9110, 10.2.3); RateLimit and RateLimit-Policy (structured fields of
// draft-ietf-httpapi-ratelimit-headers-10 and later); X-RateLimit-Limit, -Remaining, -Reset with
// delta seconds. Everything is rounded so that a client that obeys is not refused again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/decision.h"

namespace saqiya {

class Limiter;

namespace http {

// Layout of saqiya_http_numbers.
struct Numbers {
  std::int32_t status = 0;
  std::int32_t has_limit = 0;
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  std::int64_t reset_s = 0;
  std::int64_t retry_after_s = -1;
  std::int64_t t_s = -1;
};

Numbers numbers(const Limiter& limiter, const Decision& decision);

// "\"default\";q=20;w=4"; of several rules "\"default-1\";q=5;w=1,\"default-2\";q=1000;w=86400".
// Empty when unlimited. Looks at the limiter's name and rules only.
std::string policy_field(const Limiter& limiter);
// "\"default\";r="
std::string item_prefix(const Limiter& limiter, std::size_t rule);

struct Choice {
  bool legacy = true;  // X-RateLimit-*
  bool draft = true;   // RateLimit, RateLimit-Policy
};

// "Name: value\r\n" lines.
std::string fields(const Limiter& limiter, const Decision& decision, Choice choice);

// JSON; empty when the request may go on.
std::string body(const Limiter& limiter, const Decision& decision);

}  // namespace http
}  // namespace saqiya

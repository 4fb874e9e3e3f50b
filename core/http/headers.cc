#include "core/http/headers.h"

#include <algorithm>

#include "core/limiter.h"

namespace saqiya::http {
namespace {

constexpr std::int64_t kUnavailableRetrySeconds = 1;

std::int64_t ceil_seconds(Micros time) {
  return time / kMicrosPerSecond + (time % kMicrosPerSecond > 0 ? 1 : 0);
}

// A name is printable ASCII; quotes and backslashes are escaped (RFC 9651, 3.3.3).
std::string quoted(std::string_view name) {
  if (name.empty()) name = "default";
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
  return out;
}

void append_field(std::string_view name, std::string_view value, std::string* out) {
  out->append(name).append(": ").append(value).append("\r\n");
}

// When one token more than now will be there: the used ones but one have yet to come back.
Micros next_token(const TokenBucket& rule, const Numbers& n, Micros reset_after) {
  const std::int64_t later = std::min(n.limit - n.remaining - 1, rule.capacity);
  return std::max<Micros>(1, reset_after - rule.cost_in_time(later).q);
}

std::string item(const Limiter& limiter, const Numbers& n) {
  std::string value = limiter.http_item() + std::to_string(n.remaining);
  if (n.t_s >= 0) value += ";t=" + std::to_string(n.t_s);
  return value;
}

}  // namespace

Numbers numbers(const Limiter& limiter, const Decision& decision) {
  Numbers n;
  if (decision.outcome == Outcome::kUnavailable || decision.outcome == Outcome::kNone) {
    n.status = 503;
    n.retry_after_s = kUnavailableRetrySeconds;
    return n;
  }
  n.status = decision.outcome == Outcome::kAllowed ? 200 : 429;
  if (decision.outcome == Outcome::kDenied) {
    n.retry_after_s = std::max<std::int64_t>(1, ceil_seconds(decision.retry_after));
  }
  if (limiter.policy().unlimited) return n;
  n.has_limit = 1;
  // Cut to what a limiter can say: the decision may be a program's own.
  n.limit = std::clamp<std::int64_t>(decision.limit, 0, kMaxCount);
  n.remaining = std::clamp<std::int64_t>(decision.remaining, 0, n.limit);
  const Micros reset_after = std::max<Micros>(0, decision.reset_after);
  n.reset_s = ceil_seconds(reset_after);
  if (n.remaining < n.limit) {
    n.t_s = ceil_seconds(next_token(limiter.bucket(), n, reset_after));
    // Never later than Retry-After, which counts from the exact remainder.
    if (n.retry_after_s >= 0) n.t_s = std::min(n.t_s, n.retry_after_s);
  }
  return n;
}

std::string policy_field(std::string_view name, const TokenBucket& rule) {
  const Micros span = rule.span.q + (rule.span.r > 0 ? 1 : 0);
  std::string value = quoted(name) + ";q=" + std::to_string(rule.capacity);
  if (span > 0) value += ";w=" + std::to_string(ceil_seconds(span));
  return value;
}

std::string item_prefix(std::string_view name) { return quoted(name) + ";r="; }

std::string fields(const Limiter& limiter, const Decision& decision, Choice choice) {
  const Numbers n = numbers(limiter, decision);
  std::string out;
  if (n.retry_after_s >= 0) append_field("Retry-After", std::to_string(n.retry_after_s), &out);
  if (n.has_limit == 0) return out;
  if (choice.legacy) {
    append_field("X-RateLimit-Limit", std::to_string(n.limit), &out);
    append_field("X-RateLimit-Remaining", std::to_string(n.remaining), &out);
    append_field("X-RateLimit-Reset", std::to_string(n.reset_s), &out);
  }
  if (choice.draft) {
    append_field("RateLimit", item(limiter, n), &out);
    append_field("RateLimit-Policy", limiter.http_policy(), &out);
  }
  return out;
}

std::string body(const Limiter& limiter, const Decision& decision) {
  const Numbers n = numbers(limiter, decision);
  if (n.status == 200) return {};
  const std::string retry_after =
      n.retry_after_s >= 0 ? std::to_string(n.retry_after_s) : std::string("null");
  if (n.status == 503) {
    return "{\"error\":\"rate_limiter_unavailable\",\"retry_after\":" + retry_after + "}";
  }
  return "{\"error\":\"rate_limited\",\"retry_after\":" + retry_after +
         ",\"limit\":" + std::to_string(n.limit) + ",\"remaining\":" + std::to_string(n.remaining) +
         "}";
}

}  // namespace saqiya::http

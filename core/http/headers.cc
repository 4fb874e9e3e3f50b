#include "core/http/headers.h"

#include <algorithm>

#include "core/calendar.h"
#include "core/limiter.h"

namespace saqiya::http {
namespace {

// With 503: so long at least and at the most.
constexpr std::int64_t kShortestPause = 1;
constexpr std::int64_t kLongestPause = 5;
constexpr std::int64_t kSecondsPerDay = 86'400;

std::int64_t ceil_seconds(Micros time) {
  return time / kMicrosPerSecond + (time % kMicrosPerSecond > 0 ? 1 : 0);
}

// What a rule is called. A name is printable ASCII; quotes and backslashes are escaped (RFC 9651,
// 3.3.3).
std::string quoted_name(const Limiter& limiter, std::size_t rule) {
  std::string_view name = limiter.name();
  if (name.empty()) name = "default";
  std::string out;
  out.push_back('"');
  for (const char c : name) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  if (limiter.rules().size() > 1) {
    out.push_back('-');
    out.append(std::to_string(rule + 1));
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

// The rule that bound; the decision may be a program's own.
std::size_t binding_rule(const Limiter& limiter, const Decision& decision) {
  const auto rule = static_cast<std::size_t>(std::max(0, decision.rule));
  return std::min(rule, limiter.rules().size() - 1);
}

// Whose rules a decision is about. (Fallbacks have as many.)
const Limiter& decider(const Limiter& limiter, const Decision& decision) {
  const bool local = decision.source == Source::kLocal && limiter.fallback() != nullptr;
  return local ? *limiter.fallback() : limiter;
}

// w: the seconds in which the quota is used up at the most; 0: none can be given.
std::int64_t window_seconds(const Rule& rule) {
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      return ceil_seconds(rule.bucket.span.q + (rule.bucket.span.r > 0 ? 1 : 0));
    case Algorithm::kCalendar:
      if (rule.calendar->unit() == Calendar::Unit::kDay) return kSecondsPerDay;
      return rule.calendar->unit() == Calendar::Unit::kWeek ? 7 * kSecondsPerDay : 0;
    case Algorithm::kConcurrency:
      return 0;
    default:
      return ceil_seconds(rule.period);
  }
}

}  // namespace

Numbers numbers(const Limiter& limiter, const Decision& decision) {
  Numbers n;
  if (decision.outcome == Outcome::kUnavailable || decision.outcome == Outcome::kNone ||
      decision.source == Source::kClosed) {
    n.status = 503;
    n.retry_after_s = std::clamp(ceil_seconds(decision.retry_after), kShortestPause, kLongestPause);
    return n;
  }
  n.status = decision.outcome == Outcome::kAllowed ? 200 : 429;
  if (decision.outcome == Outcome::kDenied) {
    n.retry_after_s = std::max<std::int64_t>(1, ceil_seconds(decision.retry_after));
  }
  if (limiter.is_unlimited() || decision.source == Source::kOpen) return n;
  n.has_limit = 1;
  // Cut to what a limiter can say: the decision may be a program's own.
  n.limit = std::clamp<std::int64_t>(decision.limit, 0, kMaxCount);
  n.remaining = std::clamp<std::int64_t>(decision.remaining, 0, n.limit);
  const Micros reset_after = std::max<Micros>(0, decision.reset_after);
  n.reset_s = ceil_seconds(reset_after);
  if (n.remaining < n.limit) {
    const Rule& rule = decider(limiter, decision).rules()[binding_rule(limiter, decision)];
    n.t_s = ceil_seconds(rule.is_bucket() ? next_token(rule.bucket, n, reset_after) : reset_after);
    // Never later than Retry-After, which counts from the exact remainder.
    if (n.retry_after_s >= 0) n.t_s = std::min(n.t_s, n.retry_after_s);
  }
  return n;
}

std::string policy_field(const Limiter& limiter) {
  std::string value;
  for (std::size_t i = 0; i < limiter.rules().size(); ++i) {
    const Rule& rule = limiter.rules()[i];
    if (i > 0) value += ",";
    value += quoted_name(limiter, i) + ";q=" + std::to_string(rule.capacity());
    if (rule.algorithm == Algorithm::kConcurrency) value += ";qu=\"concurrent-requests\"";
    if (const std::int64_t w = window_seconds(rule); w > 0) value += ";w=" + std::to_string(w);
  }
  return value;
}

std::string item_prefix(const Limiter& limiter, std::size_t rule) {
  return quoted_name(limiter, rule) + ";r=";
}

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
    const Limiter& by = decider(limiter, decision);
    std::string item = by.http_item(binding_rule(by, decision));
    item += std::to_string(n.remaining);
    if (n.t_s >= 0) item += ";t=" + std::to_string(n.t_s);
    append_field("RateLimit", item, &out);
    append_field("RateLimit-Policy", by.http_policy(), &out);
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

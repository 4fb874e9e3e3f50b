#include "core/rate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace saqiya {
namespace {

__extension__ using Wide = __int128;

struct Unit {
  Micros micros;
  std::string_view symbol;                // in canonical text
  std::array<std::string_view, 5> names;  // lower case, as accepted
};

// From large to small.
constexpr std::array<Unit, 7> kUnits = {{
    {604'800'000'000, "w", {"w", "week", "weeks"}},
    {86'400'000'000, "d", {"d", "day", "days"}},
    {3'600'000'000, "h", {"h", "hr", "hrs", "hour", "hours"}},
    {60'000'000, "min", {"m", "min", "mins", "minute", "minutes"}},
    {1'000'000, "s", {"s", "sec", "secs", "second", "seconds"}},
    {1'000, "ms", {"ms", "millisecond", "milliseconds"}},
    {1, "us", {"us", "microsecond", "microseconds"}},
}};

constexpr std::size_t kSecond = 4;
static_assert(kUnits[kSecond].micros == kMicrosPerSecond);

constexpr char kPeriodTooLong[] =
    "the period must be at most 1125899906842624 us (2^50, 35.7 years)";

constexpr std::array<std::string_view, 5> kLaterAlgorithms = {
    "fixed-window", "sliding-window", "sliding-log", "calendar", "concurrency"};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { skip_space(); }

  bool parse(Policy* policy, PolicyError* error) {
    const bool ok = parse_rule(policy);
    if (!ok) *error = std::move(error_);
    return ok;
  }

 private:
  bool fail(std::size_t position, std::string message) {
    error_ = {position, std::move(message)};
    return false;
  }

  bool at_end() const { return at_ == text_.size(); }

  void skip_space() {
    while (!at_end() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    skip_space();
    return true;
  }

  // The word at the position, lower case, without moving: letters and inner hyphens.
  std::string word() const {
    std::string out;
    for (std::size_t i = at_; i < text_.size() && (is_letter(text_[i]) || text_[i] == '-'); ++i) {
      out.push_back(lower(text_[i]));
    }
    return out;
  }

  void skip(std::size_t bytes) {
    at_ += bytes;
    skip_space();
  }

  // Digits, with single underscores between them. Saturates.
  bool digits(Wide* value) {
    if (at_end() || !is_digit(text_[at_])) return false;
    *value = 0;
    while (!at_end()) {
      const char c = text_[at_];
      if (c == '_' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])) {
        ++at_;
        continue;
      }
      if (!is_digit(c)) break;
      if (*value < (Wide{1} << 100)) *value = *value * 10 + (c - '0');
      ++at_;
    }
    return true;
  }

  bool count(std::int64_t* value) {
    const std::size_t start = at_;
    Wide wide = 0;
    if (!digits(&wide)) return fail(start, "expected a count, such as 100");
    if (wide > kMaxCount) {
      return fail(start, "the count must be at most 9007199254740991 (2^53 - 1)");
    }
    *value = static_cast<std::int64_t>(wide);
    skip_space();
    return true;
  }

  // [NUMBER] UNIT, the number may have decimals.
  bool period(Micros* out) {
    const std::size_t start = at_;
    Wide numerator = 1;
    Wide denominator = 1;
    constexpr Wide kTooMuch = std::numeric_limits<std::int64_t>::max();
    const bool has_number = digits(&numerator);
    if (numerator > kTooMuch) return fail(start, kPeriodTooLong);
    if (has_number && !at_end() && text_[at_] == '.') {
      ++at_;
      if (at_end() || !is_digit(text_[at_])) return fail(at_, "expected digits after the point");
      for (; !at_end() && is_digit(text_[at_]); ++at_) {
        if (denominator >= 1'000'000'000'000'000) {
          return fail(start, "the period has too many decimals");
        }
        numerator = numerator * 10 + (text_[at_] - '0');  // below 2^113
        denominator *= 10;
      }
    }
    skip_space();
    const std::size_t unit_at = at_;
    const std::string name = word();
    const auto* unit = std::find_if(kUnits.begin(), kUnits.end(), [&name](const Unit& u) {
      return !name.empty() && std::find(u.names.begin(), u.names.end(), name) != u.names.end();
    });
    if (unit == kUnits.end()) {
      if (name == "month" || name == "months" || name == "year" || name == "years") {
        return fail(unit_at,
                    "months and years differ in length: use \"calendar:\" or a number of "
                    "days, such as 30d");
      }
      return fail(unit_at, "expected a unit: us, ms, s, min, h, d or w");
    }
    skip(name.size());
    if (numerator > kTooMuch * denominator / unit->micros) return fail(start, kPeriodTooLong);
    numerator *= unit->micros;
    if (numerator % denominator != 0) {
      return fail(start, "the period must be a whole number of microseconds");
    }
    *out = static_cast<Micros>(numerator / denominator);
    if (*out < 1) return fail(start, "the period must be at least 1 microsecond");
    return true;
  }

  bool algorithm() {
    const std::string name = word();
    std::size_t colon = at_ + name.size();
    while (colon < text_.size() && (text_[colon] == ' ' || text_[colon] == '\t')) ++colon;
    if (name.empty()) return true;
    const bool later =
        std::find(kLaterAlgorithms.begin(), kLaterAlgorithms.end(), name) != kLaterAlgorithms.end();
    if (later) return fail(at_, "the algorithm " + name + " is not offered by this version");
    if (name != "token-bucket" && name != "leaky-bucket") {
      return fail(at_, "expected a count, such as 100/minute, or an algorithm: token-bucket");
    }
    skip(name.size());
    if (!take(':')) return fail(at_, "expected ':' after the algorithm");
    return true;
  }

  bool parse_rule(Policy* policy) {
    if (word() == "unlimited") {
      skip(std::string_view("unlimited").size());
      if (!expect_end()) return false;
      *policy = Policy{};
      policy->unlimited = true;
      policy->text = "unlimited";
      return true;
    }
    if (!algorithm()) return false;
    const std::size_t count_at = at_;
    std::int64_t tokens = 0;
    if (!count(&tokens)) return false;
    if (!take('/')) {
      if (word() != "per") return fail(at_, "expected '/' or \"per\" after the count");
      skip(3);
    }
    const std::size_t period_at = at_;
    Micros every = 0;
    if (!period(&every)) return false;
    std::int64_t capacity = tokens;
    std::size_t capacity_at = count_at;
    if (word() == "burst") {
      skip(std::string_view("burst").size());
      capacity_at = at_;
      if (!count(&capacity)) return false;
    }
    if (!expect_end()) return false;
    std::string what;
    switch (TokenBucket::make(capacity, tokens, every, &policy->bucket, &what)) {
      case RangeFault::kNone:
        break;
      case RangeFault::kTokens:
        return fail(count_at, std::move(what));
      case RangeFault::kPeriod:
        return fail(period_at, std::move(what));
      case RangeFault::kCapacity:
      case RangeFault::kSpan:
        return fail(capacity_at, std::move(what));
    }
    return true;
  }

  bool expect_end() {
    if (at_end()) return true;
    const char c = text_[at_];
    if (c == ';' || c == ',' || c == '|') {
      return fail(at_, "policies of several rules are not offered by this version");
    }
    if (word() == "queue") {
      return fail(at_, "\"queue\" is not offered by this version: use the wait of acquire");
    }
    return fail(at_, "expected the end of the policy");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  PolicyError error_;
};

// N tokens every P as reduced: "2/7s".
std::string reduced_text(const TokenBucket& rule) {
  const auto* unit = std::find_if(kUnits.begin(), kUnits.end(),
                                  [&rule](const Unit& u) { return rule.period % u.micros == 0; });
  const Micros multiple = rule.period / unit->micros;
  return std::to_string(rule.tokens) + "/" + (multiple != 1 ? std::to_string(multiple) : "") +
         std::string(unit->symbol);
}

// A whole count per the smallest unit from a second up: "5/s". Empty when there is none.
std::string per_unit_text(const TokenBucket& rule) {
  for (std::size_t i = kSecond + 1; i-- > 0;) {
    const Wide units = Wide{kUnits[i].micros} * rule.tokens;
    if (units % rule.period == 0 && units / rule.period <= kMaxCount) {
      const auto count = static_cast<std::int64_t>(units / rule.period);
      return std::to_string(count) + "/" + std::string(kUnits[i].symbol);
    }
  }
  return {};
}

// The shorter of the two; a whole count per unit when they are as long. An unnamed policy is named
// by a digest of this text, so it must never change.
std::string canonical_text(const TokenBucket& rule) {
  const std::string reduced = reduced_text(rule);
  const std::string per_unit = per_unit_text(rule);
  const bool take_reduced = per_unit.empty() || reduced.size() < per_unit.size();
  return (take_reduced ? reduced : per_unit) + " burst " + std::to_string(rule.capacity);
}

}  // namespace

bool parse_policy(std::string_view text, Policy* policy, PolicyError* error) {
  Policy parsed;
  if (!Parser(text).parse(&parsed, error)) return false;
  if (!parsed.unlimited) parsed.text = canonical_text(parsed.bucket);
  *policy = std::move(parsed);
  return true;
}

bool make_policy(std::int64_t capacity, std::int64_t tokens, Micros period, Policy* policy,
                 PolicyError* error) {
  Policy made;
  if (TokenBucket::make(capacity, tokens, period, &made.bucket, &error->message) !=
      RangeFault::kNone) {
    error->position = PolicyError::kNowhere;
    return false;
  }
  made.text = canonical_text(made.bucket);
  *policy = std::move(made);
  return true;
}

}  // namespace saqiya

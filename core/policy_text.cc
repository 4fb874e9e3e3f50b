// Reads policies from text.
#include "core/policy_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

namespace saqiya {
namespace {

__extension__ using Wide = __int128;

struct AlgorithmWord {
  std::string_view name;
  Algorithm algorithm;
  bool is_leaky = false;
};

constexpr std::array<AlgorithmWord, 7> kAlgorithmWords = {{
    {"token-bucket", Algorithm::kTokenBucket},
    {"leaky-bucket", Algorithm::kTokenBucket, true},
    {"fixed-window", Algorithm::kFixedWindow},
    {"sliding-window", Algorithm::kSlidingWindow},
    {"sliding-log", Algorithm::kSlidingLog},
    {"calendar", Algorithm::kCalendar},
    {"concurrency", Algorithm::kConcurrency},
}};

struct CalendarUnitWord {
  Calendar::Unit unit;
  std::array<std::string_view, 3> names;
};

constexpr std::array<CalendarUnitWord, 4> kCalendarUnits = {{
    {Calendar::Unit::kDay, {"d", "day", "days"}},
    {Calendar::Unit::kWeek, {"w", "week", "weeks"}},
    {Calendar::Unit::kMonth, {"month", "months"}},
    {Calendar::Unit::kYear, {"year", "years"}},
}};

// What may follow a rule's rate, once each, in any order.
struct OptionWord {
  std::string_view name;
  RuleField field;
  Algorithm algorithm;  // the one it goes with
};

constexpr std::array<OptionWord, 5> kOptions = {{
    {"burst", RuleField::kCapacity, Algorithm::kTokenBucket},
    {"queue", RuleField::kQueue, Algorithm::kTokenBucket},
    {"anchor", RuleField::kAnchor, Algorithm::kCalendar},
    {"tz", RuleField::kZone, Algorithm::kCalendar},
    {"ttl", RuleField::kPeriod, Algorithm::kConcurrency},
}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }
bool is_separator(char c) { return c == ';' || c == ',' || c == '|'; }
bool is_zone_character(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '+' || c == '-' || c == '/';
}

// A list of words with an empty rest.
template <std::size_t kSize>
bool contains(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return !name.empty() && std::find(names.begin(), names.end(), name) != names.end();
}

class Parser {
 public:
  Parser(std::string_view text, PolicyError* error) : text_(text), error_(error) { skip_space(); }

  bool parse(Policy* policy) {
    if (word() == "unlimited") return unlimited(policy);
    PolicyBuilder builder;
    for (;;) {
      if (builder.size() > 0 && word() == "unlimited") return fail(at_, kUnlimitedAlone);
      if (!rule(&builder)) return false;
      if (at_end()) break;
      if (builder.size() == kMaxRules) return fail(at_, "a policy has at most 8 rules");
      skip(1);  // the separator
      if (at_end()) return fail(at_, "expected a rule after the separator");
    }
    *policy = builder.finish();
    return true;
  }

 private:
  static constexpr char kUnlimitedAlone[] = "\"unlimited\" does not go together with other rules";

  // Where the fields of the rule at hand stand.
  std::size_t& position(RuleField field) { return positions_[static_cast<std::size_t>(field)]; }

  bool fail(std::size_t position, std::string message) {
    *error_ = {position, std::move(message)};
    return false;
  }

  // -- Tokens -----------------------------------------------------------------------------------

  bool at_end() const { return at_ == text_.size(); }

  void skip_space() {
    while (!at_end() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }

  void skip(std::size_t bytes) {
    at_ += bytes;
    skip_space();
  }

  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    skip(1);
    return true;
  }

  // The word at the position, lower case, without moving: letters and hyphens.
  std::string word() const {
    std::string out;
    for (std::size_t i = at_; i < text_.size() && (is_letter(text_[i]) || text_[i] == '-'); ++i) {
      out.push_back(lower(text_[i]));
    }
    return out;
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

  bool count(std::int64_t* value, const char* expected = "expected a count, such as 100") {
    const std::size_t start = at_;
    Wide wide = 0;
    if (!digits(&wide)) return fail(start, expected);
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
    const std::string name = word();
    const auto* unit = std::find_if(kTimeUnits.begin(), kTimeUnits.end(),
                                    [&name](const TimeUnit& u) { return contains(u.names, name); });
    if (unit == kTimeUnits.end()) {
      if (name == "month" || name == "months" || name == "year" || name == "years") {
        return fail(at_,
                    "months and years differ in length: use \"calendar:\" or a number of "
                    "days, such as 30d");
      }
      return fail(at_, "expected a unit: us, ms, s, min, h, d or w");
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

  bool per() {
    if (take('/')) return true;
    if (word() != "per") return fail(at_, "expected '/' or \"per\" after the count");
    skip(3);
    return true;
  }

  // -- Rules ------------------------------------------------------------------------------------

  bool unlimited(Policy* policy) {
    skip(std::string_view("unlimited").size());
    if (!at_end()) {
      return fail(at_,
                  is_separator(text_[at_]) ? kUnlimitedAlone : "expected the end of the policy");
    }
    *policy = Policy{};
    policy->text = "unlimited";
    return true;
  }

  // Up to the end or a separator, which is not taken.
  bool rule(PolicyBuilder* builder) {
    RuleSpec spec;
    positions_.fill(at_);
    bool is_leaky = false;
    if (!algorithm(&spec, &is_leaky)) return false;
    position(RuleField::kCapacity) = position(RuleField::kTokens) = at_;
    if (!count(&spec.capacity)) return false;
    if (!rate(&spec)) return false;
    const bool has_burst = seen(RuleField::kCapacity);
    if (is_leaky && !has_burst && seen(RuleField::kQueue)) {
      spec.capacity = std::min<std::int64_t>(spec.capacity, 1);  // as a queue: nobody overtakes
    }
    RuleFault fault;
    if (builder->add(spec, &fault)) return true;
    return fail(position(fault.field), std::move(fault.message));
  }

  bool algorithm(RuleSpec* spec, bool* is_leaky) {
    seen_.fill(false);
    const std::string name = word();
    if (name.empty()) return true;
    const auto* found = std::find_if(kAlgorithmWords.begin(), kAlgorithmWords.end(),
                                     [&name](const AlgorithmWord& a) { return a.name == name; });
    if (found == kAlgorithmWords.end()) {
      return fail(at_,
                  "expected a count, such as 100/minute, or an algorithm: token-bucket, "
                  "leaky-bucket, fixed-window, sliding-window, sliding-log, calendar or "
                  "concurrency");
    }
    spec->algorithm = found->algorithm;
    *is_leaky = found->is_leaky;
    skip(name.size());
    if (!take(':')) return fail(at_, "expected ':' after the algorithm");
    return true;
  }

  // What follows the count.
  bool rate(RuleSpec* spec) {
    if (spec->algorithm == Algorithm::kConcurrency) {
      if (word() != "ttl") {
        return fail(at_, "expected \"ttl\" and how long a lease lives, such as ttl 30s");
      }
    } else {
      if (!per()) return false;
      position(RuleField::kPeriod) = position(RuleField::kUnit) = at_;
      const bool is_calendar = spec->algorithm == Algorithm::kCalendar;
      if (!(is_calendar ? calendar_unit(spec) : period(&spec->period))) return false;
    }
    if (spec->algorithm == Algorithm::kTokenBucket) spec->tokens = spec->capacity;
    for (;;) {
      const std::string name = word();
      const auto* option = std::find_if(kOptions.begin(), kOptions.end(),
                                        [&name](const OptionWord& o) { return o.name == name; });
      if (option == kOptions.end()) return rule_end(*spec);
      if (option->algorithm != spec->algorithm) {
        return fail(at_, '"' + name + "\" does not go with " +
                             std::string(algorithm_name(spec->algorithm)) + ": expected the end");
      }
      if (option->field == RuleField::kAnchor && spec->unit != Calendar::Unit::kMonth) {
        return fail(at_, "only months have an anchor day: expected the end");
      }
      if (seen(option->field)) {
        return fail(at_, '"' + name + "\" is given twice: expected the end");
      }
      skip(name.size());
      seen_[static_cast<std::size_t>(option->field)] = true;
      position(option->field) = at_;
      if (!option_value(option->field, spec)) return false;
    }
  }

  bool seen(RuleField field) const { return seen_[static_cast<std::size_t>(field)]; }

  bool option_value(RuleField field, RuleSpec* spec) {
    switch (field) {
      case RuleField::kCapacity:
        return count(&spec->capacity);
      case RuleField::kQueue:
        return count(&spec->queue);
      case RuleField::kAnchor:
        return anchor(spec);
      case RuleField::kZone:
        return zone(spec);
      default:
        return time_to_live(spec);
    }
  }

  bool calendar_unit(RuleSpec* spec) {
    const std::string name = word();
    for (const CalendarUnitWord& unit : kCalendarUnits) {
      if (!contains(unit.names, name)) continue;
      spec->unit = unit.unit;
      skip(name.size());
      return true;
    }
    const bool is_number = !at_end() && is_digit(text_[at_]);
    return fail(at_, is_number ? "a calendar counts by one day, week, month or year: for several "
                                 "use fixed-window"
                               : "expected day, week, month or year");
  }

  bool anchor(RuleSpec* spec) {
    const std::size_t start = at_;
    std::int64_t day = 0;
    if (!count(&day, "expected a day of the month, 1 to 31")) return false;
    if (day < 1 || day > 31) return fail(start, "the anchor must be a day of the month, 1 to 31");
    spec->anchor = static_cast<int>(day);
    return true;
  }

  // Whether there is such a zone is found out when the rule is made.
  bool zone(RuleSpec* spec) {
    const std::size_t start = at_;
    while (!at_end() && is_zone_character(text_[at_])) ++at_;
    if (at_ == start) {
      return fail(start, "expected the name of a time zone, such as Africa/Cairo or UTC");
    }
    spec->zone = text_.substr(start, at_ - start);
    skip_space();
    return true;
  }

  bool time_to_live(RuleSpec* spec) {
    if (at_end() || !is_digit(text_[at_])) {
      return fail(at_, "expected how long a lease lives, such as 30s");
    }
    return period(&spec->period);
  }

  bool rule_end(const RuleSpec& spec) {
    if (at_end() || is_separator(text_[at_])) return true;
    std::string expected = "expected ";
    for (const OptionWord& option : kOptions) {
      if (option.algorithm != spec.algorithm || seen(option.field)) continue;
      expected += '"' + std::string(option.name) + "\", ";
    }
    return fail(at_, expected + "';' and another rule, or the end of the policy");
  }

  std::string_view text_;
  PolicyError* error_;
  std::size_t at_ = 0;
  std::array<std::size_t, kRuleFields> positions_{};
  std::array<bool, kRuleFields> seen_{};  // options of the rule at hand
};

}  // namespace

bool parse_policy(std::string_view text, Policy* policy, PolicyError* error) {
  return Parser(text, error).parse(policy);
}

}  // namespace saqiya

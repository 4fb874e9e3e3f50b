#include "core/rate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "core/policy_text.h"

namespace saqiya {
namespace {

__extension__ using Wide = __int128;

constexpr std::size_t kSecond = 4;
static_assert(kTimeUnits[kSecond].micros == kMicrosPerSecond);

struct AlgorithmName {
  Algorithm algorithm;
  char letter;  // in key names
  std::string_view name;
};

constexpr std::array<AlgorithmName, 6> kAlgorithms = {{
    {Algorithm::kTokenBucket, 'b', "token-bucket"},
    {Algorithm::kFixedWindow, 'f', "fixed-window"},
    {Algorithm::kSlidingWindow, 'w', "sliding-window"},
    {Algorithm::kSlidingLog, 'l', "sliding-log"},
    {Algorithm::kCalendar, 'c', "calendar"},
    {Algorithm::kConcurrency, 'n', "concurrency"},
}};

// Null for a number that is no algorithm.
const AlgorithmName* find_algorithm(Algorithm algorithm) {
  const auto* found =
      std::find_if(kAlgorithms.begin(), kAlgorithms.end(),
                   [algorithm](const AlgorithmName& a) { return a.algorithm == algorithm; });
  return found == kAlgorithms.end() ? nullptr : found;
}

// -- Canonical text ---------------------------------------------------------------------------

// In the largest unit that divides it: "15min", "1s" or, with short_one, "s".
std::string period_text(Micros period, bool short_one) {
  const auto* unit = std::find_if(kTimeUnits.begin(), kTimeUnits.end(),
                                  [period](const TimeUnit& u) { return period % u.micros == 0; });
  const Micros multiple = period / unit->micros;
  return (multiple == 1 && short_one ? "" : std::to_string(multiple)) + std::string(unit->symbol);
}

std::string rate_text(std::int64_t count, Micros period) {
  return std::to_string(count) + "/" + period_text(period, true);
}

// A whole count per the smallest unit from a second up: "5/s". Empty when there is none.
std::string per_unit_text(const TokenBucket& rule) {
  for (std::size_t i = kSecond + 1; i-- > 0;) {
    const Wide units = Wide{kTimeUnits[i].micros} * rule.tokens;
    if (units % rule.period == 0 && units / rule.period <= kMaxCount) {
      return rate_text(static_cast<std::int64_t>(units / rule.period), kTimeUnits[i].micros);
    }
  }
  return {};
}

std::string bucket_text(const std::string& rate, const TokenBucket& rule) {
  const std::string queue = rule.queue > 0 ? " queue " + std::to_string(rule.queue) : "";
  return rate + " burst " + std::to_string(rule.capacity) + queue;
}

// A bucket that is its policy's only rule: of the reduced numbers ("2/7s") and a whole count per
// unit the shorter; a whole count per unit when they are as long. An unnamed policy is named by a
// digest of this text, so it must never change.
std::string single_bucket_text(const TokenBucket& rule) {
  const std::string reduced = rate_text(rule.tokens, rule.period);
  const std::string per_unit = per_unit_text(rule);
  const bool take_reduced = per_unit.empty() || reduced.size() < per_unit.size();
  return bucket_text(take_reduced ? reduced : per_unit, rule);
}

std::string rule_text(const Rule& rule) {
  const RuleSpec spec = to_spec(rule);
  const std::string head = std::string(algorithm_name(rule.algorithm)) + ": ";
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      return bucket_text(rate_text(spec.tokens, spec.period), rule.bucket);
    case Algorithm::kConcurrency:
      return head + std::to_string(spec.capacity) + " ttl " + period_text(spec.period, false);
    case Algorithm::kCalendar:
      return head + std::to_string(spec.capacity) + "/" + std::string(unit_name(spec.unit)) +
             (spec.anchor > 1 ? " anchor " + std::to_string(spec.anchor) : "") + " tz " + spec.zone;
    case Algorithm::kFixedWindow:
    case Algorithm::kSlidingWindow:
    case Algorithm::kSlidingLog:
      break;
  }
  return head + rate_text(spec.capacity, spec.period);
}

// -- Checks -----------------------------------------------------------------------------------

bool fail(RuleFault* fault, RuleField field, std::string message) {
  *fault = {field, std::move(message)};
  return false;
}

// A number that the algorithm does not use must be 0: nothing is ignored.
bool check_unused(const RuleSpec& spec, RuleFault* fault) {
  const bool is_bucket = spec.algorithm == Algorithm::kTokenBucket;
  const bool is_calendar = spec.algorithm == Algorithm::kCalendar;
  const std::string does_not =
      std::string(" does not go with ") + std::string(algorithm_name(spec.algorithm));
  if (!is_bucket && spec.tokens != 0) {
    return fail(fault, RuleField::kTokens, "a number of tokens" + does_not);
  }
  if (!is_bucket && spec.queue != 0) return fail(fault, RuleField::kQueue, "a queue" + does_not);
  if (is_calendar && spec.period != 0) {
    return fail(fault, RuleField::kPeriod, "a period" + does_not);
  }
  if (is_calendar) return true;
  if (spec.unit != Calendar::Unit{}) {
    return fail(fault, RuleField::kUnit, "a calendar unit" + does_not);
  }
  if (spec.anchor != 0) return fail(fault, RuleField::kAnchor, "an anchor day" + does_not);
  if (!spec.zone.empty()) return fail(fault, RuleField::kZone, "a time zone" + does_not);
  return true;
}

bool make_bucket(const RuleSpec& spec, Rule* rule, RuleFault* fault) {
  rule->period = spec.period;
  switch (TokenBucket::make(spec.capacity, spec.tokens, spec.period, spec.queue, &rule->bucket,
                            &fault->message)) {
    case RangeFault::kNone:
      return true;
    case RangeFault::kTokens:
      fault->field = RuleField::kTokens;
      break;
    case RangeFault::kPeriod:
      fault->field = RuleField::kPeriod;
      break;
    case RangeFault::kQueue:
      fault->field = RuleField::kQueue;
      break;
    case RangeFault::kCapacity:
    case RangeFault::kSpan:
      fault->field = RuleField::kCapacity;
      break;
  }
  return false;
}

bool check_limit(const RuleSpec& spec, RuleFault* fault) {
  if (spec.capacity < 0) {
    return fail(fault, RuleField::kCapacity, "the limit must not be negative");
  }
  const bool is_sliding =
      spec.algorithm == Algorithm::kSlidingWindow || spec.algorithm == Algorithm::kSlidingLog;
  if (spec.algorithm == Algorithm::kConcurrency && spec.capacity > kMaxLeases) {
    return fail(fault, RuleField::kCapacity, "the limit of concurrency must be at most 65535");
  }
  if (is_sliding && spec.capacity > kMaxSlidingLimit) {
    return fail(fault, RuleField::kCapacity,
                "the limit of a " + std::string(algorithm_name(spec.algorithm)) +
                    " must be at most 4294967295 (2^32 - 1)");
  }
  if (spec.capacity > kMaxCount) {
    return fail(fault, RuleField::kCapacity,
                "the limit must be at most 9007199254740991 (2^53 - 1)");
  }
  return true;
}

bool check_period(const RuleSpec& spec, RuleFault* fault) {
  const bool is_ttl = spec.algorithm == Algorithm::kConcurrency;
  const std::string what = is_ttl ? "the time to live" : "the period";
  if (spec.period < 1) {
    return fail(fault, RuleField::kPeriod, what + " must be at least 1 microsecond");
  }
  const bool is_list = is_ttl || spec.algorithm == Algorithm::kSlidingLog;
  if (is_list && spec.period > kMaxListPeriod) {
    return fail(fault, RuleField::kPeriod,
                what + (is_ttl ? "" : " of a sliding-log") +
                    " must be at most 140737488355328 us (2^47, 4.4 years)");
  }
  if (spec.period > kMaxSpan) return fail(fault, RuleField::kPeriod, kPeriodTooLong);
  return true;
}

bool make_calendar(const RuleSpec& spec, Rule* rule, RuleFault* fault) {
  Calendar::Fault which{};
  rule->calendar = Calendar::make(spec.unit, spec.zone.empty() ? "UTC" : spec.zone,
                                  spec.anchor == 0 ? 1 : spec.anchor, &fault->message, &which);
  fault->field = which == Calendar::Fault::kUnit     ? RuleField::kUnit
                 : which == Calendar::Fault::kAnchor ? RuleField::kAnchor
                                                     : RuleField::kZone;
  return rule->calendar != nullptr;
}

bool make_rule(const RuleSpec& spec, Rule* rule, RuleFault* fault) {
  if (find_algorithm(spec.algorithm) == nullptr) {
    return fail(fault, RuleField::kRule, "the algorithm is not known");
  }
  if (!check_unused(spec, fault)) return false;
  rule->algorithm = spec.algorithm;
  if (rule->is_bucket()) return make_bucket(spec, rule, fault);
  if (!check_limit(spec, fault)) return false;
  rule->limit = spec.capacity;
  if (spec.algorithm == Algorithm::kCalendar) return make_calendar(spec, rule, fault);
  rule->period = spec.period;
  return check_period(spec, fault);
}

// The state of a rule is found by its algorithm and this.
std::string period_name(const Rule& rule) {
  if (rule.algorithm == Algorithm::kConcurrency) return {};
  if (rule.algorithm == Algorithm::kCalendar) return std::string(unit_name(rule.calendar->unit()));
  return period_text(rule.period, false);
}

}  // namespace

std::string_view algorithm_name(Algorithm algorithm) { return find_algorithm(algorithm)->name; }

std::string rule_name(const Policy& policy, std::size_t rule) {
  const Rule& named = policy.rules[rule];
  const std::string letter(1, find_algorithm(named.algorithm)->letter);
  return policy.rules.size() == 1 ? letter : letter + period_name(named);
}

RuleSpec to_spec(const Rule& rule) {
  RuleSpec spec;
  spec.algorithm = rule.algorithm;
  spec.capacity = rule.capacity();
  spec.period = rule.period;
  if (rule.is_bucket()) {
    // What was written is a multiple of the reduced numbers, but for "0/min", which is no rate.
    const TokenBucket& bucket = rule.bucket;
    const bool no_rate = bucket.capacity == 0 && bucket.tokens == 1 && bucket.period == 1;
    if (!no_rate) {
      spec.tokens = static_cast<std::int64_t>(Wide{rule.period} * bucket.tokens / bucket.period);
    }
    spec.queue = bucket.queue;
  } else if (rule.calendar != nullptr) {
    spec.unit = rule.calendar->unit();
    spec.anchor = rule.calendar->anchor();
    spec.zone = rule.calendar->zone();
  }
  return spec;
}

bool PolicyBuilder::add(const RuleSpec& spec, RuleFault* fault) {
  Rule rule;
  if (!make_rule(spec, &rule, fault)) return false;
  for (std::size_t i = 0; i < policy_.rules.size(); ++i) {
    const Rule& other = policy_.rules[i];
    if (other.algorithm != rule.algorithm || period_name(other) != period_name(rule)) continue;
    const std::string period = period_name(rule);
    return fail(fault, RuleField::kRule,
                "rule " + std::to_string(i + 1) + " is a " +
                    std::string(algorithm_name(rule.algorithm)) +
                    (period.empty() ? " rule" : " rule of the same period") +
                    " already: a policy can have one");
  }
  policy_.rules.push_back(std::move(rule));
  return true;
}

Policy PolicyBuilder::finish() {
  std::vector<Rule>& rules = policy_.rules;
  if (rules.size() == 1 && rules.front().is_bucket()) {
    Rule& only = rules.front();
    only.period =
        only.bucket.period;  // its key has no period, its text need not be the one written
    policy_.text = single_bucket_text(only.bucket);
  } else {
    for (const Rule& rule : rules) {
      policy_.text += (policy_.text.empty() ? "" : "; ") + rule_text(rule);
    }
  }
  return std::move(policy_);
}

bool make_policy(std::span<const RuleSpec> specs, Policy* policy, PolicyError* error) {
  error->position = PolicyError::kNowhere;
  if (specs.empty() || specs.size() > kMaxRules) {
    error->message = "a policy has 1 to 8 rules";
    return false;
  }
  PolicyBuilder builder;
  RuleFault fault;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (builder.add(specs[i], &fault)) continue;
    const std::string which = specs.size() > 1 ? "rule " + std::to_string(i + 1) + ": " : "";
    error->message = which + fault.message;
    return false;
  }
  *policy = builder.finish();
  return true;
}

}  // namespace saqiya

// A token bucket that is slow and meant to be obviously right, for comparison with core's.
//
// Written from the rules in tests/vectors/README.md. Every instant and duration is one 128-bit
// count of 1/N microseconds (N: the refilled tokens of the rule), so that nothing is ever carried
// or rounded: cost * P is a duration, C * P the time to fill.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace saqiya::test {

__extension__ using Wide = __int128;

inline Wide floor_div(Wide a, Wide b) { return a / b - (a % b < 0 ? 1 : 0); }
inline Wide ceil_div(Wide a, Wide b) { return -floor_div(-a, b); }

struct ReferenceRule {
  std::int64_t capacity = 0;
  std::int64_t tokens = 1;  // N and P are reduced
  std::int64_t period = 1;
};

struct ReferenceDecision {
  int outcome = 0;  // as saqiya_outcome: 1 allowed, 2 denied, 3 never
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  std::int64_t retry_after = 0;
  std::int64_t reset_after = 0;
  std::int64_t delay = 0;
};

struct ReferenceTicket {
  bool charged = false;
  bool reservation = false;
  bool spent = false;
  Wide at = 0;  // in 1/n us
  Wide n = 1;
  std::int64_t cost = 0;
};

class ReferenceBucket {
 public:
  ReferenceDecision check(const ReferenceRule& rule, std::int64_t cost, std::int64_t now,
                          std::int64_t max_wait, ReferenceTicket* ticket) {
    return decide(rule, cost, now, max_wait, ticket, true);
  }

  ReferenceDecision peek(const ReferenceRule& rule, std::int64_t cost, std::int64_t now,
                         std::int64_t max_wait) {
    return decide(rule, cost, now, max_wait, nullptr, false);
  }

  ReferenceDecision refund(const ReferenceRule& rule, std::int64_t now, ReferenceTicket* ticket) {
    const Wide present = Wide{now} * rule.tokens;
    const Wide state = full_at(rule);
    const Wide charged_until = in_units(ticket->at, ticket->n, rule.tokens, ticket->reservation);
    const Wide give = std::min(Wide{ticket->cost} * rule.period, charged_until - present);
    const bool given = ticket->charged && !ticket->spent && stored_ && state > present &&
                       rule.capacity > 0 && give > 0 &&
                       (!ticket->reservation || state == charged_until);
    ticket->spent = true;
    if (given) {
      at_ = std::max(present, state - give);
      n_ = rule.tokens;
    }
    ReferenceDecision d;
    d.outcome = given ? 1 : 2;
    describe(rule, now, &d);
    return d;
  }

  bool stored() const { return stored_; }

 private:
  // An instant kept under another N: whole ones stay, others move to the whole microsecond after
  // (or before).
  static Wide in_units(Wide at, Wide from, Wide to, bool up) {
    if (from == to) return at;
    return (up ? ceil_div(at, from) : floor_div(at, from)) * to;
  }

  Wide full_at(const ReferenceRule& rule) const { return in_units(at_, n_, rule.tokens, true); }

  ReferenceDecision decide(const ReferenceRule& rule, std::int64_t cost, std::int64_t now,
                           std::int64_t max_wait, ReferenceTicket* ticket, bool charge) {
    ReferenceDecision d;
    describe(rule, now, &d);
    if (cost > rule.capacity || rule.capacity == 0) {
      d.outcome = 3;
      d.retry_after = std::numeric_limits<std::int64_t>::max();
      return d;
    }
    d.outcome = 1;
    if (cost == 0) return d;
    const Wide n = rule.tokens;
    const Wide present = now * n;
    const Wide state = stored_ ? std::max(present, full_at(rule)) : present;
    const Wide next = state + Wide{cost} * rule.period;
    const Wide early = next - Wide{rule.capacity} * rule.period - present;
    const Wide over = early - std::min(max_wait, std::int64_t{1} << 50) * n;
    if (over > 0) {
      d.outcome = 2;
      d.retry_after = static_cast<std::int64_t>(ceil_div(over, n));
      return d;
    }
    d.delay = static_cast<std::int64_t>(std::max<Wide>(0, ceil_div(early, n)));
    if (!charge) return d;
    stored_ = true;
    at_ = next;
    n_ = n;
    describe(rule, now, &d);
    if (ticket != nullptr) *ticket = {true, d.delay > 0, false, next, n, cost};
    return d;
  }

  void describe(const ReferenceRule& rule, std::int64_t now, ReferenceDecision* d) const {
    const Wide ahead = full_at(rule) - Wide{now} * rule.tokens;
    const Wide behind = stored_ ? std::max<Wide>(0, ahead) : 0;
    const Wide there = Wide{rule.capacity} * rule.period - behind;
    d->limit = rule.capacity;
    d->remaining = static_cast<std::int64_t>(std::max<Wide>(0, floor_div(there, rule.period)));
    d->reset_after = static_cast<std::int64_t>(ceil_div(behind, rule.tokens));
  }

  bool stored_ = false;
  Wide at_ = 0;  // in 1/n_ us
  Wide n_ = 1;
};

}  // namespace saqiya::test

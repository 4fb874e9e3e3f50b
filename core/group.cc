#include "core/group.h"

#include <algorithm>

#include "core/calendar.h"

namespace saqiya {
namespace {

__extension__ using Wide = __int128;

bool is_change(Op op) { return op == Op::kRefund || op == Op::kSettle || op == Op::kRenew; }
bool is_never(const Part& leader) {
  const std::int64_t capacity = leader.rule().capacity();
  return leader.total > capacity || capacity == 0;
}

// The order in which decisions bind: never before denied before allowed.
int rank(Outcome outcome) {
  if (outcome == Outcome::kNever) return 2;
  return outcome == Outcome::kDenied ? 1 : 0;
}

// Of what a limit of 0 allows all is left.
bool has_less_left(const Decision& a, const Decision& b) {
  const auto left = [](const Decision& d) { return Wide{d.limit == 0 ? 1 : d.remaining}; };
  const auto limit = [](const Decision& d) { return Wide{std::max<std::int64_t>(d.limit, 1)}; };
  return left(a) * limit(b) < left(b) * limit(a);
}

// Whether a binds rather than b, of the same request.
bool binds_more(const Decision& a, const Decision& b, Op op) {
  if (is_ask(op)) {
    if (rank(a.outcome) != rank(b.outcome)) return rank(a.outcome) > rank(b.outcome);
    if (a.outcome == Outcome::kNever) return false;
    if (a.outcome == Outcome::kDenied) return a.retry_after > b.retry_after;
  }
  return has_less_left(a, b);
}

bool same_rule(const Rule& a, const Rule& b) {
  if (a.algorithm != b.algorithm || a.capacity() != b.capacity()) return false;
  if (a.calendar != nullptr) {
    return a.calendar->unit() == b.calendar->unit() && a.calendar->zone() == b.calendar->zone() &&
           a.calendar->anchor() == b.calendar->anchor();
  }
  if (!a.is_bucket()) return a.period == b.period;
  return a.bucket.tokens == b.bucket.tokens && a.bucket.period == b.bucket.period &&
         a.bucket.queue == b.bucket.queue;
}

// Of equal items of one token bucket the first one's part is the last to come back, and so on:
// given back in order, they give what one ticket of all would.
void take_back(const Part& part, Ticket* ticket) {
  if (!part.rule().is_bucket()) return;
  const TokenBucket& bucket = part.rule().bucket;
  const Fraction instant =
      Units<false>{bucket.tokens}.sub({ticket->q, ticket->r}, bucket.cost_in_time(part.before));
  ticket->q = instant.q;
  ticket->r = instant.r;
}

// The same state in the store: the name of a rule and the subject are what a key is made of.
bool same_state(const Part& a, const Part& b) {
  return a.key == b.key &&
         a.limiter->identities()[a.rule_index] == b.limiter->identities()[b.rule_index];
}

}  // namespace

bool can_reserve(const Limiter& limiter) {
  const auto rules = limiter.rules();
  return std::all_of(rules.begin(), rules.end(), [](const Rule& r) { return r.is_bucket(); });
}

bool needs_lease(const Request& request) {
  const auto has_leases = [](const Limiter& limiter) {
    const auto rules = limiter.rules();
    return std::any_of(rules.begin(), rules.end(),
                       [](const Rule& rule) { return rule.algorithm == Algorithm::kConcurrency; });
  };
  if (request.op != Op::kCheck) return false;
  if (request.items.empty()) return has_leases(*request.limiter);
  return std::any_of(request.items.begin(), request.items.end(),
                     [&](const Item& item) { return has_leases(*item.limiter); });
}

Micros deadline_of(const Request& request) {
  if (request.items.empty()) return request.limiter->deadline();
  Micros shortest = kForever;
  for (const Item& item : request.items) shortest = std::min(shortest, item.limiter->deadline());
  return shortest;
}

void fail_request(const Request& request, Reason reason, Answer* answer) {
  if (is_plain(request)) {
    answer->decision = failed_decision(*request.limiter, request.op, request.cost, reason);
  } else {
    Group(request, 0).fail(reason, answer);
  }
}

bool check_items(std::span<const Item> items, std::string* why) {
  if (items.empty() || items.size() > kMaxItems) {
    *why = "there must be 1 to 16 items";
    return false;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (&items[i].limiter->store() != &items[0].limiter->store()) {
      *why = "the limiters must be of one store";
      return false;
    }
    for (std::size_t j = 0; j < i; ++j) {
      const Limiter& a = *items[i].limiter;
      const Limiter& b = *items[j].limiter;
      if (&a == &b || items[i].key != items[j].key) continue;
      for (std::size_t k = 0; k < a.rules().size(); ++k) {
        for (std::size_t l = 0; l < b.rules().size(); ++l) {
          if (a.identities()[k] == b.identities()[l] && !same_rule(a.rules()[k], b.rules()[l])) {
            *why = "two limiters of one name have different rules";
            return false;
          }
        }
      }
    }
  }
  return true;
}

Group::Group(const Request& request, std::uint64_t lease)
    : op_(request.op), each_(request.each), tickets_out_(request.tickets_out) {
  if (request.items.empty()) {
    add({request.limiter, request.key, request.cost}, 0, request);
  } else {
    std::size_t rules = 0;
    for (const Item& item : request.items) rules += item.limiter->rules().size();
    parts_.reserve(rules);
    for (std::uint32_t i = 0; i < request.items.size(); ++i) add(request.items[i], i, request);
  }
  if (!is_ask(op_)) return;
  const bool reserves = std::all_of(parts_.begin(), parts_.end(),
                                    [](const Part& part) { return part.rule().is_bucket(); });
  const Micros max_wait = reserves ? request.max_wait : std::min<Micros>(request.max_wait, 0);
  may_charge_ = op_ == Op::kCheck;
  for (std::uint32_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (!is_leader(i)) continue;
    part.ask = make_ask(part.rule(), part.total, max_wait, lease + i);
    if (is_never(part)) may_charge_ = false;
  }
}

void Group::add(const Item& item, std::uint32_t index, const Request& request) {
  const std::span<const Rule> rules = item.limiter->rules();
  if (rules.empty()) {  // unlimited
    if (!each_.empty()) {
      each_[rules_] = unlimited_decision(op_);
      each_[rules_].item = static_cast<std::int32_t>(index);
    }
    if (!tickets_out_.empty()) tickets_out_[rules_] = Ticket{};
    ++rules_;
    return;
  }
  for (std::uint32_t r = 0; r < rules.size(); ++r) {
    const auto self = static_cast<std::uint32_t>(parts_.size());
    Part part;
    part.limiter = item.limiter;
    part.rule_index = r;
    part.item = index;
    part.place = rules_++;
    part.key = item.key;
    part.cost = item.cost;
    part.total = item.cost;
    part.leader = self;
    part.last = self;
    if (!is_ask(op_)) {
      for (Part& earlier : parts_) {
        if (same_state(earlier, part)) earlier.last = self;
      }
    }
    if (is_change(op_) && !leaves_alone(op_, request.tickets[part.place], rules.size())) {
      const Ticket& ticket = request.tickets[part.place];
      part.possible =
          op_ == Op::kRenew
              ? make_renewal(rules[r], ticket, &part.change)
              : make_change(rules[r], ticket, op_ == Op::kSettle ? item.cost : 0, &part.change);
    } else if (is_ask(op_)) {
      for (std::uint32_t i = 0; i < self; ++i) {
        if (!is_leader(i) || !same_state(parts_[i], part)) continue;
        part.leader = i;
        part.before = parts_[i].total;
        parts_[i].total += item.cost;
        break;
      }
    }
    parts_.push_back(part);
  }
}

bool Group::all_fit() const {
  return may_charge_ && std::all_of(parts_.begin(), parts_.end(), [this](const Part& part) {
           return parts_[part.leader].seen.fits;
         });
}

void Group::report(const Part& part, const Decision& decision, const Ticket& ticket) const {
  if (!each_.empty()) each_[part.place] = decision;
  if (!tickets_out_.empty()) tickets_out_[part.place] = ticket;
}

void Group::finish(bool charged, std::uint64_t epoch, Answer* answer) const {
  Decision bound;
  Micros delay = 0;
  bool changed = false;
  for (const Part& part : parts_) {
    const Part& leader = parts_[part.leader];
    Decision d;
    Ticket ticket;
    if (is_ask(op_)) {
      decide(part.rule(), leader.total, leader.ask, leader.seen, leader.now, charged, &d);
      if (charged && part.cost > 0) {
        ticket = make_ticket(part.rule(), part.cost, leader.ask, leader.seen, leader.now, epoch);
        if (part.before > 0) take_back(part, &ticket);
      }
    } else {
      const Part& last = parts_[part.last];
      describe(part.rule(), last.seen, last.now, &d);
      const bool done = part.changed || op_ == Op::kReset;
      d.outcome = done ? Outcome::kAllowed : Outcome::kDenied;
      changed = changed || done;
    }
    d.rule = static_cast<std::int32_t>(part.rule_index);
    d.item = static_cast<std::int32_t>(part.item);
    delay = std::max(delay, d.delay);
    if (&part == &parts_.front() || binds_more(d, bound, op_)) bound = d;
    report(part, d, ticket);
    if (parts_.size() == 1 && rules_ == 1) answer->ticket = ticket;
  }
  if (parts_.empty()) bound = unlimited_decision(op_);
  if (!is_ask(op_) && changed) bound.outcome = Outcome::kAllowed;
  bound.delay = bound.outcome == Outcome::kAllowed ? delay : 0;
  answer->decision = bound;
}

void Group::fail(Reason reason, Answer* answer) const {
  Decision bound = unavailable(reason);
  for (const Part& part : parts_) {
    const bool never = is_ask(op_) && is_never(parts_[part.leader]);
    Decision d = never ? Decision{} : unavailable(reason);
    d.rule = static_cast<std::int32_t>(part.rule_index);
    d.item = static_cast<std::int32_t>(part.item);
    if (never) {
      d.outcome = Outcome::kNever;
      d.limit = part.rule().capacity();
      d.retry_after = kForever;
      if (bound.outcome != Outcome::kNever) bound = d;
    }
    report(part, d, Ticket{});
  }
  answer->decision = bound;
}

Group Group::subset(std::span<const std::uint32_t> leaders, bool may_charge) const {
  Group some(op_);
  some.may_charge_ = may_charge && may_charge_;
  some.parts_.reserve(leaders.size());
  for (const std::uint32_t leader : leaders) {
    Part& part = some.parts_.emplace_back(parts_[leader]);
    part.leader = some.rules_++;
    part.last = part.leader;
  }
  return some;
}

Group Group::give_back(std::uint64_t epoch) const {
  Group refund(Op::kRefund);
  for (const Part& part : parts_) {
    if (!is_leader(refund.rules_++)) continue;
    Ticket ticket;  // one that gives nothing, unless something was charged
    if (part.total > 0) {
      ticket = make_ticket(part.rule(), part.total, part.ask, part.seen, part.now, epoch);
    }
    Part& back = refund.parts_.emplace_back(part);
    back.leader = static_cast<std::uint32_t>(refund.parts_.size() - 1);
    back.last = back.leader;
    back.possible = make_change(part.rule(), ticket, 0, &back.change);
  }
  return refund;
}

}  // namespace saqiya

// A request of several parts, decided all or nothing: every rule of every item. Both stores use it.
// (A policy that is one token bucket takes shorter ways.)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/limiter.h"
#include "core/step.h"
#include "core/store.h"

namespace saqiya {

// One rule of one item.
struct Part {
  const Limiter* limiter = nullptr;
  std::uint32_t rule_index = 0;
  std::uint32_t item = 0;
  std::uint32_t place = 0;  // in `each` and `tickets_out`
  std::string_view key;
  std::int64_t cost = 0;  // what this part asks for
  // The part that asks the store: this one, or an earlier one with the same state, whose `total`
  // then holds this one's cost too.
  std::uint32_t leader = 0;
  std::int64_t before = 0;  // what the leader asked for before this part came
  // Of changes, which are made one after another: the last part with the same state, which sees
  // what is left in the end.
  std::uint32_t last = 0;

  // Of leaders:
  std::int64_t total = 0;
  Ask ask;                // check, peek
  Change change;          // refund, settle, renew
  bool possible = false;  // there is something to change
  // Filled by the store:
  Seen seen;             // check, peek: before the charge. Else: afterwards
  Micros now = 0;        // in the rule's clock
  bool changed = false;  // refund, settle, renew

  const Rule& rule() const { return limiter->rules()[rule_index]; }
};

class Group {
 public:
  // Keys and limiters are borrowed. Unlimited limiters have no part in it. lease: a random number,
  // from which those of leases are counted. May throw std::bad_alloc.
  Group(const Request& request, std::uint64_t lease);

  Op op() const { return op_; }
  std::span<Part> parts() { return parts_; }
  std::span<const Part> parts() const { return parts_; }
  bool is_leader(std::size_t i) const { return parts_[i].leader == i; }

  // False for a peek, and when some part can never pass: nothing will be charged.
  bool may_charge() const { return may_charge_; }
  // After the store has filled the leaders' `seen` in: what may be charged now is to be charged.
  bool all_fit() const;

  // Once the store has filled the leaders in. charged: all fitted and were charged. Writes to the
  // request's `each` and `tickets_out` too. *answer must be default.
  void finish(bool charged, std::uint64_t epoch, Answer* answer) const;
  // The store failed.
  void fail(Reason reason, Answer* answer) const;
  std::span<Decision> each() const { return each_; }
  std::span<Ticket> tickets_out() const { return tickets_out_; }
  // The request was cancelled, or its answer was given: its `each` and `tickets_out` are gone.
  void forget_outputs() {
    each_ = {};
    tickets_out_ = {};
  }
  // The same of some of the leaders only.
  Group subset(std::span<const std::uint32_t> leaders, bool may_charge) const;
  // The refund of all that this check charged; its parts are the leaders.
  Group give_back(std::uint64_t epoch) const;

 private:
  explicit Group(Op op) : op_(op) {}
  void add(const Item& item, std::uint32_t index, const Request& request);
  void report(const Part& part, const Decision& decision, const Ticket& ticket) const;

  Op op_;
  bool may_charge_ = false;
  std::vector<Part> parts_;
  std::uint32_t rules_ = 0;  // of all items so far, in `each` and `tickets_out`
  std::span<Decision> each_;
  std::span<Ticket> tickets_out_;
};

// Whether these items can be decided together: one store, at least one and at most kMaxItems, and
// no two limiters of one name with different rules on one key. *why says what is wrong.
bool check_items(std::span<const Item> items, std::string* why);

// Whether the request takes the short way of a single token bucket.
inline bool is_plain(const Request& request) {
  return request.items.empty() && request.limiter->is_bucket() && request.each.empty() &&
         request.tickets_out.empty() && request.op != Op::kSettle && request.op != Op::kRenew;
}

// Under several rules a settlement is not about how many run at once: it leaves the lease as it is,
// and its ticket unspent.
inline bool leaves_alone(Op op, const Ticket& ticket, std::size_t rules) {
  return op == Op::kSettle && rules > 1 &&
         ticket.algorithm == static_cast<std::uint32_t>(Algorithm::kConcurrency);
}

// Whether a Group of it wants a random number for leases.
bool needs_lease(const Request& request);

// How long a request may take: the shortest deadline of its limiters.
Micros deadline_of(const Request& request);

// The answer to any request when the store failed. Of bytes it may run out: std::bad_alloc.
void fail_request(const Request& request, Reason reason, Answer* answer);

// Whether a wait can be had by reservation: every rule is a token bucket.
bool can_reserve(const Limiter& limiter);

}  // namespace saqiya

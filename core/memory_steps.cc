#include "core/memory_steps.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "core/memory_words.h"
#include "core/step.h"
#include "core/token_bucket.h"

namespace saqiya {
namespace {

bool has_block(const Rule& rule) {
  return rule.algorithm == Algorithm::kSlidingLog || rule.algorithm == Algorithm::kConcurrency;
}

}  // namespace

void check_bucket(MemoryTable& table, const Clock* clock, const Request& request, Answer* answer) {
  const TokenBucket& rule = request.limiter->bucket();
  const Charge charge = request.limiter->charge(request.cost, request.max_wait);
  const bool peek = request.op == Op::kPeek;
  const Micros now = clock != nullptr ? clock->monotonic() : system_monotonic();
  const Hash128 key = keyed_hash(request.limiter->binding().hash_key, request.key);
  Fraction over;
  table.update<false>(key, false, now, [&](Words* words, Micros floor) {
    BucketState state{floor, 0, 0};
    if (words != nullptr && !words->is_absent()) state = {words->q, words->r, words->n};
    over = step(charge, rule.tokens, now, peek, &state);
    if (words != nullptr) *words = {state.q, state.r, state.n};
    return state.n != 0;
  });
  decide(rule, request.cost, charge, over, peek, &answer->decision);
  if ((request.want_ticket || !request.tickets_out.empty()) && !peek) {
    answer->ticket =
        make_ticket(rule, answer->decision, charge, over, request.cost, now, table.epoch());
  }
}

// The hash of what no other lease of this table has; a count of each thread's own, so that threads
// do not wait for one another.
std::uint64_t MemorySteps::new_lease() const {
  static std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t thread = threads.fetch_add(1, std::memory_order_relaxed);
  thread_local std::uint64_t count = 0;
  for (;;) {
    const std::array<std::uint64_t, 3> parts = {table_.epoch(), thread, ++count};
    const std::uint64_t lease =
        keyed_hash(secret_, {reinterpret_cast<const char*>(parts.data()), sizeof parts}).lo;
    // A group counts on from here: none of its numbers may be 0.
    if (lease != 0 && lease < UINT64_MAX - MemoryTable::Several::kMost) return lease;
  }
}

template <typename Apply>
void MemorySteps::update(const Rule& rule, const Hash128& key, Micros now, Apply&& apply) {
  const bool wall = rule.uses_wall_clock();
  if (has_block(rule)) {
    table_.update<true>(key, wall, now, apply);
  } else {
    table_.update<false>(key, wall, now, apply);
  }
}

void MemorySteps::execute(const Request& request, Answer* answer) {
  if (!request.items.empty() || request.limiter->rules().size() != 1) {
    execute_group(request, answer);
    return;
  }
  const Limiter& limiter = *request.limiter;
  switch (request.op) {
    case Op::kCheck:
    case Op::kPeek:
      if (limiter.is_bucket()) {
        check_bucket(table_, clock_, request, answer);
      } else {
        check_rule(request, answer);
      }
      break;
    case Op::kRefund:
    case Op::kSettle:
    case Op::kRenew:
      change_rule(limiter.rules()[0], hash(limiter, 0, request.key), request.op, request.tickets[0],
                  request.op == Op::kSettle ? request.cost : 0, &answer->decision);
      break;
    case Op::kReset:
      reset_rule(request, answer);
      break;
  }
  if (!request.each.empty()) request.each[0] = answer->decision;
  if (!request.tickets_out.empty()) request.tickets_out[0] = answer->ticket;
}

void MemorySteps::check_rule(const Request& request, Answer* answer) {
  const Rule& rule = request.limiter->rules()[0];
  const bool peek = request.op == Op::kPeek;
  const bool leases = rule.algorithm == Algorithm::kConcurrency && !peek;
  const Ask ask = make_ask(rule, request.cost, request.max_wait, leases ? new_lease() : 0);
  const Micros now = now_of(rule);
  Seen seen;
  bool charged = false;
  update(rule, hash(*request.limiter, 0, request.key), now, [&](Words* words, Micros floor) {
    State state = words != nullptr ? to_state(rule, *words) : State{};
    seen = look(rule, ask, state, now, floor);
    charged = !peek && ask.cost > 0 && seen.fits;
    if (!charged || words == nullptr) return charged;
    charge(rule, ask, seen, now, &state);
    *words = to_words(rule, state);
    return true;
  });
  decide(rule, request.cost, ask, seen, now, charged, &answer->decision);
  if (charged && (request.want_ticket || !request.tickets_out.empty())) {
    answer->ticket = make_ticket(rule, request.cost, ask, seen, now, table_.epoch());
  }
}

void MemorySteps::change_rule(const Rule& rule, const Hash128& key, Op op, const Ticket& ticket,
                              std::int64_t actual, Decision* decision) {
  Change change;
  const bool possible = ticket.epoch == table_.epoch() &&
                        (op == Op::kRenew ? make_renewal(rule, ticket, &change)
                                          : make_change(rule, ticket, actual, &change));
  const Micros now = now_of(rule);
  Seen seen;
  bool changed = false;
  update(rule, key, now, [&](Words* words, Micros floor) {
    State state = words != nullptr ? to_state(rule, *words) : State{};
    changed = possible && apply(rule, change, now, &state);
    if (changed && words != nullptr) *words = to_words(rule, state);
    seen = look(rule, {}, state, now, floor);
    return false;  // no entry is made
  });
  describe(rule, seen, now, decision);
  decision->outcome = changed ? Outcome::kAllowed : Outcome::kDenied;
}

void MemorySteps::reset_rule(const Request& request, Answer* answer) {
  const Rule& rule = request.limiter->rules()[0];
  table_.erase(hash(*request.limiter, 0, request.key));
  describe(rule, {}, now_of(rule), &answer->decision);
  answer->decision.outcome = Outcome::kAllowed;
}

void MemorySteps::take_back(const Request& request, const Answer& answer) {
  if (request.op != Op::kCheck) return;
  std::size_t place = 0;
  const auto item = [&](const Limiter& limiter, std::string_view key) {
    const std::span<const Rule> rules = limiter.rules();
    for (std::size_t r = 0; r < rules.size(); ++r) {
      Decision ignored;
      const bool several = !request.tickets_out.empty();
      change_rule(rules[r], hash(limiter, r, key), Op::kRefund,
                  several ? request.tickets_out[place + r] : answer.ticket, 0, &ignored);
    }
    place += std::max<std::size_t>(rules.size(), 1);  // an unlimited one has a place, too
  };
  if (request.items.empty()) item(*request.limiter, request.key);
  for (const Item& i : request.items) item(*i.limiter, i.key);
}

}  // namespace saqiya

#include "core/redis/across.h"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "core/redis/resp.h"
#include "core/redis/slots.h"

namespace saqiya::redis {
void Across::expect(std::uint64_t seq) {
  Call& call = calls_.at(seq);
  std::string_view keys = calls_.keys().at(call.key_at, call.key_size);
  if (call.key_count > 0) {
    std::string_view first = keys;
    call.slot = slot_of(take_bulk(&first));
  }
  if (call.key_count < 2) return;
  Plan plan;
  plan.seq = seq;
  std::uint64_t at = call.key_at;
  const std::span<const Part> parts = call.group->group.parts();
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    if (!call.group->group.is_leader(i)) continue;
    const std::size_t before = keys.size();
    const std::uint16_t slot = slot_of(take_bulk(&keys));
    const auto size = static_cast<std::uint32_t>(before - keys.size());
    auto share = std::find_if(plan.shares.begin(), plan.shares.end(),
                              [slot](const Share& s) { return s.slot == slot; });
    if (share == plan.shares.end()) share = plan.shares.insert(share, Share{slot, {}, {}});
    share->keys.push_back({i, at, size});
    share->refund.reserve(1);
    at += size;
  }
  if (plan.shares.size() < 2) return;
  // As many parts as there may be under way at once.
  std::size_t parts_at_once = plan.shares.size();
  for (const auto& [id, other] : plans_) parts_at_once += other.shares.size();
  calls_.parts_done().reserve(parts_at_once);
  plans_.emplace(++newest_, std::move(plan));
  call.parent = newest_;
}

void Across::begin(std::uint64_t seq) {
  Call& call = calls_.at(seq);
  const std::uint64_t id = std::exchange(call.parent, kNoCall);
  call.state = Call::State::kParent;
  next(id, &plans_.at(id));
}

std::uint64_t Across::add_part(std::uint64_t id, const Plan& plan, const Share& share, Group group,
                               Micros deadline) {
  const std::uint64_t seq = calls_.add_group(plan.seq, std::move(group), deadline, [&](Call* part) {
    for (const Key& key : share.keys) calls_.mutable_keys()->append_copy(key.at, key.size);
    part->key_size = static_cast<std::uint32_t>(calls_.keys().end() - part->key_at);
    part->key_count = static_cast<std::uint32_t>(share.keys.size());
  });
  Call& part = calls_.at(seq);
  part.state = Call::State::kSent;  // not to be freed before it is in a line
  part.slot = share.slot;
  part.parent = id;
  return seq;
}

// Once some slot has refused, the others are only looked at, so that the answer tells of every
// rule.
void Across::next(std::uint64_t id, Plan* plan) {
  const Call& call = calls_.at(plan->seq);
  const Share& share = plan->shares[plan->at];
  std::vector<std::uint32_t> leaders;
  std::uint64_t part = kNoCall;
  try {
    for (const Key& key : share.keys) leaders.push_back(key.leader);
    part = add_part(id, *plan, share, call.group->group.subset(leaders, !plan->refused),
                    call.deadline);
  } catch (const std::bad_alloc&) {
    fail(plan, Reason::kBusy);
    return conclude(id, plan);
  }
  send_(part);
}

void Across::fail(Plan* plan, Reason reason) {
  plan->failure = reason;
  plan->acted = plan->acted || !is_certainly_undone(reason);
}

void Across::take(Plan* plan, PartDone* done) {
  Share& share = plan->shares[plan->at];
  if (done->failure != Reason::kNone) return fail(plan, done->failure);
  Group& group = calls_.at(plan->seq).group->group;
  const std::span<const Part> parts = done->group->group.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Part& part = group.parts()[share.keys[i].leader];
    part.seen = parts[i].seen;
    part.now = parts[i].now;
    part.changed = parts[i].changed;
  }
  if (group.op() != Op::kCheck) {
    plan->acted = true;
    return;
  }
  if (done->answer.decision.outcome != Outcome::kAllowed) {
    plan->refused = true;
  } else if (done->group->group.may_charge()) {
    share.refund.push_back(done->group->group.give_back(kEpoch));
  }
}

void Across::go_on(Micros now) {
  // Handling one may add others.
  while (!calls_.parts_done().empty()) {
    PartDone done = std::move(calls_.parts_done().front());
    calls_.parts_done().erase(calls_.parts_done().begin());
    const auto at = plans_.find(done.parent);
    if (at == plans_.end()) continue;  // answered already
    Plan& plan = at->second;
    if (plan.giving_back > 0) {
      if (--plan.giving_back == 0) finish(at->first);
      continue;
    }
    try {
      take(&plan, &done);
    } catch (const std::bad_alloc&) {
      fail(&plan, Reason::kLost);  // its charge cannot be given back
    }
    const Call& call = calls_.at(plan.seq);
    ++plan.at;
    // A failed slot ends a check; changes are made wherever they can be. A cancelled check stops.
    const bool stop = (plan.failure != Reason::kNone && call.op == Op::kCheck) ||
                      (call.internal && call.op == Op::kCheck) || call.deadline <= now;
    if (plan.at < plan.shares.size() && call.deadline <= now && plan.failure == Reason::kNone) {
      plan.failure = Reason::kTimeout;
    }
    if (plan.at < plan.shares.size() && !stop) {
      next(at->first, &plan);
    } else {
      conclude(at->first, &plan);
    }
  }
}

// A check that was not charged everywhere is charged nowhere.
void Across::conclude(std::uint64_t id, Plan* plan) {
  const Call& call = calls_.at(plan->seq);
  const bool undo = plan->refused || plan->failure != Reason::kNone || call.internal;
  std::vector<std::uint64_t> refunds;
  if (undo) {
    const Micros deadline =
        std::max(call.deadline, system_monotonic() + call.group->held.front()->limiter->deadline());
    try {
      refunds.reserve(plan->shares.size());
      for (auto share = plan->shares.rbegin(); share != plan->shares.rend(); ++share) {
        if (share->refund.empty()) continue;
        refunds.push_back(add_part(id, *plan, *share, std::move(share->refund.front()), deadline));
      }
    } catch (const std::bad_alloc&) {
      // Then some of the charges stay.
    }
  }
  plan->giving_back = refunds.size();
  if (refunds.empty()) return finish(id);
  for (const std::uint64_t refund : refunds) send_(refund);
}

void Across::finish(std::uint64_t id) {
  const auto at = plans_.find(id);
  const Plan plan = std::move(at->second);
  plans_.erase(at);
  if (plan.failure != Reason::kNone) {
    // A change that was made in part must not look as if it could be tried again.
    const bool undone = is_certainly_undone(plan.failure);
    calls_.end(plan.seq, plan.acted && undone ? Reason::kLost : plan.failure);
  } else {
    Answer answer;
    const Group& group = calls_.at(plan.seq).group->group;
    group.finish(group.may_charge() && !plan.refused, kEpoch, &answer);
    calls_.answered(plan.seq, answer);
  }
  calls_.retire();
}

void Across::expire(Micros now) {
  while (true) {
    const auto late = std::find_if(plans_.begin(), plans_.end(), [&](const auto& plan) {
      return plan.second.giving_back > 0 && calls_.at(plan.second.seq).deadline <= now;
    });
    if (late == plans_.end()) return;
    finish(late->first);
  }
}

Micros Across::next_event() const {
  if (!calls_.parts_done().empty()) return 0;
  Micros next = kForever;
  for (const auto& [id, plan] : plans_) {
    if (plan.giving_back > 0) next = std::min(next, calls_.at(plan.seq).deadline);
  }
  return next;
}

void Across::end_all(Reason reason) {
  calls_.parts_done().clear();
  for (const auto& [id, plan] : plans_) calls_.end(plan.seq, reason);
  plans_.clear();
  calls_.retire();
}

}  // namespace saqiya::redis

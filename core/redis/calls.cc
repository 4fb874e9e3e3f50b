#include "core/redis/calls.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/key.h"
#include "core/random.h"
#include "core/redis/front.h"

namespace saqiya::redis {

Calls::Calls(std::shared_ptr<const Config> config, const QueueOptions& options)
    : config_(std::move(config)), options_(options) {}

// -- Limiters and keys ------------------------------------------------------------------------

HeldLimiter* Calls::hold(const Limiter& limiter) {
  if (last_held_ == nullptr || last_held_->limiter != &limiter) {
    std::unique_ptr<HeldLimiter>& slot = held_[&limiter];
    if (slot == nullptr) {
      slot = std::make_unique<HeldLimiter>();
      slot->limiter = &limiter;
    }
    HeldLimiter* const before = std::exchange(last_held_, slot.get());
    if (before != nullptr && before->open == 0) held_.erase(before->limiter);
  }
  if (last_held_->owner == nullptr) last_held_->owner = limiter.shared_from_this();
  return last_held_;
}

// The place of one idle limiter stays, of the one used last, so that steady use does not look it up
// anew; the limiter itself is let go, for it keeps its store, and the store may keep this engine.
// (Its address may then belong to another: that one is meant by it.)
void Calls::release(HeldLimiter* held) {
  if (--held->open > 0) return;
  if (held == last_held_) {
    held->owner.reset();
  } else {
    held_.erase(held->limiter);
  }
}

void Calls::release(Call* call) {
  if (call->group == nullptr) return release(call->held);
  for (HeldLimiter* const held : call->group->held) release(held);
  call->group.reset();
}

void Calls::append_key(const Limiter& limiter, std::size_t rule, std::string_view subject,
                       Call* call) {
  const Binding& binding = limiter.binding(rule);
  subject_.assign(binding.key_head);
  append_subject(subject, config_->hash_subjects, config_->secret, &subject_);
  subject_.append(binding.key_tail);
  append_bulk(subject_, keys_.bytes());
  call->key_size = static_cast<std::uint32_t>(keys_.end() - call->key_at);
}

// -- Coming -----------------------------------------------------------------------------------

void Calls::complete_at_once(std::uint64_t user_data, const Answer& answer) {
  completions_.reserve(open_ + 1);
  completions_.push() = {user_data, answer.decision, answer.ticket};
  ++open_;
}

Call& Calls::new_call(std::uint64_t user_data, Micros deadline) {
  Call& call = ring_.push();
  call.state = Call::State::kGone;
  call.key_at = keys_.end();
  call.key_size = 0;
  call.key_count = 1;
  call.group.reset();
  call.internal = false;
  call.asking = false;
  call.alone = false;
  call.turned = 0;
  call.parent = kNoCall;
  call.user_data = user_data;
  call.deadline = deadline;
  return call;
}

void Calls::prepare(const Request& request, Call* call) {
  if (!is_plain(request)) return prepare_group(request, call);
  prepare_call(request, call);
  append_key(*request.limiter, 0, request.key, call);
  call->held = hold(*request.limiter);
  ++call->held->open;
}

void Calls::prepare_group(const Request& request, Call* call) {
  const std::uint64_t lease = needs_lease(request) ? random_number() : 0;
  call->op = request.op;
  call->want_ticket = request.want_ticket;
  call->group = std::make_unique<GroupCall>(Group(request, lease));
  GroupCall& group = *call->group;
  group.is_single = request.items.empty();
  group.max_wait = request.max_wait;
  if (group.is_single) {
    group.items.push_back({request.limiter, {}, request.cost});
  } else {
    group.items.assign(request.items.begin(), request.items.end());
  }
  for (Item& item : group.items) item.key = {};  // it was borrowed
  const std::span<Part> parts = group.group.parts();
  group.held.reserve(parts.size() + group.items.size());
  if (!request.tickets.empty()) {  // those of another store's table change nothing here
    for (Part& part : parts) {
      part.possible = part.possible && request.tickets[part.place].epoch == kEpoch;
    }
  }
  call->key_count = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (group.group.is_leader(i)) {
      append_key(*parts[i].limiter, parts[i].rule_index, parts[i].key, call);
      ++call->key_count;
    }
    parts[i].key = {};
  }
  try {
    const auto keep = [&](const Limiter& limiter) {
      group.held.push_back(hold(limiter));
      ++group.held.back()->open;
    };
    for (const Part& part : parts) keep(*part.limiter);
    for (const Item& item : group.items) {  // unlimited ones have no part
      if (item.limiter->is_unlimited()) keep(*item.limiter);
    }
  } catch (...) {
    release(call);
    throw;
  }
}

std::uint64_t Calls::add(const Request& request, std::uint64_t user_data, Micros deadline) {
  completions_.reserve(open_ + 1);  // so that completing cannot fail
  Call& call = new_call(user_data, deadline);
  prepare(request, &call);
  return ring_.end() - 1;
}

void Calls::drop(std::uint64_t seq) {
  release(&at(seq));
  retire();
}

// Given back by a refund that nobody waits for.
std::uint64_t Calls::make_give_back(std::uint64_t seq, const Ticket& ticket) {
  if (const Call& call = at(seq); call.group != nullptr) {
    const Micros deadline = system_monotonic() + call.group->held.front()->limiter->deadline();
    // Its parts are the check's leaders, so its keys are the check's.
    return add_group(seq, call.group->group.give_back(kEpoch), deadline, [&](Call* refund) {
      const Call& check = at(seq);
      keys_.append_copy(check.key_at, check.key_size);
      refund->key_size = check.key_size;
      refund->key_count = check.key_count;
    });
  }
  if (ticket.n == 0) return kNoCall;
  HeldLimiter* const held = at(seq).held;
  Request request;
  request.op = Op::kRefund;
  request.limiter = held->limiter;
  request.tickets = {&ticket, 1};
  Call& refund = new_call(0, system_monotonic() + held->limiter->deadline());
  const Call& call = at(seq);
  prepare_call(request, &refund);
  refund.internal = true;
  refund.key_size = call.key_size;
  refund.slot = call.slot;
  keys_.append_copy(call.key_at, call.key_size);
  refund.held = held;
  ++held->open;
  return ring_.end() - 1;
}

// -- Lines ------------------------------------------------------------------------------------

void Calls::push(std::uint64_t seq, Line* line, std::uint64_t before, std::uint64_t after) {
  Call& call = at(seq);
  call.state = Call::State::kWaiting;
  call.line = line;
  call.previous = before;
  call.next = after;
  (before == kNoCall ? line->first : at(before).next) = seq;
  (after == kNoCall ? line->last : at(after).previous) = seq;
  ++line->size;
  line->deadline = std::min(line->deadline, call.deadline);
  line->longest = std::max(line->longest, call.deadline);
}

void Calls::remove(Call* call) {
  Line* const line = call->line;
  (call->previous == kNoCall ? line->first : at(call->previous).next) = call->next;
  (call->next == kNoCall ? line->last : at(call->next).previous) = call->previous;
  if (--line->size == 0) {
    line->deadline = kForever;
    line->longest = 0;
  }
}

void Calls::cut(Line* line, std::uint64_t last, std::size_t count) {
  line->first = std::exchange(at(last).next, kNoCall);
  line->size -= count;
  if (line->size > 0) {
    at(line->first).previous = kNoCall;
  } else {
    *line = Line();
  }
}

void Calls::end_line(Line* line, Reason reason) {
  while (!line->empty()) end(line->first, reason);
  retire();
}

void Calls::expire_line(Line* line, Micros now, Reason reason) {
  if (line->deadline > now) return;
  Micros earliest = kForever;
  for (std::uint64_t seq = line->first; seq != kNoCall;) {
    const Call& call = at(seq);
    const std::uint64_t next = call.next;
    if (call.deadline <= now) {
      end(seq, reason);
    } else {
      earliest = std::min(earliest, call.deadline);
    }
    seq = next;
  }
  line->deadline = earliest;
  retire();
}

// -- Going ------------------------------------------------------------------------------------

void Calls::fail(const Call& call, Reason reason, Answer* answer) {
  answer_without_server(*config_, call, keys_.at(call.key_at, call.key_size), reason, answer);
}

// The only place where completions are made.
void Calls::tell(const Call& call, const Answer& answer) {
  if (call.internal) return;
  Completion& completion = completions_.push();
  completion.user_data = call.user_data;
  completion.decision = answer.decision;
  completion.ticket = answer.ticket;
}

void Calls::complete(std::uint64_t seq, const Answer& answer) {
  Call& call = at(seq);
  const bool awaited = call.state != Call::State::kSwallowed && call.state != Call::State::kTold;
  if (call.state == Call::State::kWaiting) remove(&call);
  call.state = Call::State::kGone;
  if (call.parent != kNoCall && awaited) {
    for (HeldLimiter* const held : call.group->held) release(held);
    call.group->held.clear();
    parts_done_.push_back({call.parent, std::move(call.group), answer, Reason::kNone});
    return;
  }
  if (awaited) tell(call, answer);
  release(&call);
}

void Calls::answered(std::uint64_t seq, const Answer& answer) {
  const Call& call = at(seq);
  const bool awaited = call.state == Call::State::kSent || call.state == Call::State::kParent;
  if (awaited && !call.internal) config_->counters.count_answer(call.op, answer.decision.outcome);
  complete(seq, answer);
}

void Calls::end(std::uint64_t seq, Reason reason) {
  Call& call = at(seq);
  const bool awaited = call.state != Call::State::kSwallowed && call.state != Call::State::kTold;
  if (call.parent != kNoCall) {
    if (awaited) {
      parts_done_.push_back({call.parent, nullptr, {}, reason});
    }
    call.parent = kNoCall;
  }
  Answer answer;
  if (awaited && !call.internal) fail(call, reason, &answer);
  complete(seq, answer);
}

void Calls::tell_late(std::uint64_t seq) {
  Call& call = at(seq);
  if (call.parent != kNoCall) {
    parts_done_.push_back({call.parent, nullptr, {}, Reason::kTimeout});
    call.parent = kNoCall;
  } else {
    Answer late;
    fail(call, Reason::kTimeout, &late);
    tell(call, late);
  }
  call.state = Call::State::kTold;
  if (call.group != nullptr) call.group->group.forget_outputs();
}

bool Calls::cancel(std::uint64_t user_data) {
  for (std::uint64_t seq = ring_.end(); seq != ring_.begin();) {
    Call& call = at(--seq);
    if (call.user_data != user_data || call.internal) continue;
    if (call.state == Call::State::kSent || call.state == Call::State::kParent) {
      if (call.state == Call::State::kSent) call.state = Call::State::kSwallowed;
      if (call.state == Call::State::kParent) call.internal = true;
      call.want_ticket = true;
      if (call.group != nullptr) call.group->group.forget_outputs();
      --open_;
      return true;
    }
    if (call.state == Call::State::kWaiting) {
      remove(&call);
      call.state = Call::State::kGone;
      --open_;
      release(&call);
      retire();
      return true;
    }
  }
  return false;
}

// Frees the slots and keys of requests that are gone, from both ends.
void Calls::retire() {
  while (!ring_.empty() && ring_.front().state == Call::State::kGone) ring_.pop_front();
  while (!ring_.empty() && ring_.back().state == Call::State::kGone) {
    keys_.truncate(ring_.back().key_at);
    ring_.pop_back();
  }
  keys_.release(ring_.empty() ? keys_.end() : ring_.front().key_at);
}

std::size_t Calls::drain(std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), completions_.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = completions_.front();
    completions_.pop_front();
  }
  open_ -= count;
  return count;
}

void Calls::forget_completions() {
  completions_.clear();
  open_ = 0;
}

}  // namespace saqiya::redis

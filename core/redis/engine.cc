#include "core/redis/engine.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "core/key.h"
#include "core/random.h"

namespace saqiya::redis {
Engine::Engine(std::shared_ptr<const Config> config, const QueueOptions& options,
               bool hold_limiters)
    : config_(std::move(config)),
      options_(options),
      hold_limiters_(hold_limiters),
      connection_(*config_, epoll_.fd()),
      jitter_(static_cast<std::uint64_t>(system_monotonic()) ^
              reinterpret_cast<std::uintptr_t>(this)) {
  sent_.reserve(options_.in_flight + 1);
}

Engine::~Engine() = default;

void Engine::abandon() {
  connection_.abandon();
  epoll_.close();
}

Engine::Descriptor::Descriptor() : fd_(epoll_create1(EPOLL_CLOEXEC)) {}

void Engine::Descriptor::close() {
  if (const int fd = std::exchange(fd_, -1); fd >= 0) ::close(fd);
}

// -- Requests ---------------------------------------------------------------------------------

HeldLimiter* Engine::hold(const Limiter& limiter) {
  if (last_held_ != nullptr && last_held_->limiter == &limiter) return last_held_;
  std::unique_ptr<HeldLimiter>& slot = held_[&limiter];
  if (slot == nullptr) {
    slot = std::make_unique<HeldLimiter>();
    slot->limiter = &limiter;
    if (hold_limiters_) slot->owner = limiter.shared_from_this();
  }
  HeldLimiter* const before = std::exchange(last_held_, slot.get());
  if (before != nullptr && before->open == 0) held_.erase(before->limiter);
  return last_held_;
}

// One idle limiter stays, the one used last, so that steady use does not look it up anew. (When it
// is not held, its address may since belong to another: that one is then meant by it.)
void Engine::release(HeldLimiter* held) {
  if (--held->open == 0 && held != last_held_) held_.erase(held->limiter);
}

void Engine::release(Call* call) {
  if (call->group == nullptr) return release(call->held);
  for (HeldLimiter* const held : call->group->held) release(held);
  call->group.reset();
}

void Engine::append_key(const Limiter& limiter, std::size_t rule, std::string_view subject,
                        Call* call) {
  const Binding& binding = limiter.binding(rule);
  subject_.assign(binding.key_head);
  append_subject(subject, config_->hash_subjects, config_->secret, &subject_);
  subject_.append(binding.key_tail);
  append_bulk(subject_, keys_.bytes());
  call->key_size = static_cast<std::uint32_t>(keys_.end() - call->key_at);
}

void Engine::wait_in_line(Call* call) {
  call->state = Call::State::kWaiting;
  ++waiting_;
  waiting_deadline_ = std::min(waiting_deadline_, call->deadline);
  longest_deadline_ = std::max(longest_deadline_, call->deadline);
}

// Until all of it is there the slot counts as gone.
Call& Engine::new_call(std::uint64_t user_data, Micros deadline) {
  Call& call = calls_.push();
  call.state = Call::State::kGone;
  call.key_at = keys_.end();
  call.key_count = 1;
  call.group.reset();
  call.internal = false;
  call.user_data = user_data;
  call.deadline = deadline;
  return call;
}

void Engine::prepare(const Request& request, Call* call) {
  if (!is_plain(request)) return prepare_group(request, call);
  prepare_call(request, call);
  append_key(*request.limiter, 0, request.key, call);
  call->held = hold(*request.limiter);
  ++call->held->open;
}

void Engine::prepare_group(const Request& request, Call* call) {
  const std::uint64_t lease = needs_lease(request) ? random_number() : 0;
  call->op = request.op;
  call->group = std::make_unique<GroupCall>(GroupCall{Group(request, lease), {}, false});
  const std::span<Part> parts = call->group->group.parts();
  call->group->held.reserve(parts.size());
  if (!request.tickets.empty()) {  // those of another store's table change nothing here
    for (Part& part : parts) {
      part.possible = part.possible && request.tickets[part.place].epoch == kEpoch;
    }
  }
  call->key_count = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (call->group->group.is_leader(i)) {
      append_key(*parts[i].limiter, parts[i].rule_index, parts[i].key, call);
      ++call->key_count;
    }
    parts[i].key = {};  // it was borrowed
  }
  try {
    for (const Part& part : parts) {
      call->group->held.push_back(hold(*part.limiter));
      ++call->group->held.back()->open;
    }
  } catch (...) {
    release(call);
    throw;
  }
}

SubmitResult Engine::submit(const Request& request, std::uint64_t user_data, Micros deadline) {
  if (closed_) return SubmitResult::kClosed;
  // Cancelled requests do not count as open, but their slots are bounded, too.
  if (open_ >= options_.capacity || calls_.size() >= 2 * options_.capacity + 65536) {
    return SubmitResult::kFull;
  }
  const Micros now = system_monotonic();
  completions_.reserve(open_ + 1);  // so that completing cannot fail
  if (request.items.empty() && request.limiter->is_unlimited()) {
    completions_.push() = {user_data, unlimited_decision(request.op), {}};
    ++open_;
    return SubmitResult::kOk;
  }
  Call& call = new_call(user_data, deadline != 0 ? deadline : now + deadline_of(request));
  prepare(request, &call);
  ++open_;
  wait_in_line(&call);
  if (call.key_count == 0) {  // every item is unlimited
    Answer answer;
    call.group->group.finish(false, kEpoch, &answer);
    complete(&call, answer);
    retire();
    return SubmitResult::kOk;
  }
  if (!can_serve(now)) {
    end(&call, config_->back_off.reason);
    retire();
  } else if (waiting_ >= eager_batch() && may_send()) {
    // On a connection that was idle, see first that it still stands.
    if (sent_.empty()) receive(now);
    if (may_send()) {
      send_waiting();
      flush(now);
    }
  }
  return SubmitResult::kOk;
}

bool Engine::cancel(std::uint64_t user_data) {
  for (std::uint64_t seq = calls_.end(); seq != calls_.begin();) {
    Call& call = calls_.at(--seq);
    if (call.user_data != user_data || call.internal) continue;
    if (call.state == Call::State::kSent) {
      call.state = Call::State::kSwallowed;
      call.want_ticket = true;
      if (call.group != nullptr) call.group->group.forget_outputs();
      --open_;
      return true;
    }
    if (call.state == Call::State::kWaiting) {
      call.state = Call::State::kGone;
      --waiting_;
      --open_;
      release(&call);
      retire();
      return true;
    }
  }
  return false;
}

// The only place where completions are made.
void Engine::tell(const Call& call, const Answer& answer) {
  if (answer.decision.outcome == Outcome::kUnavailable) {
    Counters::add(config_->counters.failures, 1);
  }
  if (call.internal) return;
  Completion& completion = completions_.push();
  completion.user_data = call.user_data;
  completion.decision = answer.decision;
  completion.ticket = answer.ticket;
}

// Does not retire(): batches are walked meanwhile.
void Engine::complete(Call* call, const Answer& answer) {
  const bool awaited = call->state == Call::State::kWaiting || call->state == Call::State::kSent;
  if (call->state == Call::State::kWaiting) --waiting_;
  call->state = Call::State::kGone;
  if (awaited) tell(*call, answer);
  release(call);
}

void Engine::end(Call* call, Reason reason) {
  Answer answer;
  fail_call(*call, reason, &answer);
  complete(call, answer);
}

// Gives back what a cancelled request took, by a refund that nobody waits for.
void Engine::give_back(const Call& call, const Ticket& ticket) {
  Request request;
  request.op = Op::kRefund;
  request.limiter = call.held->limiter;
  request.tickets = {&ticket, 1};
  const std::uint64_t key_at = call.key_at;
  const std::uint32_t key_size = call.key_size;
  HeldLimiter* const held = call.held;
  Call& refund =
      new_call(0, system_monotonic() + held->limiter->deadline());  // `call` may have moved
  prepare_call(request, &refund);
  refund.internal = true;
  refund.key_size = key_size;
  keys_.append_copy(key_at, key_size);
  refund.held = held;
  ++held->open;
  wait_in_line(&refund);
}

// Its parts are the check's leaders, so its keys are the check's.
void Engine::give_back_group(const Call& call) {
  auto refund =
      std::make_unique<GroupCall>(GroupCall{call.group->group.give_back(kEpoch), {}, false});
  for (const Part& part : refund->group.parts()) refund->held.push_back(hold(*part.limiter));
  const std::uint64_t key_at = call.key_at;
  const std::uint32_t key_size = call.key_size;
  const std::uint32_t key_count = call.key_count;
  const Micros deadline = system_monotonic() + refund->held.front()->limiter->deadline();
  Call& back = new_call(0, deadline);  // `call` may have moved
  keys_.append_copy(key_at, key_size);
  for (HeldLimiter* const held : refund->held) ++held->open;
  back.op = Op::kRefund;
  back.group = std::move(refund);
  back.key_size = key_size;
  back.key_count = key_count;
  back.internal = true;
  wait_in_line(&back);
}

// Frees the slots and keys of requests that are gone, from both ends.
void Engine::retire() {
  while (!calls_.empty() && calls_.front().state == Call::State::kGone) calls_.pop_front();
  while (!calls_.empty() && calls_.end() > next_ && calls_.back().state == Call::State::kGone) {
    keys_.truncate(calls_.back().key_at);
    calls_.pop_back();
  }
  next_ = std::max(next_, calls_.begin());
  keys_.release(calls_.empty() ? keys_.end() : calls_.front().key_at);
}

// -- Time -------------------------------------------------------------------------------------

void Engine::end_waiting(Reason reason) {
  for (std::uint64_t seq = next_; seq != calls_.end(); ++seq) {
    Call& call = calls_.at(seq);
    if (call.state == Call::State::kWaiting) end(&call, reason);
  }
  next_ = calls_.end();
  waiting_deadline_ = kForever;
  longest_deadline_ = 0;
  retire();
}

// Each request ends at its own deadline. Replies come in order, so one that is late does not put
// the others' in doubt; but when the oldest batch has had all the time that its requests and the
// store allow, the server is not answering, and the connection goes.
void Engine::expire(Micros now) {
  if (!sent_.empty() && sent_.front().give_up_at <= now) lose_connection(Reason::kLost, now);
  bool expired = false;
  bool awaited = false;
  for (std::uint64_t i = sent_.begin(); i != sent_.end(); ++i) {
    Batch& batch = sent_.at(i);
    if (batch.deadline <= now) {
      expired = true;
      expire_sent(&batch, now);
    }
    awaited = awaited || batch.deadline != kForever;
  }
  // Who comes next had better not queue up behind answers that nobody waits for.
  if (expired && !awaited) lose_connection(Reason::kLost, now);
  expire_waiting(now);
}

void Engine::expire_sent(Batch* batch, Micros now) {
  Answer late;
  batch->deadline = kForever;
  for (std::uint64_t seq = first_of(*batch); seq < batch->last; ++seq) {
    Call& call = calls_.at(seq);
    if (call.state != Call::State::kSent) continue;
    if (call.deadline > now) {
      batch->deadline = std::min(batch->deadline, call.deadline);
      continue;
    }
    fail_call(call, Reason::kTimeout, &late);
    tell(call, late);
    call.state = Call::State::kTold;
    if (call.group != nullptr) call.group->group.forget_outputs();
  }
}

void Engine::expire_waiting(Micros now) {
  if (waiting_deadline_ > now) return;
  // Never sent, so never charged.
  Reason reason = Reason::kConnect;
  if (connection_.state() == Connection::State::kResolving) reason = Reason::kResolve;
  if (connection_.is_ready()) reason = Reason::kBusy;
  waiting_deadline_ = kForever;
  for (std::uint64_t seq = next_; seq != calls_.end(); ++seq) {
    Call& call = calls_.at(seq);
    if (call.state != Call::State::kWaiting) continue;
    if (call.deadline <= now) {
      end(&call, reason);
    } else {
      waiting_deadline_ = std::min(waiting_deadline_, call.deadline);
    }
  }
  retire();
}

void Engine::process() {
  if (closed_) return;
  open_before_ = open_;
  const Micros now = system_monotonic();
  // What has arrived counts, even when this call comes late.
  receive(now);
  // Twice, since a connection that turns out broken while sending is followed by a new one at once.
  for (int i = 0; i < 2; ++i) {
    connect_if_needed(now);
    expire(now);
    send_waiting();
    flush(now);
    if (connection_.is_ready() || waiting_ == 0) break;
  }
}

Micros Engine::timeout() const {
  if (!completions_.empty()) return 0;
  const bool opening = connection_.state() != Connection::State::kClosed;
  if (waiting_ > 0 && (!opening || may_send())) return 0;
  const Micros now = system_monotonic();
  Micros next = std::min(waiting_deadline_, connection_.next_event(now));
  for (std::uint64_t i = sent_.begin(); i != sent_.end(); ++i) {
    next = std::min(next, sent_.at(i).deadline);
  }
  if (!sent_.empty()) next = std::min(next, sent_.front().give_up_at);
  if (next == kForever) return -1;
  return std::max<Micros>(0, next - now);
}

std::size_t Engine::drain(std::span<Completion> out) {
  const std::size_t count = std::min(out.size(), completions_.size());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = completions_.front();
    completions_.pop_front();
  }
  open_ -= count;
  return count;
}

void Engine::wait(Micros max_wait) {
  Micros most = std::max<Micros>(0, max_wait);
  const Micros due = timeout();
  if (due >= 0) most = std::min(most, due);
  if (most == 0) return;
  // The socket itself is cheaper to watch than the epoll descriptor around it.
  pollfd p{connection_.is_ready() ? connection_.fd() : epoll_.fd(), POLLIN, 0};
  if (connection_.is_ready() && connection_.backlog() > 0) p.events |= POLLOUT;
  timespec time{};
  time.tv_sec = most / kMicrosPerSecond;
  time.tv_nsec = static_cast<long>(most % kMicrosPerSecond) * 1000;
  ppoll(&p, 1, &time, nullptr);
}

void Engine::close() {
  closed_ = true;
  connection_.stop();
  while (!sent_.empty()) {
    const Batch batch = sent_.front();
    sent_.pop_front();
    end_batch(batch, Reason::kCancelled);
  }
  end_waiting(Reason::kCancelled);
}

void Engine::end_all() {
  close();
  closed_ = false;
  completions_.clear();
  open_ = 0;
}

}  // namespace saqiya::redis

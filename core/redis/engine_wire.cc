// The engine's side towards the server: opening and losing connections, sending batches, taking
// replies.
#include <algorithm>
#include <new>
#include <utility>

#include "core/redis/engine.h"
#include "core/redis/error.h"

namespace saqiya::redis {
namespace {

constexpr Micros kFirstBackOff = 10'000;
constexpr Micros kLongestBackOff = 1'000'000;
// An attempt to connect is given up after this, whatever the requests would wait: packets that were
// lost on the way are not sent again for seconds.
constexpr Micros kLongestOpening = 3'000'000;
// What may lie unsent before no further batch is written.
constexpr std::size_t kMaxBacklog = std::size_t{1} << 20;

}  // namespace

// -- Connection -------------------------------------------------------------------------------

void Engine::connect_if_needed(Micros now) {
  if (connection_.state() == Connection::State::kClosed && waiting_ > 0) {
    if (!can_serve(now)) {
      end_waiting(config_->back_off.reason);
    } else {
      good_ = false;
      leaving_ = false;
      always_eval_ = false;
      const Micros wanted = std::max(now + config_->deadline, longest_deadline_);
      connection_.open(now, std::min(wanted, now + kLongestOpening));
    }
  }
  if (connection_.is_ready()) return;
  const bool opening = connection_.state() != Connection::State::kClosed;
  connection_.advance(now);
  if (connection_.is_ready()) {
    eval_first_ = !connection_.script_loaded();
  } else if (connection_.state() == Connection::State::kClosed && (opening || waiting_ > 0)) {
    connection_failed(connection_.failure(), now);
  }
}

// Back-off: 10 ms, doubling to 1 s, of which a random half is left out.
void Engine::connection_failed(Reason reason, Micros now) {
  BackOff& back_off = config_->back_off;
  const int failures = back_off.failures.fetch_add(1);
  const Micros longest = std::min(kFirstBackOff << std::min(failures, 10), kLongestBackOff);
  jitter_ = jitter_ * 6364136223846793005U + 1442695040888963407U;
  back_off.reason = reason;
  back_off.retry_at =
      now + longest / 2 +
      static_cast<Micros>((jitter_ >> 33) % static_cast<std::uint64_t>(longest / 2));
  end_waiting(reason);
}

// Whatever was written, even in part, may have run and is not sent again.
void Engine::lose_connection(Reason reason, Micros now) {
  const std::uint64_t written = connection_.sent();
  connection_.close();
  leaving_ = false;
  while (!sent_.empty()) {
    const Batch batch = sent_.front();
    sent_.pop_front();
    const bool unwritten = batch.begins_at >= written;
    for (std::uint64_t seq = first_of(batch); seq < batch.last; ++seq) {
      Call& call = calls_.at(seq);
      if (!call.is_in_batch()) continue;
      if (!unwritten) {
        end(&call, call.deadline <= now ? Reason::kTimeout : reason);
      } else if (call.deadline <= now) {
        end(&call, Reason::kBusy);
      } else if (call.state != Call::State::kSent) {
        end(&call, reason);
      } else {
        wait_in_line(&call);
        next_ = std::min(next_, seq);
      }
    }
  }
  retire();
  if (good_) {
    config_->back_off.failures = 0;
    config_->back_off.retry_at = now;
  } else {
    // What waits was never sent: for it there was no connection.
    const bool unknown = reason == Reason::kLost || reason == Reason::kProtocol;
    connection_failed(unknown ? Reason::kConnect : reason, now);
  }
}

void Engine::receive(Micros now) {
  while (connection_.is_ready()) {
    const Connection::Input input = connection_.receive();
    if (!take_replies(now)) return;
    if (leaving_ && sent_.empty()) {
      // Not a good connection, whatever it answered: the next one waits its turn.
      good_ = false;
      return lose_connection(leave_reason_, now);
    }
    if (input == Connection::Input::kClosed) return lose_connection(Reason::kLost, now);
    if (input == Connection::Input::kDone) return;
  }
}

// False when the connection had to be closed.
bool Engine::take_replies(Micros now) {
  bool any = false;
  while (true) {
    const ReplyReader::Result result = connection_.reader().next();
    if (result == ReplyReader::Result::kMore) break;
    if (result == ReplyReader::Result::kError || sent_.empty() ||
        !take_reply(connection_.reader().reply(), now)) {
      lose_connection(Reason::kProtocol, now);
      return false;
    }
    any = true;
  }
  if (any) retire();
  return true;
}

// Answers the oldest batch. False when the reply cannot be one to it.
bool Engine::take_reply(const Reply& reply, Micros now) {
  const Batch batch = sent_.front();
  if (reply.root().kind == ReplyItem::kError) {
    sent_.pop_front();
    const ErrorClass error = classify_error(reply.text(reply.root()));
    if (!batch.as_eval && (error.no_script || error.no_evalsha)) {
      always_eval_ = always_eval_ || error.no_evalsha;
      return resend(batch, now);
    }
    end_batch(batch, error.reason);
    if (error.leave) {
      leaving_ = true;
      leave_reason_ = error.reason;
    }
    return true;
  }
  BatchReply results(reply, calls_, first_of(batch), batch.last);
  if (!results.is_valid()) return false;
  server_ahead_ = results.now() - system_wall();
  sent_.pop_front();
  for (std::uint64_t seq = first_of(batch); seq < batch.last; ++seq) {
    if (!calls_.at(seq).is_in_batch()) continue;
    Answer answer;
    results.next(calls_.at(seq), &answer);
    if (results.must_go_again() && go_again(seq, now)) continue;
    const Call& call = calls_.at(seq);
    if (call.state == Call::State::kSwallowed) {
      try {
        if (call.group == nullptr) {
          if (answer.ticket.n != 0) give_back(call, answer.ticket);
        } else if (call.op == Op::kCheck && answer.decision.outcome == Outcome::kAllowed) {
          give_back_group(call);
        }
      } catch (const std::bad_alloc&) {
        // Then the charge stays. The replies behind it must still reach theirs.
      }
    }
    complete(&calls_.at(seq), answer);
  }
  if (results.must_leave()) {
    leaving_ = true;
    leave_reason_ = Reason::kReadOnly;
  } else if (!good_) {
    good_ = true;
    config_->back_off.failures = 0;
  }
  return results.is_valid();
}

// A request for windows that were not the server's, of which nothing was done, goes once more, as a
// new one behind all others (batches hold disjoint ranges): now the server's clock is known.
bool Engine::go_again(std::uint64_t seq, Micros now) {
  const Call& refused = calls_.at(seq);
  if (refused.state != Call::State::kSent || refused.group->sent_again || refused.deadline <= now) {
    return false;
  }
  try {
    new_call(refused.user_data, refused.deadline);
    keys_.append_copy(calls_.at(seq).key_at, calls_.at(seq).key_size);
  } catch (const std::bad_alloc&) {
    return false;
  }
  Call& call = calls_.at(seq);  // it may have moved
  Call& again = calls_.back();
  again.op = call.op;
  again.group = std::move(call.group);
  again.group->sent_again = true;
  again.key_size = call.key_size;
  again.key_count = call.key_count;
  call.state = Call::State::kGone;
  wait_in_line(&again);
  return true;
}

void Engine::end_batch(const Batch& batch, Reason reason) {
  for (std::uint64_t seq = first_of(batch); seq < batch.last; ++seq) {
    Call& call = calls_.at(seq);
    if (call.is_in_batch()) end(&call, reason);
  }
}

// Nothing of the batch ran: it goes once again and brings the script.
bool Engine::resend(Batch batch, Micros now) {
  batch.as_eval = true;
  batch.deadline = kForever;
  bool any = false;
  for (std::uint64_t seq = first_of(batch); seq < batch.last; ++seq) {
    Call& call = calls_.at(seq);
    if (call.state == Call::State::kSwallowed || call.state == Call::State::kTold) {
      end(&call, Reason::kCancelled);
    } else if (call.state == Call::State::kSent) {
      if (call.deadline <= now) {
        end(&call, Reason::kRefused);
      } else {
        any = true;
        batch.deadline = std::min(batch.deadline, call.deadline);
      }
    }
  }
  if (any) send_batch(batch);
  return true;
}

// -- Sending ----------------------------------------------------------------------------------

bool Engine::may_send() const {
  return connection_.is_ready() && !leaving_ && waiting_ > 0 && sent_.size() < options_.in_flight &&
         connection_.backlog() < kMaxBacklog;
}

void Engine::send_waiting() {
  while (may_send()) {
    Batch batch;
    batch.first = next_;
    batch.deadline = kForever;
    std::uint64_t seq = next_;
    for (std::uint32_t taken = 0; taken < options_.batch && seq != calls_.end(); ++seq) {
      Call& call = calls_.at(seq);
      if (call.state != Call::State::kWaiting) continue;
      if (taken == 0) batch.first = seq;
      call.state = Call::State::kSent;
      batch.deadline = std::min(batch.deadline, call.deadline);
      batch.last_deadline = std::max(batch.last_deadline, call.deadline);
      --waiting_;
      ++taken;
    }
    batch.last = seq;
    next_ = seq;
    if (waiting_ == 0) {
      waiting_deadline_ = kForever;
      longest_deadline_ = 0;
    }
    batch.as_eval = always_eval_ || eval_first_;
    eval_first_ = false;
    send_batch(batch);
  }
}

void Engine::send_batch(Batch batch) {
  BatchClock clock;
  clock.expected = std::clamp<Micros>(system_wall() + server_ahead_, 0, kMaxNow);
  if (config_->testing) clock.given = config_->clock ? config_->clock->wall() : system_wall();
  if (config_->testing) clock.expected = clock.given;
  batch.begins_at = connection_.appended();
  std::string* const output = connection_.output();
  const std::size_t before = output->size();
  std::size_t count = 0;
  try {
    count = append_batch(calls_, first_of(batch), batch.last, keys_, batch.as_eval, clock,
                         &arguments_, output);
  } catch (const std::bad_alloc&) {
    output->resize(before);
    return end_batch(batch, Reason::kBusy);
  }
  batch.give_up_at = std::max(batch.last_deadline, system_monotonic() + config_->deadline);
  sent_.push() = batch;
  Counters::add(config_->counters.batches, 1);
  Counters::add(config_->counters.requests, count);
}

void Engine::flush(Micros now) {
  if (!connection_.is_ready() || connection_.backlog() == 0 || connection_.send()) return;
  // Replies that came before the end are still good.
  receive(now);
  if (connection_.is_ready()) lose_connection(Reason::kLost, now);
}

}  // namespace saqiya::redis

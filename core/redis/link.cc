#include "core/redis/link.h"

#include <algorithm>
#include <utility>

#include "core/redis/front.h"

namespace saqiya::redis {
namespace {

// An attempt to connect is given up after this, whatever the requests would wait: packets that were
// lost on the way are not sent again for seconds.
constexpr Micros kLongestOpening = 3'000'000;
// On a cluster nearly every request is a batch of its own.
constexpr std::size_t kSlotsPerBatch = 8;

// Of a request that was never sent it is certain that nothing was done.
Reason as_unsent(Reason reason) {
  const bool unknown = reason == Reason::kLost || reason == Reason::kProtocol ||
                       reason == Reason::kTimeout || reason == Reason::kNone;
  return unknown ? Reason::kConnect : reason;
}

}  // namespace

Link::Link(const Config& config, const QueueOptions& options, Calls* calls, Breaker* breaker,
           int epoll_fd, Place place)
    : config_(config),
      options_(options),
      calls_(*calls),
      breaker_(breaker),
      place_(std::move(place)),
      by_slot_(config.endpoint.topology == Endpoint::Topology::kCluster),
      most_sent_(options.in_flight * (by_slot_ ? kSlotsPerBatch : 1)),
      connection_(config, epoll_fd) {
  sent_.reserve(most_sent_ + 2);
}

std::string Link::name() const {
  if (by_slot_) return name_of(place_);
  const Place& server = connection_.server();
  if (server.local || !server.host.empty()) return name_of(server);
  // No sentinel has named one yet.
  return config_.endpoint.master + " of " + name_of(config_.endpoint.places.front());
}

void Link::take(std::uint64_t seq) {
  calls_.push_back(seq, &line_);
  if (can_serve()) return;
  wanted_ = true;
  calls_.end(seq, breaker_->reason());
  calls_.retire();
}

void Link::send_early(Micros now) {
  // On a connection that was idle, see first that it still stands.
  if (sent_.empty()) receive(now);
  if (!may_send()) return;
  send_waiting();
  flush(now);
}

void Link::push() {
  if (!may_send()) return;
  send_waiting();
  // That it broke is for process() to see, by the same error.
  static_cast<void>(connection_.send());
}

void Link::process(Micros now) {
  // Twice, since a connection that turns out broken while sending is followed by a new one at once.
  for (int i = 0; i < 2; ++i) {
    connect(now);
    expire(now);
    send_map_question(now);
    send_waiting();
    flush(now);
    if (connection_.is_ready() || (line_.empty() && !map_wanted_)) break;
  }
}

// -- Opening ----------------------------------------------------------------------------------

// While the breaker is closed requests wait for the connection. While it is open they do not, and
// one connection of the process at a time is opened in the background.
void Link::connect(Micros now) {
  if (is_ready() && connection_.moved_away(now)) leave(Reason::kNone);
  if (is_ready() && sent_.empty()) {
    if (leaving_) lose(leave_reason_, Loss::kLeft, now);
    if (!is_trusted()) connection_.close();
  }
  if (breaker_->is_open() && !is_trusted()) end_line();
  if (is_ready()) return;
  if (is_connected()) {
    connection_.advance(now);
    if (is_ready()) return opened(now);
    // Its time may have been up long ago, when nobody was there to see: so it is not failing now.
    if (!is_connected()) opening_failed(connection_.failure(), std::min(now, try_until_));
  }
  if (!is_connected()) try_anew(now);
  if (breaker_->is_open() && !is_ready()) end_line();
}

void Link::try_anew(Micros now) {
  stop_trying();  // should an exception have ended the attempt before
  const bool open = breaker_->is_open();
  if (!open) wanted_ = false;
  if (open) claim_ = breaker_->try_claim(now);
  if (open ? claim_ == 0 : line_.empty() && !map_wanted_) {
    // A question for a name may have outlived the opening that asked it.
    return connection_.advance(now);
  }
  leaving_ = used_ = good_ = always_eval_ = false;
  tried_at_ = now;
  const Micros wanted = std::max(now + config_.deadline, line_.longest);
  try_until_ = open ? now + Breaker::kLongestProbe : std::min(wanted, now + kLongestOpening);
  connection_.open(place_, now, try_until_);
  connection_.advance(now);
  if (is_ready()) {
    opened(now);
  } else if (!is_connected()) {
    opening_failed(connection_.failure(), now);
  }
}

void Link::stop_trying() {
  if (const std::uint64_t claim = std::exchange(claim_, 0)) breaker_->give_up(claim);
}

void Link::opened(Micros now) {
  claim_ = 0;
  eval_first_ = !connection_.script_loaded();
  heard_at_ = now;
  wanted_ = false;
  serves(now);
}

// Names come first below: they take memory, and a breaker and the events must not differ.
void Link::serves(Micros now) {
  if (!breaker_->is_open()) return;
  const std::string server = name();
  if (breaker_->succeeded(now)) config_.events.recovered(server, now);
}

void Link::opening_failed(Reason reason, Micros now) {
  const std::string server = name();
  if (breaker_->failed(reason, now, std::exchange(claim_, 0))) {
    config_.events.outage(server, reason, now, connection_.problem());
  }
  end_line();
}

void Link::end_line() {
  if (map_wanted_) {
    map_wanted_ = false;
    map_answered_ = false;
    map_failure_ = breaker_->reason();
    wanted_ = true;
  }
  if (line_.empty()) return;
  wanted_ = true;
  calls_.end_line(&line_, breaker_->reason());
}

// -- Losing -----------------------------------------------------------------------------------

// Whatever was written, even in part, may have run and is not sent again. The rest goes to the
// front of the line.
void Link::lose(Reason reason, Loss how, Micros now) {
  const std::uint64_t written = connection_.sent();
  connection_.close();
  leaving_ = false;
  std::uint64_t last = kNoCall;  // of those at the front again
  while (!sent_.empty()) {
    const Batch batch = sent_.front();
    sent_.pop_front();
    if (batch.first == kNoCall) {
      map_asked_ = false;
      map_answered_ = false;
      map_failure_ = as_unsent(reason);
    }
    const bool unwritten = batch.begins_at >= written;
    for (std::uint64_t seq = batch.first; seq != kNoCall;) {
      const Call& call = calls_.at(seq);
      const std::uint64_t next = call.next;
      if (!unwritten) {
        calls_.end(seq, call.deadline <= now ? Reason::kTimeout : reason);
      } else if (call.deadline <= now) {
        calls_.end(seq, Reason::kBusy);
      } else if (call.state != Call::State::kSent) {
        calls_.end(seq, reason);
      } else {
        calls_.push_behind(seq, &line_, last);
        last = seq;
      }
      seq = next;
    }
  }
  calls_.retire();
  switch (how) {
    case Loss::kBroke:
      // One that worked may have been idle for too long, or its server restarted: a new one is
      // opened at once, and what waits goes on waiting.
      if (!good_ && used_) opening_failed(as_unsent(reason), now);
      break;
    case Loss::kDropped:
      break;
    case Loss::kSilent:
      fell_silent(as_unsent(reason), now);
      break;
    case Loss::kLeft:
      if (reason != Reason::kNone) opening_failed(reason, now);
      break;
  }
}

void Link::leave(Reason reason) {
  leaving_ = true;
  leave_reason_ = reason;
}

void Link::fell_silent(Reason reason, Micros now) {
  const std::string server = name();
  if (breaker_->fell_silent(reason, now)) {
    config_.events.outage(server, Reason::kTimeout, now);
  }
  end_line();
}

void Link::close(Reason reason) {
  connection_.stop();
  stop_trying();
  leaving_ = late_ = map_wanted_ = map_asked_ = false;
  map_answered_.reset();
  while (!sent_.empty()) {
    const Batch batch = sent_.front();
    sent_.pop_front();
    end_batch(batch, reason);
  }
  calls_.end_line(&line_, reason);
}

// -- Time -------------------------------------------------------------------------------------

// Each request ends at its own deadline. Replies come in order, so one that is late does not put
// the others' in doubt; but when the oldest batch has had all the time that its requests and the
// store allow, the server is not answering, and the connection goes.
void Link::expire(Micros now) {
  if (!sent_.empty() && sent_.front().give_up_at <= now) lose(Reason::kLost, Loss::kSilent, now);
  const bool awaited = expire_batches(now);
  // Who comes next had better not queue up behind answers that nobody waits for.
  // Whether the server is taken for dead depends on how long the store would wait, not on them.
  if (std::exchange(late_, false) && !awaited && !sent_.empty()) {
    const bool silent = now - sent_.front().flushed_at >= config_.deadline / 2;
    lose(Reason::kLost, silent ? Loss::kSilent : Loss::kDropped, now);
  }
  calls_.expire_line(&line_, now, unsent_reason());
}

void Link::give_up(Micros now) {
  expire_batches(now);
  calls_.expire_line(&line_, now, unsent_reason());
}

// Never sent, so never charged.
Reason Link::unsent_reason() const {
  if (is_ready()) return Reason::kBusy;
  const bool resolving = connection_.state() == Connection::State::kResolving;
  return resolving ? Reason::kResolve : Reason::kConnect;
}

// Whether anybody still waits for one of them.
bool Link::expire_batches(Micros now) {
  bool awaited = false;
  for (std::uint64_t i = sent_.begin(); i != sent_.end(); ++i) {
    Batch& batch = sent_.at(i);
    if (batch.deadline <= now) {
      late_ = true;
      expire_batch(&batch, now);
    }
    awaited = awaited || batch.deadline != kForever;
  }
  return awaited;
}

bool Link::expire_batch(Batch* batch, Micros now) {
  batch->deadline = kForever;
  for (std::uint64_t seq = batch->first; seq != kNoCall; seq = calls_.at(seq).next) {
    const Call& call = calls_.at(seq);
    if (call.state != Call::State::kSent) continue;
    if (call.deadline > now) {
      batch->deadline = std::min(batch->deadline, call.deadline);
    } else {
      calls_.tell_late(seq);
    }
  }
  return batch->deadline != kForever;
}

Micros Link::next_event(Micros now) const {
  // It is to be closed.
  if (is_ready() && sent_.empty() && (leaving_ || !is_trusted())) return now;
  if (!is_connected()) {
    if (breaker_->is_open()) {
      if (!line_.empty() || map_wanted_) return now;
      return wanted_ ? breaker_->next_attempt() : kForever;
    }
    return line_.empty() && !map_wanted_ ? kForever : now;
  }
  if (may_send() || (map_wanted_ && is_ready() && !leaving_)) return now;
  Micros next = std::min(line_.deadline, connection_.next_event(now));
  for (std::uint64_t i = sent_.begin(); i != sent_.end(); ++i) {
    next = std::min(next, sent_.at(i).deadline);
  }
  if (!sent_.empty()) next = std::min(next, sent_.front().give_up_at);
  return next;
}

}  // namespace saqiya::redis

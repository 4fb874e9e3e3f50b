// A link's batches: sent, answered, sent again where nothing of them ran.
#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "core/redis/front.h"
#include "core/redis/link.h"

namespace saqiya::redis {
namespace {

// What may lie unsent before no further batch is written.
constexpr std::size_t kMaxBacklog = std::size_t{1} << 20;
// How far the line is searched for requests of the slot at its head: enough to find those of a key
// that everybody asks for.
constexpr std::size_t kSearched = 64;

constexpr std::string_view kAsking = "*1\r\n$6\r\nASKING\r\n";

}  // namespace

// -- Replies ----------------------------------------------------------------------------------

void Link::receive(Micros now) {
  while (connection_.is_ready()) {
    const Connection::Input input = connection_.receive();
    if (!take_replies(now)) return;
    if (leaving_ && sent_.empty()) return lose(leave_reason_, Loss::kLeft, now);
    if (input == Connection::Input::kClosed) return lose(Reason::kLost, Loss::kBroke, now);
    if (input == Connection::Input::kDone) return;
  }
}

// False when the connection had to be closed.
bool Link::take_replies(Micros now) {
  bool any = false;
  while (true) {
    ReplyReader& reader = connection_.reader();
    reader.expect_map(!sent_.empty() && sent_.front().first == kNoCall);
    const ReplyReader::Result result = reader.next();
    if (result == ReplyReader::Result::kMore) break;
    if (result == ReplyReader::Result::kError || sent_.empty() ||
        !take_reply(reader.reply(), now)) {
      lose(Reason::kProtocol, Loss::kBroke, now);
      return false;
    }
    any = true;
  }
  if (any) {
    heard_at_ = now;
    calls_.retire();
  }
  return true;
}

// Answers the oldest batch. False when the reply cannot be one to it.
bool Link::take_reply(const Reply& reply, Micros now) {
  if (sent_.front().asking) {
    take_asking_reply(reply, now);
    return true;
  }
  const Batch batch = sent_.front();
  if (batch.first == kNoCall) {
    sent_.pop_front();
    take_map_reply(reply, now);
    return true;
  }
  if (reply.root().kind == ReplyItem::kError) {
    sent_.pop_front();
    return take_error(batch, reply.text(reply.root()), now);
  }
  BatchReply results(reply, calls_.ring(), batch.first);
  if (!results.is_valid()) return false;
  server_ahead_ = results.now() - system_wall();
  sent_.pop_front();
  take_results(&results, batch, now);
  if (results.must_leave()) {
    // One that served us may lead to the master yet, by its name or by the sentinels.
    leave(good_ ? Reason::kNone : Reason::kReadOnly);
  } else {
    good_ = true;
    serves(now);
  }
  // Names take memory, so they come last.
  if (results.refusal() != Reason::kNone) {
    config_.events.refused(results.refusal(), name(), results.refusal_text(), now);
  }
  return results.is_valid();
}

void Link::take_map_reply(const Reply& reply, Micros now) {
  map_asked_ = false;
  map_answered_ = parse_slots(reply, place_, &map_);
  if (*map_answered_) return;
  std::string_view text = "it has no map of slots, so it is no cluster";
  map_failure_ = Reason::kRefused;
  if (reply.root().kind == ReplyItem::kError) {
    const ErrorClass error = classify_error(reply.text(reply.root()));
    if (error.reason != Reason::kProtocol) {
      map_failure_ = error.reason;
      text = reply.text(reply.root());
    }
  }
  config_.events.refused(map_failure_, name(), text, now);
}

// Whatever else it is, the answer to what follows counts.
void Link::take_asking_reply(const Reply& reply, Micros now) {
  Batch& batch = sent_.front();
  batch.asking = false;
  if (reply.root().kind != ReplyItem::kError) return;
  const std::string_view text = reply.text(reply.root());
  batch.unasked = classify_error(text).reason == Reason::kPermission;
  if (batch.unasked) config_.events.refused(Reason::kPermission, name(), text, now);
}

bool Link::take_error(const Batch& batch, std::string_view text, Micros now) {
  const ErrorClass error = classify_error(text);
  if (batch.unasked) {
    end_batch(batch, Reason::kPermission);
  } else if (!batch.as_eval && (error.no_script || error.no_evalsha)) {
    always_eval_ = always_eval_ || error.no_evalsha;
    resend(batch, now);
  } else if (by_slot_ && error.redirect != Redirect::kNone) {
    turn(batch, error, text, now);
  } else {
    for (std::uint64_t seq = batch.first; seq != kNoCall;) {
      const std::uint64_t next = calls_.at(seq).next;
      if (!go_elsewhere(seq, error.reason, now)) calls_.end(seq, error.reason);
      seq = next;
    }
    const bool replica = error.reason == Reason::kReadOnly;
    if (error.leave) leave(replica && good_ ? Reason::kNone : error.reason);
    config_.events.refused(error.reason, name(), text, now);
  }
  return true;
}

void Link::take_results(BatchReply* results, const Batch& batch, Micros now) {
  std::uint64_t count = 0;
  for (std::uint64_t seq = batch.first; seq != kNoCall; ++count) {
    const std::uint64_t next = calls_.at(seq).next;
    Answer answer;
    results->next(calls_.at(seq), &answer);
    const Call& call = calls_.at(seq);
    if (results->failure() != Reason::kNone) {
      const bool again = (results->must_go_again() && go_again(seq, now)) ||
                         go_elsewhere(seq, results->failure(), now);
      if (!again) calls_.end(seq, results->failure());
    } else {
      learn(config_, call, calls_.keys().at(call.key_at, call.key_size), answer, results->now(),
            batch.flushed_at);
      if (call.state == Call::State::kSwallowed) give_back(seq, answer);
      calls_.answered(seq, answer);
    }
    seq = next;
  }
  config_.counters.count_latency(system_monotonic() - batch.flushed_at, count);
}

// A cancelled request was charged.
void Link::give_back(std::uint64_t seq, const Answer& answer) {
  const Call& call = calls_.at(seq);
  if (call.op != Op::kCheck || answer.decision.outcome != Outcome::kAllowed) return;
  try {
    const std::uint64_t refund = calls_.make_give_back(seq, answer.ticket);
    if (refund != kNoCall) calls_.push_back(refund, &line_);
  } catch (const std::bad_alloc&) {
    // Then the charge stays. The replies behind it must still reach theirs.
  }
}

// A request for windows that were not the server's, of which nothing was done, goes once more: now
// the server's clock is known.
bool Link::go_again(std::uint64_t seq, Micros now) {
  Call& call = calls_.at(seq);
  if (call.state != Call::State::kSent || call.group->sent_again || call.deadline <= now) {
    return false;
  }
  call.group->sent_again = true;
  calls_.push_back(seq, &line_);
  return true;
}

// A replica did nothing. Where a new connection leads to may be the master, so the request goes
// there, once. (The servers of a cluster say themselves where to go.)
bool Link::go_elsewhere(std::uint64_t seq, Reason reason, Micros now) {
  Call& call = calls_.at(seq);
  if (reason != Reason::kReadOnly || by_slot_ || !good_ || call.turned > 0 ||
      call.state != Call::State::kSent || call.deadline <= now) {
    return false;
  }
  ++call.turned;
  calls_.push_back(seq, &line_);
  return true;
}

std::uint64_t Link::still_wanted(std::uint64_t first, Reason late, Micros now) {
  std::uint64_t kept = kNoCall;
  std::uint64_t last = kNoCall;
  for (std::uint64_t seq = first; seq != kNoCall;) {
    Call& call = calls_.at(seq);
    const std::uint64_t next = call.next;
    if (call.state != Call::State::kSent) {
      calls_.end(seq, Reason::kCancelled);
    } else if (call.deadline <= now) {
      calls_.end(seq, late);
    } else {
      (last == kNoCall ? kept : calls_.at(last).next) = seq;
      call.next = kNoCall;
      last = seq;
    }
    seq = next;
  }
  return kept;
}

void Link::turn(const Batch& batch, const ErrorClass& error, std::string_view text, Micros now) {
  Turned turned;
  turned.how = error.redirect;
  turned.down = error.leave;
  try {
    turned.placed = error.redirect != Redirect::kLater && redirect_place(text, &turned.place);
    if (turned.place.host.empty()) turned.place.host = place_.host;
    turned_.reserve(turned_.size() + 1);
  } catch (const std::bad_alloc&) {
    return end_batch(batch, error.reason);
  }
  turned.first = still_wanted(batch.first, error.reason, now);
  turned_.push_back(std::move(turned));
}

// Nothing of the batch ran: it goes once again and brings the script.
void Link::resend(Batch batch, Micros now) {
  batch.as_eval = true;
  batch.first = still_wanted(batch.first, Reason::kRefused, now);
  if (batch.first == kNoCall) return;
  batch.asking = calls_.at(batch.first).asking;
  batch.deadline = kForever;
  for (std::uint64_t seq = batch.first; seq != kNoCall; seq = calls_.at(seq).next) {
    batch.deadline = std::min(batch.deadline, calls_.at(seq).deadline);
  }
  send_batch(batch);
}

void Link::end_batch(const Batch& batch, Reason reason) {
  for (std::uint64_t seq = batch.first; seq != kNoCall;) {
    const std::uint64_t next = calls_.at(seq).next;
    calls_.end(seq, reason);
    seq = next;
  }
}

std::optional<bool> Link::take_map(SlotMap* map) {
  const std::optional<bool> answered = std::exchange(map_answered_, std::nullopt);
  if (answered == true) *map = std::exchange(map_, SlotMap());
  return answered;
}

// -- Sending ----------------------------------------------------------------------------------

bool Link::may_send() const {
  return is_ready() && !leaving_ && !line_.empty() && sent_.size() < most_sent_ &&
         connection_.backlog() < kMaxBacklog && is_trusted();
}

void Link::put_in(Call* call, Batch* batch) {
  call->state = Call::State::kSent;
  batch->deadline = std::min(batch->deadline, call->deadline);
  batch->last_deadline = std::max(batch->last_deadline, call->deadline);
}

void Link::fill(Batch* batch) {
  batch->first = line_.first;
  std::uint64_t last = line_.first;
  std::size_t taken = 1;
  for (put_in(&calls_.at(last), batch); taken < options_.batch; ++taken) {
    const std::uint64_t next = calls_.at(last).next;
    if (next == kNoCall) break;
    put_in(&calls_.at(next), batch);
    last = next;
  }
  calls_.cut(&line_, last, taken);
}

void Link::fill_by_slot(Batch* batch) {
  const Call& head = calls_.at(line_.first);
  const std::uint16_t slot = head.slot;
  batch->first = line_.first;
  batch->asking = head.asking;
  std::uint64_t last = kNoCall;
  std::size_t taken = 0;
  std::size_t searched = 0;
  for (std::uint64_t seq = line_.first;
       seq != kNoCall && taken < options_.batch && searched < kSearched; ++searched) {
    Call& call = calls_.at(seq);
    const std::uint64_t next = call.next;
    const bool joins = call.slot == slot && !call.alone && call.asking == batch->asking;
    if (taken == 0 || joins) {
      calls_.remove(&call);
      put_in(&call, batch);
      call.next = kNoCall;
      if (last != kNoCall) calls_.at(last).next = seq;
      last = seq;
      ++taken;
      if (call.alone) return;
    }
    seq = next;
  }
}

void Link::send_waiting() {
  while (may_send()) {
    Batch batch;
    by_slot_ ? fill_by_slot(&batch) : fill(&batch);
    batch.as_eval = always_eval_ || eval_first_;
    eval_first_ = false;
    send_batch(batch);
  }
}

void Link::send_batch(Batch batch) {
  BatchClock clock;
  clock.expected = std::clamp<Micros>(system_wall() + server_ahead_, 0, kMaxNow);
  if (config_.testing) clock.given = config_.clock ? config_.clock->wall() : system_wall();
  if (config_.testing) clock.expected = clock.given;
  batch.begins_at = connection_.appended();
  std::string* const output = connection_.output();
  const std::size_t before = output->size();
  std::size_t count = 0;
  try {
    if (batch.asking) output->append(kAsking);
    count = append_batch(calls_.ring(), batch.first, calls_.keys(), batch.as_eval, clock,
                         &arguments_, output);
  } catch (const std::bad_alloc&) {
    output->resize(before);
    return end_batch(batch, Reason::kBusy);
  }
  used_ = true;
  batch.flushed_at = system_monotonic();
  batch.give_up_at = std::max(batch.last_deadline, batch.flushed_at + config_.deadline);
  sent_.push() = batch;
  Counters::add(config_.counters.batches, 1);
  Counters::add(config_.counters.requests, count);
}

void Link::send_map_question(Micros now) {
  if (!map_wanted_ || map_asked_ || !is_ready() || leaving_) return;
  Batch batch;
  batch.begins_at = connection_.appended();
  batch.deadline = now + config_.deadline;
  batch.give_up_at = batch.deadline;
  batch.flushed_at = now;
  connection_.output()->append("*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n");
  sent_.push() = batch;
  used_ = true;
  map_asked_ = true;
  map_wanted_ = false;
}

void Link::flush(Micros now) {
  if (!connection_.is_ready() || connection_.backlog() == 0 || connection_.send()) return;
  // Replies that came before the end are still good.
  receive(now);
  if (connection_.is_ready()) lose(Reason::kLost, Loss::kBroke, now);
}

}  // namespace saqiya::redis

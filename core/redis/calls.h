// The requests of one engine: their slots, keys and limiters, the lines they wait in, and the
// completions. Knows nothing of servers.
//
// A request is in exactly one place: in a line, in a batch (link.h), with its parts (across.h), or
// done. Sequence numbers only grow; a slot is reused when its request, and all before it, are done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/redis/batch.h"
#include "core/redis/config.h"
#include "core/redis/ring.h"
#include "core/store.h"

namespace saqiya::redis {

// Requests that wait, in order.
struct Line {
  std::uint64_t first = kNoCall;
  std::uint64_t last = kNoCall;
  std::size_t size = 0;
  Micros deadline = kForever;  // not later than the earliest among them
  Micros longest = 0;          // the latest of all since it was empty

  bool empty() const { return size == 0; }
};

// What became of a part of a parent.
struct PartDone {
  std::uint64_t parent = 0;
  std::unique_ptr<GroupCall> group;  // null when it failed
  Answer answer;
  Reason failure = Reason::kNone;
};

class Calls {
 public:
  Calls(std::shared_ptr<const Config> config, const QueueOptions& options);

  // Another request would be too many.
  bool is_full() const {
    // Cancelled requests do not count as open, but their slots are bounded, too.
    return open_ >= options_.capacity || ring_.size() >= 2 * options_.capacity + 65536;
  }
  // Its answer needs no server.
  void complete_at_once(std::uint64_t user_data, const Answer& answer);
  // In no line yet: until it is in one its slot counts as free.
  std::uint64_t add(const Request& request, std::uint64_t user_data, Micros deadline);
  // Takes back what add() added last.
  void drop(std::uint64_t seq);
  // Counts it as open. From here on completing it cannot fail.
  void opened() { ++open_; }

  const Ring<Call>& ring() const { return ring_; }
  Call& at(std::uint64_t seq) { return ring_.at(seq); }
  const KeyBytes& keys() const { return keys_; }

  // -- Lines
  void push_back(std::uint64_t seq, Line* line) { push(seq, line, line->last, kNoCall); }
  // Behind `before`, which is in the line; kNoCall: at its front.
  void push_behind(std::uint64_t seq, Line* line, std::uint64_t before) {
    push(seq, line, before, before == kNoCall ? line->first : at(before).next);
  }
  // Takes the first `count` out, the last of which is `last`. They stay linked.
  void cut(Line* line, std::uint64_t last, std::size_t count);
  void remove(Call* call);
  void end_line(Line* line, Reason reason);
  // Ends those past their deadline.
  void expire_line(Line* line, Micros now, Reason reason);

  // -- Ends. Only retire() frees slots: lists are walked meanwhile.
  void complete(std::uint64_t seq, const Answer& answer);
  // As complete(), and counts it: it is the server's answer.
  void answered(std::uint64_t seq, const Answer& answer);
  // The server did not answer: the limiters' failure policies do, for whoever waits.
  void end(std::uint64_t seq, Reason reason);
  // Sent, and past its deadline: whoever waits is told, the slot stays until the batch is answered.
  void tell_late(std::uint64_t seq);
  // False when nothing that was submitted with user_data is still open.
  bool cancel(std::uint64_t user_data);
  void retire();

  // A cancelled request was answered after all: the refund of what it took, or kNoCall when it took
  // nothing. It is in no line yet. May throw std::bad_alloc.
  std::uint64_t make_give_back(std::uint64_t seq, const Ticket& ticket);
  // A request of ours that has to do with `seq`, whose limiters are its own, too. fill: appends its
  // keys and sets key_size and key_count.
  template <typename Fill>
  std::uint64_t add_group(std::uint64_t seq, Group group, Micros deadline, Fill fill);

  std::size_t open() const { return open_; }
  std::size_t drain(std::span<Completion> out);
  bool has_completions() const { return !completions_.empty(); }
  void forget_completions();

  std::vector<PartDone>& parts_done() { return parts_done_; }
  KeyBytes* mutable_keys() { return &keys_; }

 private:
  Call& new_call(std::uint64_t user_data, Micros deadline);
  HeldLimiter* hold(const Limiter& limiter);
  void release(HeldLimiter* held);
  void release(Call* call);
  void append_key(const Limiter& limiter, std::size_t rule, std::string_view subject, Call* call);
  void prepare(const Request& request, Call* call);
  void prepare_group(const Request& request, Call* call);
  void push(std::uint64_t seq, Line* line, std::uint64_t before, std::uint64_t after);
  void fail(const Call& call, Reason reason, Answer* answer);
  void tell(const Call& call, const Answer& answer);

  const std::shared_ptr<const Config> config_;
  const QueueOptions options_;
  Ring<Call> ring_;
  KeyBytes keys_;
  Ring<Completion> completions_;
  std::vector<PartDone> parts_done_;
  std::size_t open_ = 0;  // submitted, not cancelled, not drained
  std::unordered_map<const Limiter*, std::unique_ptr<HeldLimiter>> held_;
  HeldLimiter* last_held_ = nullptr;
  std::string subject_;  // scratch
};

template <typename Fill>
std::uint64_t Calls::add_group(std::uint64_t seq, Group group, Micros deadline, Fill fill) {
  auto own = std::make_unique<GroupCall>(std::move(group));
  own->held.reserve(own->group.parts().size());
  Call& call = new_call(0, deadline);
  fill(&call);
  // Their limiters are held by the other request, so finding them allocates nothing.
  for (const Part& part : own->group.parts()) {
    own->held.push_back(hold(*part.limiter));
    ++own->held.back()->open;
  }
  call.op = own->group.op();
  call.group = std::move(own);
  call.slot = at(seq).slot;
  call.internal = true;
  return ring_.end() - 1;
}

}  // namespace saqiya::redis

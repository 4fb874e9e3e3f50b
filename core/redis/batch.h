// Requests as they wait, and batches of them as commands and replies: the client's side of
// lua/script.lua. No I/O, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/decision.h"
#include "core/group.h"
#include "core/limiter.h"
#include "core/redis/error.h"
#include "core/redis/resp.h"
#include "core/redis/ring.h"
#include "core/store.h"
#include "core/token_bucket.h"

namespace saqiya::redis {

// A limiter that open requests refer to. One reference for all of them: taking a shared_ptr per
// request would cost two atomic operations each.
struct HeldLimiter {
  const Limiter* limiter = nullptr;
  std::shared_ptr<const Limiter> owner;  // null while there are none
  std::size_t open = 0;
};

// Sequence numbers link requests into lines and batches.
inline constexpr std::uint64_t kNoCall = std::numeric_limits<std::uint64_t>::max();

// What a request that is more than one token bucket carries along.
struct GroupCall {
  explicit GroupCall(Group g) : group(std::move(g)) {}

  Group group;
  std::vector<HeldLimiter*> held;  // one for each part
  // The request, for what is decided when the server does not answer; keys are the call's.
  std::vector<Item> items;
  bool is_single = false;  // it was one limiter's
  Micros max_wait = 0;
  bool sent_again = false;  // once already, for its calendar windows were not the server's
};

struct Line;

// One request, from submit until it is done.
struct Call {
  enum class State : std::uint8_t {
    kWaiting,    // in a line
    kSent,       // in a batch
    kSwallowed,  // in a batch, cancelled since: its charge is given back, nobody is told
    kTold,       // in a batch, past its deadline: its result no longer matters
    kParent,     // in no line and no batch: others are sent for it (across.h)
    kGone,       // done; the slot is skipped
  };

  State state = State::kGone;
  Op op = Op::kCheck;        // what was asked
  Op wire = Op::kCheck;      // what is sent: a check that cannot charge goes as a peek
  bool reservation = false;  // refund
  bool internal = false;     // of ours: a refund for a swallowed charge, or a part of a parent
  bool want_ticket = true;
  bool asking = false;  // cluster: sent to where its slot is moving to
  bool alone =
      false;  // cluster: its slot is moving, so what would share its batch may be in its way
  std::uint8_t turned = 0;  // how often it was sent elsewhere, or later
  std::uint16_t slot = 0;   // cluster
  std::uint32_t key_size = 0;
  std::uint64_t key_at = 0;  // its keys, bulk strings end to end, in KeyBytes
  std::uint64_t next = kNoCall;
  std::uint64_t previous = kNoCall;  // of a line; batches need none
  Line* line = nullptr;              // kWaiting: where
  std::uint64_t parent = kNoCall;
  std::uint32_t key_count = 1;       // of the group's leaders
  std::unique_ptr<GroupCall> group;  // null: one token bucket, described by what follows
  HeldLimiter* held = nullptr;
  std::uint64_t user_data = 0;
  Micros deadline = 0;
  Micros max_wait = 0;
  std::int64_t cost = 0;
  // check, peek: inc and bound. refund: inc and, as bound, the ticket's instant.
  Charge charge;
};

// The keys of the waiting and the sent, end to end, addressed by a position that only grows.
class KeyBytes {
 public:
  std::uint64_t end() const { return base_ + bytes_.size(); }
  std::string_view at(std::uint64_t position, std::size_t size) const {
    return std::string_view(bytes_).substr(static_cast<std::size_t>(position - base_), size);
  }
  // For appending only.
  std::string* bytes() { return &bytes_; }
  void append_copy(std::uint64_t position, std::size_t size);
  // Everything before `position` is no longer needed.
  void release(std::uint64_t position);
  // Takes back what was appended from `position` on.
  void truncate(std::uint64_t position) {
    bytes_.resize(static_cast<std::size_t>(position - base_));
  }

 private:
  std::string bytes_;
  std::uint64_t base_ = 0;
};

// Tickets of this store; a memory store's epochs are never 0.
inline constexpr std::uint64_t kEpoch = 0;

// Fills in what is sent for a request for one token bucket.
void prepare_call(const Request& request, Call* call);

// What a batch must know of the time.
struct BatchClock {
  Micros given = -1;    // the reading that testing sends; -1: the server uses its own
  Micros expected = 0;  // about what the server's clock shows: for calendar windows
};

// Appends the requests linked from `first` on as one EVALSHA, or as an EVAL that brings the script.
// scratch is any string. Returns how many requests there were.
std::size_t append_batch(const Ring<Call>& calls, std::uint64_t first, const KeyBytes& keys,
                         bool as_eval, const BatchClock& clock, std::string* scratch,
                         std::string* out);

// The parts of this that deal with groups: group_call.cc.
bool same_group_arguments(const Group& a, const Group& b);
// Returns the number of arguments appended for `count` requests like this one.
std::size_t append_group_call(const Call& call, std::int64_t count, Micros expected_now,
                              std::string* out);
// Items of the reply to it, when it is no error.
std::size_t group_reply_size(const Call& call);

// Reads the results of a batch one after another, as the requests come.
class BatchReply {
 public:
  BatchReply(const Reply& reply, const Ring<Call>& calls, std::uint64_t first);
  // False when this is no reply to those requests: too much, too little, or something else.
  bool is_valid() const { return valid_; }
  // The answer to the next request, unless failure() then says that there is none; *answer must be
  // default. A result out of range is a failure, from which on the batch is not valid.
  void next(const Call& call, Answer* answer);
  // The server's clock was not where the calendar windows of the last request were: nothing was
  // done.
  bool must_go_again() const { return must_go_again_; }
  // The server could not answer the last request: why. Else kNone.
  Reason failure() const { return failure_; }
  // Some result said that this server will not do (a replica).
  bool must_leave() const { return must_leave_; }
  // The last error that told that the server refuses such requests; none: Reason::kNone.
  Reason refusal() const { return refusal_; }
  std::string_view refusal_text() const { return refusal_text_; }
  Micros now() const { return now_; }

 private:
  bool fits(const Ring<Call>& calls, std::uint64_t first) const;
  bool take_number(std::int64_t* number);
  bool take_fraction(std::uint32_t n, Fraction* fraction);
  ErrorClass take_error();
  void next_group(const Call& call, Answer* answer);
  bool take_asked(Group* group, bool* charged);
  bool take_changed(Group* group);
  bool take_seen(const Part& part, Seen* seen);

  const Reply& reply_;
  std::size_t at_ = 2;  // behind the array's head and now
  std::int64_t now_ = 0;
  bool valid_ = false;
  bool must_leave_ = false;
  bool must_go_again_ = false;
  Reason failure_ = Reason::kNone;
  Reason refusal_ = Reason::kNone;
  std::string_view refusal_text_;  // in the reply
};

}  // namespace saqiya::redis

// The token bucket, exactly. Pure functions: no clock, no I/O, no allocation.
//
// A rule has capacity C and gains N tokens every P microseconds (N and P without a common divisor).
// The whole state of a bucket is one instant, full_at: when it will be full again if left alone.
// This is the theoretical arrival time of the generic cell rate algorithm (ITU-T I.371, ATM Forum
// TM 4.1), in its virtual scheduling form. An instant is q microseconds plus r/N, 0 <= r < N: a
// rational that is carried, never rounded.
//
// The Lua script is the second writing of step(), refund() and settle_up(); tests/vectors and the
// differential fuzzer hold the two together.
#pragma once

#include <cstdint>
#include <string>

#include "core/decision.h"
#include "core/fraction.h"
#include "core/time.h"

namespace saqiya {

inline constexpr std::int64_t kMaxCount = (std::int64_t{1} << 53) - 1;  // capacity and cost

// Which number of a rule is outside its range.
enum class RangeFault { kNone, kCapacity, kTokens, kPeriod, kSpan, kQueue };

struct TokenBucket {
  std::int64_t capacity = 0;  // C, 0 ... kMaxCount
  std::uint32_t tokens = 1;   // N, reduced
  std::int64_t period = 1;    // P in us, reduced, 1 ... kMaxSpan
  Fraction span;              // C*P/N, at most kMaxSpan
  std::int64_t queue = 0;     // how many more may wait: a leaky bucket as a queue
  Fraction queue_wait;        // queue*P/N, at most kMaxSpan

  // Reduces and checks the ranges. On a fault *error names the limit and *rule is untouched.
  static RangeFault make(std::int64_t capacity, std::int64_t tokens, Micros period,
                         std::int64_t queue, TokenBucket* rule, std::string* error);

  // cost*P/N, for a cost that makes this less than 2^53.
  Fraction cost_in_time(std::int64_t cost) const;
};

// A stored bucket. n is the N its remainder counts in. A state with n == 0 is absent: a bucket that
// is full from q on (0: for ever).
struct BucketState {
  std::int64_t q = 0;
  std::uint32_t r = 0;
  std::uint32_t n = 0;
  friend bool operator==(const BucketState&, const BucketState&) = default;
};

// What a check asks, in the step's terms. Made once per (rule, cost, max_wait).
struct Charge {
  Fraction inc;    // cost in time; 0 asks without charging
  Fraction bound;  // span + wait: how far ahead of now full_at may come to lie
};

// A caller's word that it does not wait, not even as long as the rule's own queue makes it.
inline constexpr Micros kNoWait = -1;

// max_wait 0: as long as the rule's own queue says (no wait without one). Above 0: so long, but no
// longer than the queue, if there is one. kNoWait: not at all. More than kMaxSpan counts as that.
// A cost above the capacity gives inc 0: it is decided as kNever, but the state is read, so that
// the answer can tell what remains.
Charge make_charge(const TokenBucket& rule, std::int64_t cost, Micros max_wait);

// The instant of a stored state in units of 1/n. A state kept under another N is taken as one
// microsecond later without remainder: at most 1 us late, never early.
inline Fraction full_at(const BucketState& state, std::uint32_t n) {
  if (state.n == n || state.r == 0) return {state.q, state.r};
  return {state.q + 1, 0};
}

// The step. Returns over = max(full_at, now) + inc - bound - now. When over <= 0 and inc > 0 the
// charge is made: *state becomes the new instant. Otherwise nothing changes. now in 0 ... kMaxNow.
Fraction step(const Charge& charge, std::uint32_t n, Micros now, bool peek, BucketState* state);

// What step() returned, told as a decision. Both stores end here.
// *decision must be default (all zero).
void decide(const TokenBucket& rule, std::int64_t cost, const Charge& charge, Fraction over,
            bool peek, Decision* decision);

// The ticket of an allowed check; an empty one when nothing was charged.
Ticket make_ticket(const TokenBucket& rule, const Decision& decision, const Charge& charge,
                   Fraction over, std::int64_t cost, Micros now, std::uint64_t epoch);

// What changes about a charge that was made, in the step's terms.
struct GiveBack {
  Fraction inc;  // what is given back, or charged in addition, in time under the rule as it is now
  Fraction ticket;  // the instant after the charge, in units of 1/N of the rule as it is now
  bool reservation = false;
};

// amount: how much of the cost is given back, all of it in a refund; below 0: how much is to be
// charged in addition. False when the ticket has nothing to give: it is empty, spent or malformed,
// or the limit is 0.
bool make_give_back(const TokenBucket& rule, const Ticket& ticket, std::int64_t amount,
                    GiveBack* out);

// give = min(inc, ticket - now); full_at := max(now, full_at - give). A reservation is given back
// only while full_at is still its own instant. Never creates a state. Returns true when something
// was given back; *state has changed exactly then.
bool refund(const GiveBack& give, std::uint32_t n, Micros now, BucketState* state);

// Charges inc in addition, as if the check had cost so much more: what has been refilled of that
// since is not charged. add = min(inc, ticket + inc - now); full_at += add, but not to beyond now +
// kMaxSpan. Never creates a state: nothing happens to a full bucket. Returns true when it was done.
bool settle_up(const GiveBack& more, std::uint32_t n, Micros now, BucketState* state);

// The numbers of a decision for a state that was neither charged nor refused: after refunds and
// resets. behind = full_at - now, rational; at most 0 means full.
void describe(const TokenBucket& rule, Fraction behind, Decision* decision);

}  // namespace saqiya

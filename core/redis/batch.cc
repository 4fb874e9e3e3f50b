#include "core/redis/batch.h"

#include <cstring>

#include "core/redis/error.h"
#include "core/redis/lua/script.lua.h"

namespace saqiya::redis {
namespace {

std::uint32_t units(const Call& call) { return call.held->limiter->bucket().tokens; }

// Consecutive requests that differ in nothing but the key share their arguments.
bool same_arguments(const Call& a, const Call& b) {
  if ((a.group != nullptr) != (b.group != nullptr)) return false;
  if (a.group != nullptr) return same_group_arguments(a.group->group, b.group->group);
  if (a.wire != b.wire) return false;
  if (a.wire == Op::kReset) return true;
  return a.charge.inc == b.charge.inc && a.charge.bound == b.charge.bound &&
         a.reservation == b.reservation && (a.held == b.held || units(a) == units(b));
}

// Returns the number of arguments appended.
std::size_t append_group(const Call& call, std::int64_t count, Micros expected_now,
                         std::string* out) {
  if (call.group != nullptr) return append_group_call(call, count, expected_now, out);
  append_bulk(count, out);
  if (call.wire == Op::kReset) {
    append_bulk("x", out);
    return 2;
  }
  const std::uint32_t n = units(call);
  const bool whole = n == 1;
  const bool refund = call.wire == Op::kRefund;
  const bool peek = call.wire == Op::kPeek;
  if (refund) {
    append_bulk(whole ? "f" : "F", out);
  } else if (peek) {
    append_bulk(whole ? "p" : "P", out);
  } else {
    append_bulk(whole ? "c" : "C", out);
  }
  append_bulk(call.charge.inc.q, out);
  append_bulk(call.charge.bound.q, out);
  std::size_t arguments = 4;
  if (refund) {
    append_bulk(call.reservation ? "1" : "0", out);
    ++arguments;
  }
  if (!whole) {
    append_bulk(std::int64_t{n}, out);
    append_bulk(std::int64_t{call.charge.inc.r}, out);
    append_bulk(std::int64_t{call.charge.bound.r}, out);
    arguments += 3;
  }
  return arguments;
}

}  // namespace

void KeyBytes::append_copy(std::uint64_t position, std::size_t size) {
  const std::size_t from = static_cast<std::size_t>(position - base_);
  const std::size_t to = bytes_.size();
  bytes_.resize(to + size);
  std::memcpy(bytes_.data() + to, bytes_.data() + from, size);
}

void KeyBytes::release(std::uint64_t position) {
  const auto unused = static_cast<std::size_t>(position - base_);
  if (unused == bytes_.size()) {
    bytes_.clear();
    base_ = position;
  } else if (unused >= 32768 && unused >= bytes_.size() / 2) {
    bytes_.erase(0, unused);
    base_ = position;
  }
}

void prepare_call(const Request& request, Call* call) {
  const Limiter& limiter = *request.limiter;
  const TokenBucket& rule = limiter.bucket();
  call->op = request.op;
  call->wire = request.op;
  call->reservation = false;
  call->cost = request.cost;
  call->max_wait = request.max_wait;
  call->want_ticket = request.want_ticket;
  switch (request.op) {
    case Op::kCheck:
    case Op::kPeek:
      call->charge = limiter.charge(request.cost, request.max_wait);
      if (call->charge.inc == Fraction{}) call->wire = Op::kPeek;
      break;
    case Op::kRefund: {
      GiveBack give;
      const Ticket& ticket = request.tickets.front();
      if (ticket.epoch == kEpoch && make_give_back(rule, ticket, ticket.cost, &give)) {
        call->charge = {give.inc, give.ticket};
        call->reservation = give.reservation;
      } else {
        // Nothing to give, but the answer tells the state.
        call->wire = Op::kPeek;
        call->charge = {Fraction{}, rule.span};
      }
      break;
    }
    case Op::kReset:
      call->charge = Charge{};
      break;
    case Op::kSettle:
    case Op::kRenew:
      break;  // these go as groups
  }
}

std::size_t append_batch(const Ring<Call>& calls, std::uint64_t first, const KeyBytes& keys,
                         bool as_eval, const BatchClock& clock, std::string* scratch,
                         std::string* out) {
  std::string& arguments = *scratch;
  arguments.clear();
  if (clock.given >= 0) {
    append_bulk(clock.given, &arguments);
  } else {
    arguments.append("$0\r\n\r\n");
  }
  std::size_t count = 0;
  std::size_t key_count = 0;
  std::size_t argument_count = 1;
  const Call* group = nullptr;
  std::int64_t in_group = 0;
  for (std::uint64_t seq = first; seq != kNoCall; seq = calls.at(seq).next) {
    const Call& call = calls.at(seq);
    ++count;
    key_count += call.key_count;
    if (group != nullptr && !same_arguments(*group, call)) {
      argument_count += append_group(*group, in_group, clock.expected, &arguments);
      in_group = 0;
    }
    group = &call;
    ++in_group;
  }
  if (group != nullptr)
    argument_count += append_group(*group, in_group, clock.expected, &arguments);

  append_array_head(3 + key_count + argument_count, out);
  if (as_eval) {
    out->append("$4\r\nEVAL\r\n");
    append_bulk(lua::kScript, out);
  } else {
    out->append("$7\r\nEVALSHA\r\n$40\r\n");
    out->append(lua::kScriptSha1);
    out->append("\r\n");
  }
  append_bulk(static_cast<std::int64_t>(key_count), out);
  // Keys that lie end to end are copied in one piece.
  std::uint64_t from = 0;
  std::size_t size = 0;
  for (std::uint64_t seq = first; seq != kNoCall; seq = calls.at(seq).next) {
    const Call& call = calls.at(seq);
    if (size > 0 && call.key_at != from + size) {
      out->append(keys.at(from, size));
      size = 0;
    }
    if (size == 0) from = call.key_at;
    size += call.key_size;
  }
  if (size > 0) out->append(keys.at(from, size));
  out->append(arguments);
  return count;
}

BatchReply::BatchReply(const Reply& reply, const Ring<Call>& calls, std::uint64_t first)
    : reply_(reply) {
  const std::span<const ReplyItem> items = reply.items();
  if (items[0].kind != ReplyItem::kArray || items.size() < 2) return;
  if (items[1].kind != ReplyItem::kInteger || items[1].number < 0 || items[1].number > kMaxNow) {
    return;
  }
  now_ = items[1].number;
  valid_ = fits(calls, first);
}

// Counted before the first answer is given: one reply that is not ours must not decide anything.
bool BatchReply::fits(const Ring<Call>& calls, std::uint64_t first) const {
  const std::span<const ReplyItem> items = reply_.items();
  std::size_t at = at_;
  for (std::uint64_t seq = first; seq != kNoCall; seq = calls.at(seq).next) {
    const Call& call = calls.at(seq);
    if (at >= items.size()) return false;
    if (call.group != nullptr) {
      // Each key of a reset has a result of its own, which may be an error.
      const bool error = items[at].kind == ReplyItem::kError && call.op != Op::kReset;
      at += error ? 1 : group_reply_size(call);
      continue;
    }
    const std::size_t parts = call.wire == Op::kReset    ? 1
                              : call.wire == Op::kRefund ? (units(call) > 1 ? 3 : 2)
                                                         : (units(call) > 1 ? 2 : 1);
    at += items[at].kind == ReplyItem::kError ? 1 : parts;
  }
  return at == items.size();
}

bool BatchReply::take_number(std::int64_t* number) {
  const std::span<const ReplyItem> items = reply_.items();
  if (at_ >= items.size() || items[at_].kind != ReplyItem::kInteger) return false;
  *number = items[at_++].number;
  return *number >= -kMaxCount && *number <= kMaxCount;
}

bool BatchReply::take_fraction(std::uint32_t n, Fraction* fraction) {
  std::int64_t r = 0;
  if (!take_number(&fraction->q)) return false;
  if (n > 1 && (!take_number(&r) || r < 0 || r >= n)) return false;
  fraction->r = static_cast<std::uint32_t>(r);
  return true;
}

ErrorClass BatchReply::take_error() {
  const std::string_view text = reply_.text(reply_.items()[at_++]);
  const ErrorClass error = classify_error(text);
  must_leave_ = must_leave_ || error.leave;
  if (!error.out_of_range) {
    refusal_ = error.reason;
    refusal_text_ = text;
  }
  return error;
}

void BatchReply::next(const Call& call, Answer* answer) {
  must_go_again_ = false;
  failure_ = Reason::kNone;
  if (call.group != nullptr) return next_group(call, answer);
  const std::span<const ReplyItem> items = reply_.items();
  if (valid_ && at_ < items.size() && items[at_].kind == ReplyItem::kError) {
    failure_ = take_error().reason;
    return;
  }
  const TokenBucket& rule = call.held->limiter->bucket();
  Decision& decision = answer->decision;
  Fraction value;
  std::int64_t given = 0;
  if (call.wire == Op::kRefund) valid_ = valid_ && take_number(&given);
  valid_ = valid_ && take_fraction(call.wire == Op::kReset ? 1 : rule.tokens, &value);
  if (!valid_) {
    failure_ = Reason::kProtocol;
    return;
  }
  switch (call.op) {
    case Op::kCheck:
    case Op::kPeek: {
      const bool peek = call.op == Op::kPeek;
      decide(rule, call.cost, call.charge, value, peek, &decision);
      if (!peek && call.want_ticket) {
        answer->ticket = make_ticket(rule, decision, call.charge, value, call.cost, now_, kEpoch);
      }
      break;
    }
    case Op::kRefund:
      if (call.wire == Op::kRefund) {
        describe(rule, value, &decision);
      } else {
        decide(rule, 0, call.charge, value, true, &decision);
        decision.retry_after = 0;
      }
      decision.outcome = given != 0 ? Outcome::kAllowed : Outcome::kDenied;
      break;
    case Op::kReset:
      describe(rule, Fraction{}, &decision);
      decision.outcome = Outcome::kAllowed;
      break;
    case Op::kSettle:
    case Op::kRenew:
      break;
  }
}

}  // namespace saqiya::redis

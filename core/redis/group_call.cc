// Groups as arguments of the script and as items of its reply: the operations 'g' (ask) and 'a'
// (adjust). See lua/ for the protocol.
#include <array>
#include <cstring>

#include "core/calendar.h"
#include "core/redis/batch.h"
#include "core/redis/error.h"

namespace saqiya::redis {
namespace {

std::string_view lease_bytes(const std::uint64_t& lease) {
  return {reinterpret_cast<const char*>(&lease), sizeof lease};
}

// Bulk strings of one array, counted.
class Arguments {
 public:
  explicit Arguments(std::string* out) : out_(out) {}
  template <typename T>
  void add(T value) {
    if constexpr (std::is_integral_v<T>) {
      append_bulk(static_cast<std::int64_t>(value), out_);
    } else {
      append_bulk(std::string_view(value), out_);
    }
    ++count_;
  }
  std::size_t count() const { return count_; }

 private:
  std::string* out_;
  std::size_t count_ = 0;
};

void add_ask(const Part& part, bool may_charge, Micros expected_now, Arguments* to) {
  const Rule& rule = part.rule();
  const Ask& ask = part.ask;
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      to->add("b");
      to->add(rule.bucket.tokens);
      to->add(ask.charge.inc.q);
      to->add(ask.charge.inc.r);
      to->add(ask.charge.bound.q);
      to->add(ask.charge.bound.r);
      return;
    case Algorithm::kCalendar: {
      const std::array<Micros, 4> edges = rule.calendar->around(expected_now);
      to->add("c");
      to->add(ask.cost);
      to->add(rule.limit);
      to->add(edges.size() - 1);
      for (const Micros edge : edges) to->add(edge);
      return;
    }
    case Algorithm::kFixedWindow:
      to->add("f");
      break;
    case Algorithm::kSlidingWindow:
      to->add("w");
      break;
    case Algorithm::kSlidingLog:
      to->add("l");
      break;
    case Algorithm::kConcurrency:
      to->add("n");
      break;
  }
  to->add(ask.cost);
  to->add(rule.limit);
  to->add(rule.period);
  if (rule.algorithm == Algorithm::kConcurrency) {
    to->add(may_charge ? lease_bytes(ask.lease) : std::string_view());
  }
}

// A change that is not possible is sent as one that finds nothing to change.
void add_change(const Part& part, Arguments* to) {
  const Rule& rule = part.rule();
  const Change none;
  const Change& change = part.possible ? part.change : none;
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      to->add("b");
      to->add(rule.bucket.tokens);
      to->add(change.bucket.inc.q);
      to->add(change.bucket.inc.r);
      to->add(change.bucket.ticket.q);
      to->add(change.bucket.ticket.r);
      to->add(change.bucket.reservation ? 1 : 0);
      to->add(change.delta > 0 ? 1 : 0);
      return;
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      to->add(rule.algorithm == Algorithm::kCalendar ? "c" : "f");
      to->add(change.delta);
      to->add(change.instant);
      return;
    case Algorithm::kSlidingWindow:
    case Algorithm::kSlidingLog:
      to->add(rule.algorithm == Algorithm::kSlidingWindow ? "w" : "l");
      to->add(change.delta);
      to->add(change.instant);
      to->add(rule.period);
      return;
    case Algorithm::kConcurrency:
      to->add(change.renew ? "m" : "n");
      to->add(change.renew ? rule.period : change.delta);
      to->add(lease_bytes(change.lease));
      return;
  }
}

std::size_t seen_size(const Part& part) {
  switch (part.rule().algorithm) {
    case Algorithm::kTokenBucket:
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      return 2;
    case Algorithm::kSlidingWindow:
    case Algorithm::kSlidingLog:
    case Algorithm::kConcurrency:
      break;
  }
  return 3;
}

}  // namespace

bool same_group_arguments(const Group& a, const Group& b) {
  if (!is_ask(a.op()) || a.op() != b.op() || a.may_charge() != b.may_charge() ||
      a.parts().size() != b.parts().size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.parts().size(); ++i) {
    const Part& x = a.parts()[i];
    const Part& y = b.parts()[i];
    // The cost that is asked, and a bucket's charge, follow from the total and the wait.
    if (&x.rule() != &y.rule() || x.leader != y.leader || x.total != y.total ||
        x.ask.charge.bound != y.ask.charge.bound ||
        (x.rule().algorithm == Algorithm::kConcurrency && a.may_charge())) {
      return false;
    }
  }
  return true;
}

std::size_t append_group_call(const Call& call, std::int64_t count, Micros expected_now,
                              std::string* out) {
  const Group& group = call.group->group;
  Arguments arguments(out);
  if (call.op == Op::kReset) {
    arguments.add(count * call.key_count);
    arguments.add("x");
    return arguments.count();
  }
  const bool ask = is_ask(call.op);
  arguments.add(count);
  arguments.add(ask ? "g" : "a");
  arguments.add(call.key_count);
  if (ask) arguments.add(group.may_charge() ? 1 : 0);
  for (std::size_t i = 0; i < group.parts().size(); ++i) {
    if (!group.is_leader(i)) continue;
    if (ask) {
      add_ask(group.parts()[i], group.may_charge(), expected_now, &arguments);
    } else {
      add_change(group.parts()[i], &arguments);
    }
  }
  return arguments.count();
}

std::size_t group_reply_size(const Call& call) {
  const Group& group = call.group->group;
  if (call.op == Op::kReset) return call.key_count;
  const bool ask = is_ask(call.op);
  std::size_t size = ask ? 1 : 0;
  for (std::size_t i = 0; i < group.parts().size(); ++i) {
    if (group.is_leader(i)) size += seen_size(group.parts()[i]) + (ask ? 0 : 1);
  }
  return size;
}

bool BatchReply::take_seen(const Part& part, Seen* seen) {
  switch (part.rule().algorithm) {
    case Algorithm::kTokenBucket: {
      std::int64_t r = 0;
      if (!take_number(&seen->over.q) || !take_number(&r)) return false;
      if (r < 0 || r >= part.rule().bucket.tokens) return false;
      seen->over.r = static_cast<std::uint32_t>(r);
      return true;
    }
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      return take_number(&seen->end) && take_number(&seen->used) && seen->end >= 0 &&
             seen->used >= 0;
    case Algorithm::kSlidingWindow:
      return take_number(&seen->end) && take_number(&seen->previous) && take_number(&seen->used) &&
             seen->end >= 0 && seen->previous >= 0 && seen->previous <= kMaxSlidingLimit &&
             seen->used >= 0 && seen->used <= kMaxSlidingLimit;
    case Algorithm::kSlidingLog:
    case Algorithm::kConcurrency:
      return take_number(&seen->used) && take_number(&seen->end) && take_number(&seen->passes_at) &&
             seen->used >= 0 && seen->end >= 0 && seen->passes_at >= 0;
  }
  return false;
}

// The script tells the state and whether all fitted together; whether one part alone would have
// fitted is what decide() makes of the numbers.
bool BatchReply::take_asked(Group* group, bool* charged) {
  std::int64_t ok = 0;
  if (!take_number(&ok) || (ok != 0 && ok != 1)) return false;
  for (std::size_t i = 0; i < group->parts().size(); ++i) {
    Part& part = group->parts()[i];
    if (!group->is_leader(i)) continue;
    part.now = now_;
    if (!take_seen(part, &part.seen)) return false;
    part.seen.fits = would_fit(part.rule(), part.ask, part.seen, now_);
  }
  *charged = ok == 1 && group->may_charge();
  return !group->may_charge() || group->all_fit() == (ok == 1);
}

bool BatchReply::take_changed(Group* group) {
  for (Part& part : group->parts()) {
    std::int64_t done = 0;
    part.now = now_;
    if (!take_number(&done) || !take_seen(part, &part.seen)) return false;
    // A settlement of what was charged is done, whatever is left of it.
    const bool nothing_to_do = part.change.delta == 0 && !part.change.renew;
    part.changed = part.possible && (done != 0 || nothing_to_do);
  }
  return true;
}

void BatchReply::next_group(const Call& call, Answer* answer) {
  const std::span<const ReplyItem> items = reply_.items();
  Group& group = call.group->group;
  bool charged = false;
  if (!valid_) {
    failure_ = Reason::kProtocol;
  } else if (call.op == Op::kReset || items[at_].kind == ReplyItem::kError) {
    const std::size_t end = at_ + (call.op == Op::kReset ? call.key_count : 1);
    while (at_ < end) {
      if (items[at_].kind != ReplyItem::kError) {
        ++at_;
        continue;
      }
      const ErrorClass error = take_error();
      must_go_again_ = error.out_of_range;
      failure_ = error.reason;
    }
  } else {
    valid_ = is_ask(call.op) ? take_asked(&group, &charged) : take_changed(&group);
    if (!valid_) failure_ = Reason::kProtocol;
  }
  if (failure_ == Reason::kNone) group.finish(charged, kEpoch, answer);
}

}  // namespace saqiya::redis

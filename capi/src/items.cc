// Several limiters decided together.
#include "items.h"

#include <string>

namespace saqiya::capi {

bool Items::read(const saqiya_item* items, std::size_t count, bool costs_matter) {
  if (items == nullptr || count == 0 || count > kMaxItems) return false;
  count_ = count;
  rule_count_ = 0;
  unlimited_ = true;
  for (std::size_t i = 0; i < count; ++i) {
    const saqiya_item& in = items[i];
    if (in.limiter == nullptr || !is_key(in.key, in.key_len)) return false;
    if (costs_matter && !is_cost(in.cost)) return false;
    const Limiter& limiter = *in.limiter->limiter;
    items_[i] = {&limiter, as_key(in.key, in.key_len), costs_matter ? in.cost : 0};
    rule_count_ += capi::rule_count(limiter);
    unlimited_ = unlimited_ && limiter.is_unlimited();
  }
  std::string why;
  return check_items(list(), &why);
}

void Items::put_into(Request* request) const {
  if (count_ == 1) {
    request->limiter = items_[0].limiter;
    request->key = items_[0].key;
    request->cost = items_[0].cost;
  } else {
    request->items = list();
  }
}

std::size_t room_of(const saqiya_item* items, std::size_t count) {
  std::size_t room = 0;
  if (items == nullptr || count > kMaxItems) return room;
  for (std::size_t i = 0; i < count; ++i) room += saqiya_limiter_rule_count(items[i].limiter);
  return room;
}

Decision answer_unlimited(Op op, std::span<Decision> each, std::span<Ticket> tickets) {
  const Decision decision = unlimited_decision(op);
  for (std::size_t i = 0; i < each.size(); ++i) {
    each[i] = decision;
    each[i].item = static_cast<std::int32_t>(i);
  }
  std::fill(tickets.begin(), tickets.end(), Ticket{});
  return decision;
}

namespace {

// Asks for them all. each, tickets: null, or room for one of each rule; zeroed by the caller.
int ask(Op op, const Items& items, Micros max_wait, saqiya_decision* decision,
        saqiya_decision* each, saqiya_ticket* tickets) {
  Request request;
  request.op = op;
  request.max_wait = std::min(max_wait, kMaxSpan);
  request.want_ticket = tickets != nullptr;
  items.put_into(&request);
  Answer answer;
  // A single rule takes the short way, which has one decision and one ticket to give.
  const bool is_one = items.list().size() == 1 && items.rule_count() == 1;
  if (!is_one || items.is_unlimited()) {
    request.each = as_decisions(each, items.rule_count());
    request.tickets_out = as_tickets(tickets, items.rule_count());
  }
  if (items.is_unlimited()) {
    answer.decision = answer_unlimited(op, request.each, request.tickets_out);
  } else {
    items.store().execute(request, &answer);
  }
  copy_as(answer.decision, decision);
  if (is_one && each != nullptr) copy_as(answer.decision, each);
  if (is_one && tickets != nullptr) copy_as(answer.ticket, tickets);
  return SAQIYA_OK;
}

// The same, from the caller's arguments. On a failure everything is zero.
int ask(Op op, const saqiya_item* items, std::size_t count, Micros max_wait,
        saqiya_decision* decision, saqiya_decision* each, saqiya_ticket* tickets) {
  const std::size_t room = room_of(items, count);
  const auto clear_all = [&] {
    clear(decision);
    clear(each, room);
    clear(tickets, room);
  };
  clear_all();
  if (decision == nullptr || !is_wait(max_wait)) return SAQIYA_INVALID;
  const int code = guard([&] {
    Items known;
    if (!known.read(items, count, true)) return static_cast<int>(SAQIYA_INVALID);
    return ask(op, known, max_wait, decision, each, tickets);
  });
  if (code != SAQIYA_OK) clear_all();
  return code;
}

}  // namespace
}  // namespace saqiya::capi

extern "C" {

int saqiya_check_all(const saqiya_item* items, size_t count, int64_t max_wait_us,
                     saqiya_decision* decision, saqiya_decision* each, saqiya_ticket* tickets) {
  return saqiya::capi::ask(saqiya::Op::kCheck, items, count, max_wait_us, decision, each, tickets);
}

int saqiya_peek_all(const saqiya_item* items, size_t count, saqiya_decision* decision,
                    saqiya_decision* each) {
  return saqiya::capi::ask(saqiya::Op::kPeek, items, count, 0, decision, each, nullptr);
}

int saqiya_refund_all(const saqiya_item* items, size_t count, saqiya_ticket* tickets,
                      saqiya_decision* decision) {
  using saqiya::capi::clear;
  clear(decision);
  if (tickets == nullptr) return SAQIYA_INVALID;
  return saqiya::capi::guard([&] {
    saqiya::capi::Items known;
    if (!known.read(items, count, false)) return SAQIYA_INVALID;
    saqiya::Request request;
    request.op = saqiya::Op::kRefund;
    known.put_into(&request);
    request.tickets =
        saqiya::capi::as_tickets(static_cast<const saqiya_ticket*>(tickets), known.rule_count());
    saqiya::Answer answer;
    if (known.is_unlimited()) {
      answer.decision = saqiya::unlimited_decision(request.op);
    } else {
      known.store().execute(request, &answer);
    }
    saqiya::capi::mark_spent(request.op, answer.decision, tickets, known.rule_count());
    if (decision != nullptr) saqiya::capi::copy_as(answer.decision, decision);
    return SAQIYA_OK;
  });
}

}  // extern "C"

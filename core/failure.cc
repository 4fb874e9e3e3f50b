#include "core/failure.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <utility>

#include "core/group.h"
#include "core/key.h"

namespace saqiya {
namespace {

// How long a client that was turned away without a decision had better wait: within a second of
// its return a server is used again.
constexpr Micros kPause = kMicrosPerSecond;

std::size_t places_of(const Limiter& limiter) {
  return std::max<std::size_t>(limiter.rules().size(), 1);  // an unlimited one has a place, too
}

FailureMode mode_of(const Limiter& limiter) {
  const bool no_table = limiter.failure() == FailureMode::kLocal && limiter.fallback() == nullptr;
  return no_table ? FailureMode::kError : limiter.failure();
}

// Calls each(item, its index, its first place) for all that a request is about.
template <typename Each>
void for_items(const Request& request, Each&& each) {
  if (request.items.empty()) {
    each(Item{request.limiter, request.key, request.cost}, 0, 0);
    return;
  }
  std::size_t place = 0;
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    each(request.items[i], i, place);
    place += places_of(*request.items[i].limiter);
  }
}

// The strictest mode among the limiters decides: error, closed, local, open. And whose it is.
std::pair<FailureMode, std::size_t> mode_of(const Request& request) {
  constexpr auto kStrictness = [](FailureMode mode) {
    switch (mode) {
      case FailureMode::kOpen:
        return 0;
      case FailureMode::kLocal:
        return 1;
      case FailureMode::kClosed:
        return 2;
      case FailureMode::kError:
        break;
    }
    return 3;
  };
  std::optional<FailureMode> strictest;
  std::size_t whose = 0;
  for_items(request, [&](const Item& item, std::size_t i, std::size_t) {
    if (item.limiter->is_unlimited()) return;
    const FailureMode mode = mode_of(*item.limiter);
    if (strictest && kStrictness(mode) <= kStrictness(*strictest)) return;
    strictest = mode;
    whose = i;
  });
  return {strictest.value_or(FailureMode::kError), whose};
}

Decision without_server(Source source, Reason reason) {
  Decision d;
  d.outcome = source == Source::kOpen ? Outcome::kAllowed : Outcome::kDenied;
  d.reason = reason;
  d.source = source;
  if (source == Source::kClosed) d.retry_after = kPause;
  return d;
}

void place_at(std::size_t item, std::size_t rule, Decision* d) {
  d->item = static_cast<std::int32_t>(item);
  d->rule = static_cast<std::int32_t>(rule);
}

// One decision for all of them, but for those who have no limit.
void say_to_all(const Request& request, const Decision& decision, std::size_t whose,
                Answer* answer) {
  answer->decision = decision;
  place_at(whose, 0, &answer->decision);
  if (request.each.empty()) return;
  for_items(request, [&](const Item& item, std::size_t i, std::size_t place) {
    for (std::size_t r = 0; r < item.limiter->rules().size(); ++r) {
      request.each[place + r] = decision;
      place_at(i, r, &request.each[place + r]);
    }
  });
}

// As the local table said it. What is never possible there alone, since it has but a share, may
// pass when the server is back.
void mark_local(Reason reason, Decision* d) {
  d->source = Source::kLocal;
  d->reason = reason;
  if (d->outcome != Outcome::kNever) return;
  d->outcome = Outcome::kDenied;
  d->retry_after = kPause;
}

// Those items of a request that the local table decides, as a request to it.
class LocalItems {
 public:
  explicit LocalItems(const Request& request) : request_(request) {
    for_items(request, [this](const Item& item, std::size_t i, std::size_t place) {
      const Limiter* const limiter =
          item.limiter->is_unlimited() ? item.limiter : item.limiter->fallback();
      if (limiter == nullptr) return;
      items_[count_] = {limiter, item.key, item.cost};
      index_[count_] = i;
      for (std::size_t r = 0; r < places_of(*limiter); ++r) {
        place_[places_] = place + r;
        if (!request_.tickets.empty()) tickets_[places_] = request_.tickets[place + r];
        ++places_;
      }
      if (store_ == nullptr && !limiter->is_unlimited()) store_ = &limiter->store();
      ++count_;
    });
  }

  // There is something to decide.
  void execute(Answer* answer) {
    Request local = request_;
    local.items = {items_.data(), count_};
    if (!request_.each.empty()) local.each = {each_.data(), places_};
    if (!request_.tickets.empty()) local.tickets = {tickets_.data(), places_};
    if (!request_.tickets_out.empty()) local.tickets_out = {tickets_.data(), places_};
    store_->execute(local, answer);
    answer->decision.item = item_of(answer->decision);
    for (std::size_t i = 0; i < places_; ++i) {
      if (!request_.each.empty()) {
        Decision& d = request_.each[place_[i]] = each_[i];
        d.item = item_of(d);
      }
      if (!request_.tickets_out.empty()) request_.tickets_out[place_[i]] = tickets_[i];
    }
    answer->ticket = Ticket{};
  }

 private:
  std::int32_t item_of(const Decision& d) const {
    return static_cast<std::int32_t>(index_[static_cast<std::size_t>(d.item)]);
  }

  static constexpr std::size_t kMost = kMaxItems * kMaxRules;

  const Request& request_;
  Store* store_ = nullptr;
  std::array<Item, kMaxItems> items_;
  std::array<std::size_t, kMaxItems> index_{};  // of each in the request
  std::size_t count_ = 0;
  std::array<std::size_t, kMost> place_{};  // of each of their places in the request
  std::size_t places_ = 0;
  std::array<Decision, kMost> each_;
  std::array<Ticket, kMost> tickets_;
};

// Asks the local table, or has it change what was charged there.
void execute_locally(const Request& request, Answer* answer) {
  if (!request.items.empty()) return LocalItems(request).execute(answer);
  Request local = request;
  local.limiter = request.limiter->fallback();
  local.limiter->store().execute(local, answer);
}

void decide_locally(const Request& request, Reason reason, Answer* answer) {
  say_to_all(request, without_server(Source::kOpen, reason), 0, answer);  // who is passed over
  answer->decision = Decision{};
  execute_locally(request, answer);
  mark_local(reason, &answer->decision);
  for_items(request, [&](const Item& item, std::size_t, std::size_t place) {
    if (request.each.empty() || item.limiter->fallback() == nullptr) return;
    for (std::size_t r = 0; r < item.limiter->rules().size(); ++r) {
      mark_local(reason, &request.each[place + r]);
    }
  });
}

// A request with its subjects as keys have them.
class Written {
 public:
  Written(const Request& request, bool hash_all, const std::string& secret) : request_(request) {
    std::array<std::size_t, kMaxItems + 1> ends{};
    bool plain = true;
    for_items(request, [&](const Item& item, std::size_t, std::size_t) {
      plain = plain && !hash_all && is_plain_subject(item.key);
    });
    if (plain) return;
    for_items(request, [&](const Item& item, std::size_t i, std::size_t) {
      append_subject(item.key, hash_all, secret, &text_);
      ends[i + 1] = text_.size();
    });
    const auto subject = [&](std::size_t i) {
      return std::string_view(text_).substr(ends[i], ends[i + 1] - ends[i]);
    };
    if (request.items.empty()) request_.key = subject(0);
    for (std::size_t i = 0; i < request.items.size(); ++i) {
      items_[i] = request.items[i];
      items_[i].key = subject(i);
    }
    if (!request.items.empty()) request_.items = {items_.data(), request.items.size()};
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;

  const Request& request() const { return request_; }

 private:
  Request request_;
  std::string text_;
  std::array<Item, kMaxItems> items_;
};

void fail_without_memory(const Request& request, Reason reason, Answer* answer) {
  *answer = Answer{};
  answer->decision = unavailable(reason);
  std::fill(request.each.begin(), request.each.end(), unavailable(reason));
  std::fill(request.tickets_out.begin(), request.tickets_out.end(), Ticket{});
}

}  // namespace

void Failover::write_subjects(bool hash_all, std::string secret) {
  hash_all_ = hash_all;
  secret_ = std::move(secret);
}

void Failover::answer(const Request& request, Reason reason, Answer* answer) noexcept {
  counters_.failures.fetch_add(1, std::memory_order_relaxed);
  try {
    decide(request, reason, answer);
  } catch (const std::bad_alloc&) {
    fail_without_memory(request, reason, answer);
  }
  count(request, answer->decision);
}

void Failover::answer_unsent(const Request& request, Reason reason, Answer* answer) noexcept {
  try {
    const Written written(request, hash_all_, secret_);
    return this->answer(written.request(), reason, answer);
  } catch (const std::bad_alloc&) {
    counters_.failures.fetch_add(1, std::memory_order_relaxed);
    fail_without_memory(request, reason, answer);
  }
}

void Failover::decide(const Request& request, Reason reason, Answer* answer) {
  fail_request(request, reason, answer);
  if (!is_ask(request.op) || reason == Reason::kCancelled) return;
  if (answer->decision.outcome == Outcome::kNever) return;
  const auto [mode, whose] = mode_of(request);
  switch (mode) {
    case FailureMode::kLocal:
      return decide_locally(request, reason, answer);
    case FailureMode::kOpen:
      return say_to_all(request, without_server(Source::kOpen, reason), whose, answer);
    case FailureMode::kClosed:
      return say_to_all(request, without_server(Source::kClosed, reason), whose, answer);
    case FailureMode::kError:
      return;
  }
}

void Failover::count(const Request& request, const Decision& decision) {
  if (request.op != Op::kCheck) return;
  std::atomic<std::uint64_t>* counter = nullptr;
  switch (decision.source) {
    case Source::kLocal:
      counter = decision.outcome == Outcome::kAllowed ? &counters_.local_allowed
                                                      : &counters_.local_denied;
      break;
    case Source::kOpen:
      counter = &counters_.opened;
      break;
    case Source::kClosed:
      counter = &counters_.closed;
      break;
    case Source::kStore:
    case Source::kCache:
      return;
  }
  counter->fetch_add(1, std::memory_order_relaxed);
}

bool Failover::answers_itself(const Request& request, Answer* answer) const {
  if (is_ask(request.op)) return false;
  bool has_table = false;
  bool local = false;
  bool remote = false;
  for_items(request, [&](const Item& item, std::size_t, std::size_t place) {
    const bool gives_back = request.op == Op::kRefund || request.op == Op::kSettle;
    if (gives_back && item.limiter->remembers_denials()) item.limiter->stop_remembering_denials();
    const bool has_fallback = item.limiter->fallback() != nullptr;
    has_table = has_table || has_fallback;
    for (std::size_t r = 0; !request.tickets.empty() && r < places_of(*item.limiter); ++r) {
      const Ticket& ticket = request.tickets[place + r];
      if (ticket.n == 0) continue;
      (has_fallback && ticket.epoch != 0 ? local : remote) = true;
    }
  });
  if (!(request.op == Op::kReset ? has_table : local)) return false;
  const Written written(request, hash_all_, secret_);
  execute_locally(written.request(), answer);
  if (remote || request.op == Op::kReset) {  // the server has its part in it
    *answer = Answer{};
    return false;
  }
  answer->decision.source = Source::kLocal;
  return true;
}

}  // namespace saqiya

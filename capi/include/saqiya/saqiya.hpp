// saqiya.hpp: the C API of saqiya.h for C++17, header only.
//
//     saqiya::Store store("memory://");
//     saqiya::Limiter limiter(store, "5/s burst 20");
//     if (saqiya::allowed(limiter.check("user:42"))) { ... }
//
// Handles are move-only and free themselves; they may be destroyed in any order. Misuse throws
// saqiya::Error; a denial or a store that fails does not: look at the decision's outcome.
// Threads, fork, units and ranges are as saqiya.h says; get() reaches the C handle.
// A handle that was moved from may only be destroyed or assigned to.
//
// Everything lives in the inline namespace saqiya::api, so that its symbols differ from those of
// saqiya's own core when both are linked into one binary.
#ifndef SAQIYA_SAQIYA_HPP
#define SAQIYA_SAQIYA_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "saqiya/saqiya.h"

namespace saqiya {
inline namespace api {

using Micros = std::chrono::duration<std::int64_t, std::micro>;
using Decision = saqiya_decision;
using Ticket = saqiya_ticket;
using Rule = saqiya_rule;
using Completion = saqiya_completion;
using Event = saqiya_event;

inline constexpr Micros kNoWait{SAQIYA_NO_WAIT};
inline constexpr Micros kForever{SAQIYA_FOREVER};

/// Misuse, a bad policy or URL, or a lack of memory. what() is one sentence.
class Error : public std::runtime_error {
 public:
  Error(int code, int position, const char* message)
      : std::runtime_error(message), code_(code), position_(position) {}

  int code() const noexcept { return code_; }  ///< a saqiya_status
  const char* code_name() const noexcept { return saqiya_status_name(code_); }
  int position() const noexcept { return position_; }  ///< byte offset in the text read, or -1

 private:
  int code_;
  int position_;
};

namespace detail {

inline void require(int status) {
  if (status != SAQIYA_OK) throw Error(status, -1, saqiya_status_message(status));
}

inline void require(int status, const saqiya_error& error) {
  if (status == SAQIYA_OK) return;
  const bool has_message = error.message[0] != '\0';
  throw Error(status, error.position, has_message ? error.message : saqiya_status_message(status));
}

/// A closing zero in the midst of a text would hide the rest of it.
inline const char* text(const std::string& s) {
  if (s.find('\0') != std::string::npos)
    throw Error(SAQIYA_INVALID, -1, "the text holds a zero byte");
  return s.c_str();
}

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* handle) const noexcept {
    Free(handle);
  }
};

template <typename T, auto Free>
using Handle = std::unique_ptr<T, Deleter<Free>>;

}  // namespace detail

inline bool allowed(const Decision& decision) noexcept {
  return decision.outcome == SAQIYA_ALLOWED;
}

/// A manual clock, for tests and simulation.
class Clock {
 public:
  explicit Clock(Micros now = Micros{0}) {
    saqiya_clock* clock = nullptr;
    detail::require(saqiya_clock_create_manual(now.count(), &clock));
    handle_.reset(clock);
  }

  void set(Micros now) { detail::require(saqiya_clock_set(get(), now.count())); }
  void set_wall(Micros wall) { detail::require(saqiya_clock_set_wall(get(), wall.count())); }
  void advance(Micros by) { detail::require(saqiya_clock_advance(get(), by.count())); }
  Micros now() const { return read().first; }
  Micros wall() const { return read().second; }
  saqiya_clock* get() const noexcept { return handle_.get(); }

 private:
  std::pair<Micros, Micros> read() const {
    std::int64_t monotonic = 0;
    std::int64_t wall = 0;
    detail::require(saqiya_clock_now(get(), &monotonic, &wall));
    return {Micros{monotonic}, Micros{wall}};
  }

  detail::Handle<saqiya_clock, saqiya_clock_free> handle_;
};

/// saqiya_store_options, initialised.
struct StoreOptions : saqiya_store_options {
  StoreOptions() { saqiya_store_options_init(this, sizeof *this); }
};

class Store {
 public:
  explicit Store(const std::string& url, const StoreOptions& options = StoreOptions()) {
    saqiya_store* store = nullptr;
    saqiya_error error = {};
    detail::require(saqiya_store_open(detail::text(url), &options, &store, &error), error);
    handle_.reset(store);
  }

  bool is_local() const noexcept { return saqiya_store_is_local(get()) != 0; }

  saqiya_store_stats stats() const {
    saqiya_store_stats stats;
    saqiya_store_stats_init(&stats, sizeof stats);
    detail::require(saqiya_store_get_stats(get(), &stats));
    return stats;
  }

  /// Cheap enough to ask after every call.
  bool has_event() const noexcept { return saqiya_store_has_event(get()) != 0; }
  /// The oldest one not yet taken; its kind is SAQIYA_EVENT_NONE when there is none.
  Event next_event() {
    Event event;
    saqiya_event_init(&event, sizeof event);
    detail::require(saqiya_store_next_event(get(), &event));
    return event;
  }

  saqiya_store* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<saqiya_store, saqiya_store_free> handle_;
};

/// saqiya_limiter_options, initialised. The texts must live until the limiter has been made.
struct LimiterOptions : saqiya_limiter_options {
  LimiterOptions() { saqiya_limiter_options_init(this, sizeof *this); }
};

namespace detail {

inline Rule rule(std::uint32_t algorithm, std::int64_t limit, Micros period) {
  Rule rule;
  saqiya_rule_init(&rule, sizeof rule);
  rule.algorithm = algorithm;
  rule.capacity = limit;
  rule.period_us = period.count();
  return rule;
}

}  // namespace detail

/// `tokens` more every `period`, `capacity` at the most. With a queue so many more may wait.
inline Rule token_bucket(std::int64_t capacity, std::int64_t tokens, Micros period,
                         std::int64_t queue = 0) {
  Rule rule = detail::rule(SAQIYA_TOKEN_BUCKET, capacity, period);
  rule.tokens = tokens;
  rule.queue = queue;
  return rule;
}

inline Rule fixed_window(std::int64_t limit, Micros period) {
  return detail::rule(SAQIYA_FIXED_WINDOW, limit, period);
}

inline Rule sliding_window(std::int64_t limit, Micros period) {
  return detail::rule(SAQIYA_SLIDING_WINDOW, limit, period);
}

inline Rule sliding_log(std::int64_t limit, Micros period) {
  return detail::rule(SAQIYA_SLIDING_LOG, limit, period);
}

/// zone: NULL for UTC; must live until the limiter has been made.
inline Rule calendar(std::int64_t limit, saqiya_calendar_unit unit, const char* zone = nullptr,
                     int anchor_day = 0) {
  Rule rule = detail::rule(SAQIYA_CALENDAR, limit, Micros{0});
  rule.unit = unit;
  rule.anchor_day = anchor_day;
  rule.zone = zone;
  return rule;
}

inline Rule concurrency(std::int64_t limit, Micros ttl) {
  return detail::rule(SAQIYA_CONCURRENCY, limit, ttl);
}

/// What a charge can be given back by: one ticket for each rule, of each limiter that was asked.
/// Plain data. Make one and use it again: it keeps its memory.
class Tickets {
 public:
  Tickets() = default;
  explicit Tickets(std::vector<Ticket> tickets) : tickets_(std::move(tickets)) {}
  /// Of a completion: the one of a limiter of one rule.
  explicit Tickets(const Ticket& ticket) : tickets_(1, ticket) {}

  std::size_t size() const noexcept { return tickets_.size(); }
  const Ticket& operator[](std::size_t index) const { return tickets_[index]; }
  Ticket* data() noexcept { return tickets_.data(); }
  const Ticket* data() const noexcept { return tickets_.data(); }

  /// `count` empty ones.
  void reset(std::size_t count) { tickets_.assign(count, Ticket{}); }

 private:
  std::vector<Ticket> tickets_;
};

namespace detail {

/// Room for so many tickets, or NULL when none are wanted.
inline Ticket* room(Tickets* tickets, std::size_t count) {
  if (tickets == nullptr) return nullptr;
  tickets->reset(count);
  return tickets->data();
}

/// The `count` tickets from the `first` on; there must be so many.
template <typename T>
auto* part(T& tickets, std::size_t first, std::size_t count) {
  if (first > tickets.size() || count > tickets.size() - first) {
    throw Error(SAQIYA_INVALID, -1, "there is not one ticket for each rule");
  }
  return tickets.data() + first;
}

}  // namespace detail

class Limiter {
 public:
  Limiter(const Store& store, const std::string& policy,
          const LimiterOptions& options = LimiterOptions()) {
    saqiya_limiter* limiter = nullptr;
    saqiya_error error = {};
    detail::require(
        saqiya_limiter_create(store.get(), detail::text(policy), &options, &limiter, &error),
        error);
    handle_.reset(limiter);
  }

  Limiter(const Store& store, const Rule& rule, const LimiterOptions& options = LimiterOptions())
      : Limiter(store, &rule, 1, options) {}

  /// Several rules, decided together.
  Limiter(const Store& store, const std::vector<Rule>& rules,
          const LimiterOptions& options = LimiterOptions())
      : Limiter(store, rules.data(), rules.size(), options) {}

  /// The tickets, if they are asked for, are what refund(), settle() and renew() take.
  Decision check(std::string_view key, std::int64_t cost = 1, Tickets* tickets = nullptr) {
    return check_wait(key, Micros{0}, cost, tickets);
  }

  /// Does not sleep: the caller does, for decision.delay_us.
  Decision check_wait(std::string_view key, Micros max_wait, std::int64_t cost = 1,
                      Tickets* tickets = nullptr) {
    Decision decision;
    detail::require(saqiya_limiter_check_wait(get(), key.data(), key.size(), cost, max_wait.count(),
                                              &decision, detail::room(tickets, rule_count())));
    return decision;
  }

  /// Sleeps until it is allowed, at most for the timeout.
  Decision acquire(std::string_view key, Micros timeout, std::int64_t cost = 1,
                   Tickets* tickets = nullptr) {
    Decision decision;
    detail::require(saqiya_limiter_acquire(get(), key.data(), key.size(), cost, timeout.count(),
                                           &decision, detail::room(tickets, rule_count())));
    return decision;
  }

  Decision peek(std::string_view key, std::int64_t cost = 1) {
    Decision decision;
    detail::require(saqiya_limiter_peek(get(), key.data(), key.size(), cost, &decision));
    return decision;
  }

  /// first: where the tickets of this limiter begin, among those of several asked together.
  Decision refund(std::string_view key, Tickets& tickets, std::size_t first = 0) {
    Decision decision;
    detail::require(saqiya_limiter_refund(get(), key.data(), key.size(),
                                          detail::part(tickets, first, rule_count()), &decision));
    return decision;
  }

  /// The charge becomes `cost`.
  Decision settle(std::string_view key, Tickets& tickets, std::int64_t cost,
                  std::size_t first = 0) {
    Decision decision;
    detail::require(saqiya_limiter_settle(get(), key.data(), key.size(),
                                          detail::part(tickets, first, rule_count()), cost,
                                          &decision));
    return decision;
  }

  /// The lease lives for its whole time again.
  Decision renew(std::string_view key, const Tickets& tickets, std::size_t first = 0) {
    Decision decision;
    detail::require(saqiya_limiter_renew(get(), key.data(), key.size(),
                                         detail::part(tickets, first, rule_count()), &decision));
    return decision;
  }

  Decision reset(std::string_view key) {
    Decision decision;
    detail::require(saqiya_limiter_reset(get(), key.data(), key.size(), &decision));
    return decision;
  }

  /// tickets: those of the i-th key begin at i * rule_count().
  std::vector<Decision> check_many(const std::vector<saqiya_key>& keys, std::int64_t cost = 1,
                                   Tickets* tickets = nullptr) {
    std::vector<Decision> decisions(keys.size());
    detail::require(saqiya_limiter_check_many(get(), keys.data(), keys.size(), cost,
                                              decisions.data(),
                                              detail::room(tickets, keys.size() * rule_count())));
    return decisions;
  }

  /// Tokens remaining, minus the wait in microseconds, or a SAQIYA_TAKE_ constant. Never throws.
  std::int64_t take(std::string_view key, std::int64_t cost = 1) noexcept {
    return saqiya_limiter_take(get(), key.data(), key.size(), cost);
  }

  const char* policy() const noexcept { return saqiya_limiter_policy(get()); }
  const char* name() const noexcept { return saqiya_limiter_name(get()); }

  std::size_t rule_count() const noexcept { return saqiya_limiter_rule_count(get()); }

  Rule rule(std::size_t index = 0) const {
    Rule rule;
    saqiya_rule_init(&rule, sizeof rule);
    detail::require(saqiya_limiter_get_rule(get(), index, &rule));
    return rule;
  }

  saqiya_limiter* get() const noexcept { return handle_.get(); }

 private:
  Limiter(const Store& store, const Rule* rules, std::size_t count, const LimiterOptions& options) {
    saqiya_limiter* limiter = nullptr;
    saqiya_error error = {};
    detail::require(
        saqiya_limiter_create_rules(store.get(), rules, count, &options, &limiter, &error), error);
    handle_.reset(limiter);
  }

  detail::Handle<saqiya_limiter, saqiya_limiter_free> handle_;
};

/// One of several that are decided together. Borrows the limiter and the key.
struct Item : saqiya_item {
  Item(const Limiter& of, std::string_view on, std::int64_t costs = 1)
      : saqiya_item{of.get(), on.data(), on.size(), costs} {}
};

using Items = std::vector<Item>;

namespace detail {

static_assert(sizeof(Item) == sizeof(saqiya_item), "a vector of them is an array of C's");

inline const saqiya_item* first(const Items& items) { return items.data(); }

inline std::size_t rule_count(const Items& items) {
  std::size_t count = 0;
  for (const Item& item : items) count += saqiya_limiter_rule_count(item.limiter);
  return count;
}

inline Decision* room(std::vector<Decision>* each, std::size_t count) {
  if (each == nullptr) return nullptr;
  each->assign(count, Decision{});
  return each->data();
}

}  // namespace detail

/// All are charged, or none is. each: what every rule says, item by item.
inline Decision check_all(const Items& items, Tickets* tickets = nullptr,
                          std::vector<Decision>* each = nullptr, Micros max_wait = Micros{0}) {
  const std::size_t rules = detail::rule_count(items);
  Decision decision;
  detail::require(saqiya_check_all(detail::first(items), items.size(), max_wait.count(), &decision,
                                   detail::room(each, rules), detail::room(tickets, rules)));
  return decision;
}

inline Decision peek_all(const Items& items, std::vector<Decision>* each = nullptr) {
  Decision decision;
  detail::require(saqiya_peek_all(detail::first(items), items.size(), &decision,
                                  detail::room(each, detail::rule_count(items))));
  return decision;
}

/// Sleeps until all are allowed, at most for the timeout.
inline Decision acquire_all(const Items& items, Micros timeout, Tickets* tickets = nullptr,
                            std::vector<Decision>* each = nullptr) {
  const std::size_t rules = detail::rule_count(items);
  Decision decision;
  detail::require(saqiya_acquire_all(detail::first(items), items.size(), timeout.count(), &decision,
                                     detail::room(each, rules), detail::room(tickets, rules)));
  return decision;
}

/// Of all items; to give back one alone, see Limiter::refund().
inline Decision refund_all(const Items& items, Tickets& tickets) {
  Decision decision;
  detail::require(saqiya_refund_all(detail::first(items), items.size(),
                                    detail::part(tickets, 0, detail::rule_count(items)),
                                    &decision));
  return decision;
}

/// How long to sleep before the try after the `attempt`-th (from 0); negative: give up.
inline Micros acquire_pause(const Items& items, const Decision& decision, std::uint32_t attempt,
                            Micros left) noexcept {
  return Micros{saqiya_acquire_pause_us(detail::first(items), items.size(), &decision, attempt,
                                        left.count())};
}

/// saqiya_queue_options, initialised.
struct QueueOptions : saqiya_queue_options {
  QueueOptions() { saqiya_queue_options_init(this, sizeof *this); }
};

/// saqiya_request, initialised. Everything it points to must live until it has been submitted; what
/// each and tickets point to until the completion has been drained.
struct Request : saqiya_request {
  Request() { saqiya_request_init(this, sizeof *this); }

  /// A check of one.
  Request(const Limiter& of, std::string_view on, std::int64_t costs = 1) : Request() {
    limiter = of.get();
    key = on.data();
    key_len = on.size();
    cost = costs;
  }

  /// A check of several together.
  explicit Request(const Items& of) : Request() {
    items = detail::first(of);
    item_count = of.size();
  }
};

/// Requests for an event loop; belongs to one thread at a time.
class Queue {
 public:
  explicit Queue(const Store& store, const QueueOptions& options = QueueOptions()) {
    saqiya_queue* queue = nullptr;
    saqiya_error error = {};
    detail::require(saqiya_queue_create(store.get(), &options, &queue, &error), error);
    handle_.reset(queue);
  }

  /// False when the queue is full.
  bool submit(const Request& request) {
    const int status = saqiya_queue_submit(get(), &request);
    if (status == SAQIYA_QUEUE_FULL) return false;
    detail::require(status);
    return true;
  }

  /// False when nothing with this user_data is pending.
  bool cancel(std::uint64_t user_data) noexcept {
    return saqiya_queue_cancel(get(), user_data) == SAQIYA_OK;
  }

  void process() { detail::require(saqiya_queue_process(get())); }

  std::size_t drain(Completion* completions, std::size_t max) {
    std::size_t count = 0;
    detail::require(saqiya_queue_drain(get(), completions, max, &count));
    return count;
  }

  int fd() const noexcept { return saqiya_queue_fd(get()); }
  /// -1: no need to call process again before something is submitted or fd() is readable.
  Micros timeout() const noexcept { return Micros{saqiya_queue_timeout_us(get())}; }
  std::size_t pending() const noexcept { return saqiya_queue_pending(get()); }
  void wait(Micros max_wait) { detail::require(saqiya_queue_wait(get(), max_wait.count())); }
  void close() { detail::require(saqiya_queue_close(get())); }
  saqiya_queue* get() const noexcept { return handle_.get(); }

 private:
  detail::Handle<saqiya_queue, saqiya_queue_free> handle_;
};

}  // namespace api
}  // namespace saqiya

#endif  // SAQIYA_SAQIYA_HPP

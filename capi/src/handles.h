// What the opaque handles hold, and the one guard every entry point that may allocate passes
// through.
#pragma once

#include <saqiya/saqiya.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/decision.h"
#include "core/group.h"
#include "core/http/headers.h"
#include "core/limiter.h"
#include "core/store.h"
#include "core/time.h"

struct saqiya_clock {
  std::shared_ptr<saqiya::ManualClock> clock;
};

struct saqiya_store {
  std::shared_ptr<saqiya::Store> store;
};

struct saqiya_limiter {
  std::shared_ptr<saqiya::Limiter> limiter;
};

struct saqiya_queue {
  std::unique_ptr<saqiya::Queue> queue;
  std::shared_ptr<saqiya::Store> store;
};

namespace saqiya::capi {

// The C structs and core's are one layout; answers are copied whole.
static_assert(sizeof(saqiya_decision) == 64 && sizeof(Decision) == 64);
static_assert(sizeof(saqiya_ticket) == 48 && sizeof(Ticket) == 48);
static_assert(sizeof(saqiya_completion) == 120 && sizeof(Completion) == 120);
static_assert(sizeof(saqiya_http_numbers) == 48 && sizeof(http::Numbers) == 48);
static_assert(offsetof(saqiya_decision, limit) == offsetof(Decision, limit));
static_assert(offsetof(saqiya_decision, remaining) == offsetof(Decision, remaining));
static_assert(offsetof(saqiya_decision, retry_after_us) == offsetof(Decision, retry_after));
static_assert(offsetof(saqiya_decision, reset_after_us) == offsetof(Decision, reset_after));
static_assert(offsetof(saqiya_decision, delay_us) == offsetof(Decision, delay));
static_assert(offsetof(saqiya_decision, rule) == offsetof(Decision, rule));
static_assert(offsetof(saqiya_decision, item) == offsetof(Decision, item));
static_assert(offsetof(saqiya_decision, source) == offsetof(Decision, source));
static_assert(offsetof(saqiya_ticket, n) == offsetof(Ticket, n));
static_assert(offsetof(saqiya_ticket, cost) == offsetof(Ticket, cost));
static_assert(offsetof(saqiya_ticket, epoch) == offsetof(Ticket, epoch));
static_assert(offsetof(saqiya_ticket, flags) == offsetof(Ticket, flags));
static_assert(offsetof(saqiya_ticket, algorithm) == offsetof(Ticket, algorithm));
static_assert(offsetof(saqiya_ticket, lease) == offsetof(Ticket, lease));
static_assert(offsetof(saqiya_completion, decision) == offsetof(Completion, decision));
static_assert(offsetof(saqiya_completion, ticket) == offsetof(Completion, ticket));
static_assert(offsetof(saqiya_http_numbers, t_s) == offsetof(http::Numbers, t_s));
static_assert(SAQIYA_MAX_KEY == kMaxKey && SAQIYA_FOREVER == kForever);
static_assert(SAQIYA_MAX_COST == kMaxCount && SAQIYA_NO_WAIT == kNoWait);
static_assert(sizeof(saqiya_event::server) == sizeof(Event::server));
static_assert(sizeof(saqiya_event::message) == sizeof(Event::message));
static_assert(std::size(decltype(saqiya_store_stats::latency){}) == StoreStats::kLatencies);
static_assert(SAQIYA_FAILURE_LOCAL == static_cast<int>(FailureMode::kLocal));
static_assert(SAQIYA_FAILURE_ERROR == static_cast<int>(FailureMode::kError));
static_assert(SAQIYA_MAX_RULES == kMaxRules && SAQIYA_MAX_ITEMS == kMaxItems);

template <typename To, typename From>
void copy_as(const From& from, To* to) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To>);
  std::memcpy(to, static_cast<const void*>(&from), sizeof from);
}

template <typename T>
void clear(T* out, std::size_t count = 1) {
  if (out != nullptr) std::memset(out, 0, count * sizeof *out);
}

// The caller's room for answers as core writes to it (one layout, see above). Empty when null.
inline std::span<Decision> as_decisions(saqiya_decision* decisions, std::size_t count) {
  if (decisions == nullptr) return {};
  return {reinterpret_cast<Decision*>(decisions), count};
}
inline std::span<Ticket> as_tickets(saqiya_ticket* tickets, std::size_t count) {
  if (tickets == nullptr) return {};
  return {reinterpret_cast<Ticket*>(tickets), count};
}
inline std::span<const Ticket> as_tickets(const saqiya_ticket* tickets, std::size_t count) {
  return {reinterpret_cast<const Ticket*>(tickets), count};
}

// After a refund or a settlement under so many rules; of all items' rules after one of several.
// What the store did not do leaves its tickets as they are, but not those of the table in this
// process.
inline void mark_spent(Op op, const Decision& decision, saqiya_ticket* tickets, std::size_t count) {
  const bool undone =
      decision.outcome == Outcome::kUnavailable && is_certainly_undone(decision.reason);
  for (std::size_t i = 0; i < count; ++i) {
    Ticket ticket;
    copy_as(tickets[i], &ticket);
    if (undone && ticket.epoch == 0) continue;
    if (!leaves_alone(op, ticket, count)) tickets[i].flags |= Ticket::kSpent;
  }
}

template <typename Body>
int guard(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return SAQIYA_NO_MEMORY;
  } catch (...) {
    return SAQIYA_INTERNAL;
  }
}

// Fills *error, when there is one, and returns the code.
int fail(saqiya_error* error, int code, std::string_view message, std::int32_t position = -1);

constexpr std::size_t kLeastSized = 2 * sizeof(std::uint32_t);
constexpr std::size_t kMostSized = 4096;

// Makes a caller's struct all zero but for its size, which may be an older or newer version's.
// Returns whether it is one at all.
template <typename T>
bool init_sized(T* out, std::size_t size) {
  if (out == nullptr || size < kLeastSized || size > kMostSized) return false;
  std::memset(static_cast<void*>(out), 0, size);
  out->size = static_cast<std::uint32_t>(size);
  return true;
}

// Fills a caller's struct, as much of it as the caller knows, from one of this version.
template <typename T>
bool write_sized(const T& in, T* out) {
  if (out == nullptr) return false;
  const std::uint32_t size = out->size;
  if (!init_sized(out, size)) return false;
  std::memcpy(static_cast<void*>(out), &in, std::min<std::size_t>(size, sizeof in));
  out->size = size;
  return true;
}

// The same for calls that explain their failures: what the body has not explained gets the status's
// own message.
template <typename Body>
int guard(saqiya_error* error, Body&& body) noexcept {
  const int code = guard(std::forward<Body>(body));
  if (code != SAQIYA_OK && error != nullptr && error->code == 0) {
    fail(error, code, saqiya_status_message(code));
  }
  return code;
}

// Reads a struct that begins with its size, from an older or newer caller. False when the size
// makes no sense or bytes that this version does not know are set.
template <typename T>
bool read_sized(const T* in, T* out) {
  const std::uint32_t size = in->size;
  if (size < kLeastSized || size > kMostSized) return false;
  if (size % alignof(T) != 0) return false;  // no version's: it would end within a field
  const auto* bytes = reinterpret_cast<const unsigned char*>(in);
  if (size > sizeof(T) &&
      !std::all_of(bytes + sizeof(T), bytes + size, [](unsigned char b) { return b == 0; })) {
    return false;
  }
  std::memset(out, 0, sizeof *out);
  std::memcpy(out, bytes, std::min<std::size_t>(size, sizeof(T)));
  return true;
}

inline bool is_key(const void* key, std::uint64_t len) {
  return len <= kMaxKey && (key != nullptr || len == 0);
}

inline bool is_cost(std::int64_t cost) { return cost >= 0 && cost <= kMaxCount; }
inline bool is_wait(std::int64_t max_wait) { return max_wait >= kNoWait; }

// As many tickets, and decisions of each rule, as a limiter has: 1 when it is unlimited, too.
inline std::size_t rule_count(const Limiter& limiter) {
  return std::max<std::size_t>(limiter.rules().size(), 1);
}

inline std::string_view as_key(const void* key, std::uint64_t len) {
  return {static_cast<const char*>(key), static_cast<std::size_t>(len)};
}

}  // namespace saqiya::capi

// Waiting until a request is allowed, for callers that may sleep.
#include <time.h>

#include <cstdint>

#include "items.h"

namespace {

using saqiya::Micros;
using saqiya::capi::clear;
using saqiya::capi::room_of;

// While a lease binds, which may be released at any time.
constexpr Micros kFirstLook = 5'000;
constexpr Micros kLongestLook = 100'000;

bool are_items(const saqiya_item* items, std::size_t count) {
  if (items == nullptr || count == 0 || count > SAQIYA_MAX_ITEMS) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (items[i].limiter == nullptr) return false;
  }
  return true;
}

bool can_reserve(const saqiya_item* items, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!saqiya::can_reserve(*items[i].limiter->limiter)) return false;
  }
  return true;
}

// Signals do not cut it short.
void sleep_for(Micros pause) {
  constexpr Micros kLongest = 3'600 * saqiya::kMicrosPerSecond;
  const Micros start = saqiya::system_monotonic();
  for (Micros left = pause; left > 0; left = pause - (saqiya::system_monotonic() - start)) {
    const Micros now = std::min(left, kLongest);
    const timespec ts = {static_cast<time_t>(now / saqiya::kMicrosPerSecond),
                         static_cast<long>(now % saqiya::kMicrosPerSecond) * 1000};
    nanosleep(&ts, nullptr);
  }
}

// How much of the timeout is left.
class Countdown {
 public:
  explicit Countdown(Micros timeout) : timeout_(timeout) {}
  Micros left() const {
    return std::max<Micros>(0, timeout_ - (saqiya::system_monotonic() - start_));
  }

 private:
  const Micros timeout_;
  const Micros start_ = saqiya::system_monotonic();
};

// A rule's queue may have let the request in for longer than is left, since only reservations are
// asked for within a time. Then it is given back, and what a check without waiting says stands.
int wait_no_longer(const saqiya_item* items, std::size_t count, saqiya_decision* decision,
                   saqiya_decision* each, saqiya_ticket* tickets) {
  const int code = saqiya_refund_all(items, count, tickets, nullptr);
  if (code != SAQIYA_OK) return code;
  return saqiya_check_all(items, count, SAQIYA_NO_WAIT, decision, each, tickets);
}

int acquire(const saqiya_item* items, std::size_t count, Micros timeout, saqiya_decision* decision,
            saqiya_decision* each, saqiya_ticket* tickets) {
  const bool reserves = can_reserve(items, count);
  saqiya_ticket own[SAQIYA_MAX_ITEMS * SAQIYA_MAX_RULES];
  saqiya_ticket* const held = tickets == nullptr && !reserves ? own : tickets;
  const Countdown countdown(timeout);
  Micros left = timeout;
  for (std::uint32_t attempt = 0;; ++attempt) {
    const Micros max_wait = left > 0 ? left : SAQIYA_NO_WAIT;
    int code = saqiya_check_all(items, count, max_wait, decision, each, held);
    left = countdown.left();
    if (code == SAQIYA_OK && !reserves && decision->delay_us > left) {
      code = wait_no_longer(items, count, decision, each, held);
      left = countdown.left();
    }
    if (code != SAQIYA_OK) return code;
    if (decision->outcome == SAQIYA_ALLOWED) {
      sleep_for(decision->delay_us);
      return SAQIYA_OK;
    }
    const Micros pause = saqiya_acquire_pause_us(items, count, decision, attempt, left);
    if (pause < 0) return SAQIYA_OK;
    sleep_for(pause);
    left = countdown.left();
  }
}

}  // namespace

extern "C" {

int64_t saqiya_acquire_pause_us(const saqiya_item* items, size_t count,
                                const saqiya_decision* decision, uint32_t attempt,
                                int64_t left_us) {
  constexpr int64_t kGiveUp = -1;
  if (!are_items(items, count) || decision == nullptr) return kGiveUp;
  if (decision->outcome != SAQIYA_DENIED || decision->retry_after_us < 0 || left_us < 0) {
    return kGiveUp;
  }
  if (can_reserve(items, count)) return kGiveUp;  // it would have been, had there been the time
  if (decision->item < 0 || static_cast<size_t>(decision->item) >= count) return kGiveUp;
  const auto rules = items[decision->item].limiter->limiter->rules();
  if (decision->rule < 0 || static_cast<size_t>(decision->rule) >= rules.size()) return kGiveUp;
  if (rules[static_cast<size_t>(decision->rule)].algorithm == saqiya::Algorithm::kConcurrency) {
    if (left_us == 0) return kGiveUp;
    const Micros look = attempt < 5 ? std::min(kFirstLook << attempt, kLongestLook) : kLongestLook;
    return std::min({decision->retry_after_us, left_us, look});
  }
  return decision->retry_after_us <= left_us ? decision->retry_after_us : kGiveUp;
}

int saqiya_acquire_all(const saqiya_item* items, size_t count, int64_t timeout_us,
                       saqiya_decision* decision, saqiya_decision* each, saqiya_ticket* tickets) {
  if (timeout_us >= 0 && are_items(items, count) && decision != nullptr) {
    return acquire(items, count, timeout_us, decision, each, tickets);
  }
  const size_t room = room_of(items, count);
  clear(decision);
  clear(each, room);
  clear(tickets, room);
  return SAQIYA_INVALID;
}

int saqiya_limiter_acquire(saqiya_limiter* limiter, const void* key, size_t key_len, int64_t cost,
                           int64_t timeout_us, saqiya_decision* decision, saqiya_ticket* ticket) {
  if (limiter == nullptr) {
    clear(decision);
    clear(ticket);
    return SAQIYA_INVALID;
  }
  const saqiya_item item = {limiter, key, key_len, cost};
  return saqiya_acquire_all(&item, 1, timeout_us, decision, nullptr, ticket);
}

}  // extern "C"

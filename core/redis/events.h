// What an operator should be told of a store's servers: when one went away and came back, and when
// one refuses. Few, however many requests there are; kept until somebody takes them.
//
// Told are the outages of the store as a whole: from when the first breaker opens until none is
// open. Of outages that begin within kQuiet after one that was told, only one that lasts beyond
// that time is told, late. Of refusals the first of each reason per kRefusalPause.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/decision.h"
#include "core/fork.h"
#include "core/store.h"
#include "core/time.h"

namespace saqiya::redis {

class Events {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr Micros kQuiet = 10 * kMicrosPerSecond;
  static constexpr Micros kRefusalPause = 60 * kMicrosPerSecond;

  // unanswered: counts the requests that were not answered; outlives this.
  explicit Events(const std::atomic<std::uint64_t>& unanswered) : unanswered_(unanswered) {
    refused_at_.fill(kNever);
  }

  // A breaker opened, or closed: once for each time. server: "host:port" or a path, without a user
  // or password. now: monotonic. problem: what there is to say beyond the reason, without a
  // password. None of these throws.
  void outage(std::string_view server, Reason reason, Micros now, std::string_view problem = {});
  void recovered(std::string_view server, Micros now);
  // A server that answers refuses a request. text: its error reply, or what there is to say
  // instead.
  void refused(Reason reason, std::string_view server, std::string_view text, Micros now);

  // Whether next() would find one. Cheap.
  bool any() const;
  bool next(Event* event);

  // A breaker is open. In a child of a fork they begin closed.
  bool is_degraded() const {
    return open_.load(std::memory_order_relaxed) > 0 &&
           generation_.load(std::memory_order_relaxed) == fork_generation();
  }
  std::uint64_t outages() const { return outages_.load(std::memory_order_relaxed); }

 private:
  class Guard;
  static constexpr Micros kNever = -kForever / 2;  // in the past
  struct Outage {
    std::array<char, sizeof(Event::server)> server{};
    Reason reason = Reason::kNone;
    Micros began = 0;
    Micros wall = 0;
    std::uint64_t unanswered = 0;  // until then
    bool told = false;
    std::array<char, 128> problem{};
  };

  void tell(const Event& event);
  void tell_outage();
  void tell_if_late(Micros now);

  const std::atomic<std::uint64_t>& unanswered_;
  // Breakers. Below zero for a moment: of two threads the one that closed a breaker may come here
  // before the one that opened it.
  std::atomic<int> open_{0};
  std::atomic<std::uint64_t> outages_{0};
  std::atomic<std::uint32_t> count_{0};       // of what can be taken
  std::atomic<Micros> late_at_{kForever};     // when the outage under way is told all the same
  std::atomic<std::uint64_t> holder_{0};      // 0, or the fork generation that holds the rest
  std::atomic<std::uint64_t> generation_{0};  // that it belongs to
  std::array<Event, kMost> ring_;
  std::uint32_t first_ = 0;
  std::uint32_t suppressed_ = 0;
  Outage outage_;
  Micros told_at_ = kNever;            // when the last outage that was told began
  std::array<Micros, 16> refused_at_;  // by reason
};

}  // namespace saqiya::redis

// What the memory store does with a request: the steps, applied to the entries of its table.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/limiter.h"
#include "core/memory_table.h"
#include "core/store.h"

namespace saqiya {

// The short way, of a check or peek under one token bucket.
void check_bucket(MemoryTable& table, const Clock* clock, const Request& request, Answer* answer);

class MemorySteps {
 public:
  // All of them outlive this. clock: null: the system's.
  MemorySteps(MemoryTable& table, const Clock* clock, const SipKey& secret)
      : table_(table), clock_(clock), secret_(secret) {}

  // Strong guarantee: what throws std::bad_alloc has changed nothing.
  void execute(const Request& request, Answer* answer);
  // Refunds by the tickets of a check: answer's and tickets_out. Takes no memory.
  void take_back(const Request& request, const Answer& answer);

 private:
  Micros monotonic() const { return clock_ != nullptr ? clock_->monotonic() : system_monotonic(); }
  Micros wall() const { return clock_ != nullptr ? clock_->wall() : system_wall(); }
  Micros now_of(const Rule& rule) const { return rule.uses_wall_clock() ? wall() : monotonic(); }
  static Hash128 hash(const Limiter& limiter, std::size_t rule, std::string_view key) {
    return keyed_hash(limiter.binding(rule).hash_key, key);
  }
  std::uint64_t new_lease() const;

  // Requests of one rule.
  void check_rule(const Request& request, Answer* answer);
  void change_rule(const Rule& rule, const Hash128& key, Op op, const Ticket& ticket,
                   std::int64_t actual, Decision* decision);
  void reset_rule(const Request& request, Answer* answer);
  template <typename Apply>
  void update(const Rule& rule, const Hash128& key, Micros now, Apply&& apply);

  // Requests of several: core/memory_group.cc.
  void execute_group(const Request& request, Answer* answer);

  MemoryTable& table_;
  const Clock* const clock_;
  const SipKey& secret_;
};

}  // namespace saqiya

// How the memory table keeps a state: in 16 bytes beside the key.
//
// The low 53 bits of q are an instant: from then on the entry equals an absent one. The bits above
// say what the rest is (the table itself asks no rule):
//   token bucket        no tag. q, r and n are the bucket's
//   fixed, calendar     kWall. The instant is the window's end; (r, n) is the count
//   sliding window      kWall and an exponent k, 2^k the first power that is not below the period:
//                       the instant is the end + 2^k, so the end is found whatever the period is
//                       now; r is the previous count, n the one under way
//   log, leases         kBlock. (r, n) is the address of a TimedList, which the entry owns
// r and n are both 0 only when nothing is charged.
#pragma once

#include <bit>
#include <cstdint>

#include "core/rule.h"
#include "core/step.h"
#include "core/time.h"
#include "core/timed_list.h"

namespace saqiya {

struct Words {
  static constexpr std::int64_t kInstant = (std::int64_t{1} << 53) - 1;
  static constexpr int kExponentShift = 53;  // six bits
  static constexpr std::int64_t kBlock = std::int64_t{1} << 60;
  static constexpr std::int64_t kWall = std::int64_t{1} << 61;  // an instant of the wall clock
  static constexpr std::int64_t kBusy = std::int64_t{1} << 62;  // the table's, while it is changed

  std::int64_t q = 0;
  std::uint32_t r = 0;
  std::uint32_t n = 0;

  bool is_absent() const { return (r | n) == 0; }
  bool is_wall() const { return (q & kWall) != 0; }
  Micros dead_at() const { return q & kInstant; }
  bool is_dead(Micros now) const {
    const Micros at = dead_at();
    return at < now || (at == now && (r == 0 || (q & (kBlock | kWall)) != 0));
  }

  std::uint64_t rest() const { return std::uint64_t{n} << 32 | r; }
  TimedList* block() const {
    return (q & kBlock) != 0 ? std::bit_cast<TimedList*>(rest()) : nullptr;
  }
  // What the block counts, one for a unit: as much as an entry.
  static constexpr std::size_t kBlockUnit = 32;
  std::uint32_t block_weight() const {
    const TimedList* const list = block();
    return list == nullptr
               ? 0
               : static_cast<std::uint32_t>((list->bytes() + kBlockUnit - 1) / kBlockUnit);
  }
};
static_assert(sizeof(void*) == sizeof(std::uint64_t), "a block's address fills r and n");

inline State to_state(const Rule& rule, const Words& words) {
  State state;
  if (words.is_absent()) return state;
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      state.bucket = {words.q, words.r, words.n};
      break;
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      state.end = words.dead_at();
      state.used = static_cast<std::int64_t>(words.rest());
      break;
    case Algorithm::kSlidingWindow:
      state.end = words.dead_at() - (std::int64_t{1} << (words.q >> Words::kExponentShift & 63));
      state.previous = words.r;
      state.used = words.n;
      break;
    case Algorithm::kSlidingLog:
    case Algorithm::kConcurrency:
      state.list = words.block();
      break;
  }
  return state;
}

inline Words to_words(const Rule& rule, const State& state) {
  const auto with_rest = [](std::int64_t q, std::uint64_t rest) {
    return Words{q, static_cast<std::uint32_t>(rest), static_cast<std::uint32_t>(rest >> 32)};
  };
  switch (rule.algorithm) {
    case Algorithm::kTokenBucket:
      return {state.bucket.q, state.bucket.r, state.bucket.n};
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      return with_rest(state.end | Words::kWall, static_cast<std::uint64_t>(state.used));
    case Algorithm::kSlidingWindow: {
      const auto k =
          static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(rule.period - 1)));
      return {(state.end + (std::int64_t{1} << k)) | k << Words::kExponentShift | Words::kWall,
              static_cast<std::uint32_t>(state.previous), static_cast<std::uint32_t>(state.used)};
    }
    case Algorithm::kSlidingLog:
    case Algorithm::kConcurrency:
      if (state.list == nullptr) return {};
      return with_rest(dead_at(rule, state) | Words::kBlock,
                       std::bit_cast<std::uint64_t>(state.list));
  }
  return {};
}

}  // namespace saqiya

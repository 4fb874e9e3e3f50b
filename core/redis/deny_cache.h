// Refusals of the server, remembered in this process for at most a second, so that a flood of
// requests that would be refused does not reach the server at all.
//
// Remembered is not the refusal but the state it was made from: the instant at which the bucket
// will be full. What others charge since only moves it further away. With an estimate of the
// server's clock that is never behind it, the ordinary step then says whether a request would be
// refused, whatever it costs and however long it would wait. What would be let through goes to the
// server, which decides. Only when tokens are given back elsewhere is a refusal wrong, until the
// second is over.
//
// The estimate: server's clock when it answered, less this machine's monotonic clock when the
// request was sent, which was before. So it is ahead by the time of the way there, and by as much
// as clocks may be made to run apart.
//
// Thread-safe. Readers never wait: what an entry held before is there while it is being written.
// Nor do writers: an entry that another is writing, or was when the process was forked, is left
// alone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/limiter.h"
#include "core/siphash.h"
#include "core/store.h"

namespace saqiya::redis {

// The subject in a key of one of the limiter's rules, as it stands between the braces.
inline std::string_view subject_in(const Limiter& limiter, std::size_t rule, std::string_view key) {
  const Binding& binding = limiter.binding(rule);
  key.remove_prefix(binding.key_head.size());
  key.remove_suffix(binding.key_tail.size());
  return key;
}

class DenyCache {
 public:
  static constexpr std::size_t kEntries = 16'384;
  static constexpr Micros kLife = kMicrosPerSecond;

  DenyCache() = default;
  ~DenyCache() { delete table_.load(std::memory_order_acquire); }
  DenyCache(const DenyCache&) = delete;
  DenyCache& operator=(const DenyCache&) = delete;

  // Before the first limiter is made.
  void set_secret(SipKey secret) { secret_ = secret; }
  // What a limiter's subjects are hashed with (Binding::hash_key).
  SipKey key_of(std::string_view identity) const {
    const Hash128 derived = siphash128<2, 4>(secret_, identity);
    return {derived.lo, derived.hi};
  }

  bool is_empty() const { return table_.load(std::memory_order_acquire) == nullptr; }

  // True when a check or peek would be refused; *answer, which is default, then says how. subject:
  // as it stands between the braces of the key. now: monotonic.
  bool find(const Request& request, std::string_view subject, Micros now, Answer* answer) const;
  // The server refused such a request. full_at: exact, in its clock; server_now: its clock then;
  // flushed_at: this machine's monotonic clock, not later than the request was sent.
  void remember(const Limiter& limiter, std::string_view subject, Fraction full_at,
                Micros server_now, Micros flushed_at) noexcept;
  // The key was reset, or something given back. Answers to what was sent before `now` are not
  // remembered any more; of any key, where nothing is remembered yet.
  void forget(const Limiter& limiter, std::string_view subject, Micros now) noexcept;

  std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kSets = kEntries / kWays;

  struct Seen {
    std::uint64_t tag = 0;  // the other half of the hash
    std::int64_t q = 0;     // full_at = q + r/n; n 0: forgotten
    std::uint32_t r = 0;
    std::uint32_t n = 0;
    Micros ahead = 0;  // of this machine's monotonic clock
    Micros flushed_at = 0;
  };
  // A sequence lock of two copies: bit 1 of the sequence says which of them is to be read, bit 0
  // that the other one is being written.
  class alignas(64) Entry {
   public:
    bool read(Seen* seen) const;
    bool write(const Seen& seen);
    Micros flushed_at() const;

   private:
    using Copy = std::array<std::atomic<std::uint64_t>, 5>;

    static std::size_t readable(std::uint64_t sequence) { return sequence / 2 % 2; }

    std::atomic<std::uint64_t> sequence_{0};
    std::array<Copy, 2> copies_{};
  };
  // The first halves of the hashes apart from the rest, so that a miss costs one line of cache.
  struct Table {
    std::array<std::array<std::atomic<std::uint64_t>, kWays>, kSets> tags{};
    std::array<std::array<Entry, kWays>, kSets> entries{};
  };

  void write(const Limiter& limiter, std::string_view subject, Seen seen) noexcept;

  SipKey secret_;
  std::atomic<Table*> table_{nullptr};                      // 2 MB, made at the first refusal
  std::atomic<Micros> forgotten_at_{0};                     // the last time that there was none
  alignas(64) mutable std::atomic<std::uint64_t> hits_{0};  // not beside what all readers read
};

}  // namespace saqiya::redis

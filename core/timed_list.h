// What a sliding log and the leases of a concurrency limit are kept in: costs, sorted by an instant
// (when it was charged; when the lease runs out), with their running total.
//
// One block of memory: this header, then entries of 12 bytes, or of 20 with an id. Entries stand in
// [begin, end) of the room there is; the front is trimmed by moving begin, and moved down when the
// end is reached, which costs each insertion a few moves of an entry at most, on average. Nothing
// is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "core/time.h"

namespace saqiya {

class TimedList {
 public:
  enum class Kind : std::uint32_t { kLog = 3, kLeases = 5 };  // 32-bit words in an entry

  struct Entry {
    Micros at = 0;
    std::uint32_t cost = 0;
    std::uint64_t id = 0;  // leases
  };

  // How far entries may lie apart: on Redis their instants are kept modulo 2^48. Only leases could
  // lie further, when the clock went back by years; such a one is taken as one of the earliest
  // instant that is near enough.
  static constexpr Micros kMaxSpread = (Micros{1} << 48) - 1;

  // Drops what is at or before `gone`, then adds the entry, after others of the same instant. In a
  // log, the cost is added to that of the last entry if its instant is the same. *list may be null,
  // and may be replaced. Throws std::bad_alloc having changed nothing.
  static void add(TimedList** list, Kind kind, Micros gone, const Entry& entry);

  TimedList(const TimedList&) = delete;
  TimedList& operator=(const TimedList&) = delete;
  static void operator delete(void* block) { ::operator delete(block); }

  bool empty() const { return begin_ == end_; }
  std::uint32_t size() const { return end_ - begin_; }
  std::int64_t total() const { return total_; }
  std::size_t bytes() const { return bytes_for(words_, capacity_); }
  // The largest instant; 0 when empty.
  Micros last() const { return last_at_; }

  // By position, 0 being the oldest.
  Micros at(std::uint32_t i) const {
    Micros value;
    std::memcpy(&value, entry(i), sizeof value);
    return value;
  }
  std::uint32_t cost(std::uint32_t i) const { return entry(i)[2]; }
  std::uint64_t id(std::uint32_t i) const {
    std::uint64_t value;
    std::memcpy(&value, entry(i) + 3, sizeof value);
    return value;
  }

  // The part after an instant.
  struct Live {
    std::uint32_t first = 0;  // its first entry
    std::int64_t used = 0;    // its sum
  };
  Live live_after(Micros gone) const {
    Live live{0, total_};
    if (first_at_ > gone) return live;
    while (live.first < size() && at(live.first) <= gone) live.used -= cost(live.first++);
    return live;
  }

  // The instant of the entry with which the sum of the entries from `first` on reaches `need`,
  // which it does.
  Micros reached_at(std::uint32_t first, std::int64_t need) const {
    if (first == 0 && need <= first_cost_) return first_at_;
    while (first + 1 < size() && (need -= cost(first)) > 0) ++first;
    return at(first);
  }

  static constexpr std::uint32_t kNone = UINT32_MAX;
  // The first entry of this instant, or kNone.
  std::uint32_t find(Micros at) const;
  // The entry with this id, which is looked for at that instant first; or kNone.
  std::uint32_t find(std::uint64_t id, Micros likely_at) const;

  void trim(Micros gone);
  // 0 removes the entry.
  void set_cost(std::uint32_t i, std::uint32_t cost);
  // Puts the entry where its new instant belongs.
  void move(std::uint32_t i, Micros at);

 private:
  TimedList(Kind kind, std::uint32_t capacity)
      : capacity_(capacity), words_(static_cast<std::uint32_t>(kind)) {}

  static std::size_t bytes_for(std::uint32_t words, std::uint32_t capacity) {
    return sizeof(TimedList) + std::size_t{capacity} * words * sizeof(std::uint32_t);
  }
  // Null when there is no memory.
  static TimedList* allocate(Kind kind, std::size_t capacity);
  // Drops the entries before a live part.
  void drop_before(const Live& live);
  void move_down();

  std::uint32_t* entry(std::uint32_t i) {
    return reinterpret_cast<std::uint32_t*>(this + 1) + (std::size_t{begin_} + i) * words_;
  }
  const std::uint32_t* entry(std::uint32_t i) const {
    return const_cast<TimedList*>(this)->entry(i);
  }
  // Moves `count` entries, which may overlap.
  void shift(std::uint32_t to, std::uint32_t from, std::uint32_t count) {
    std::memmove(entry(to), entry(from), std::size_t{count} * words_ * sizeof(std::uint32_t));
  }
  void write(std::uint32_t i, const Entry& value);
  void insert(const Entry& given);  // there is room after the end
  std::uint32_t lower_bound(Micros at) const;
  void note_first();
  void note_last() { last_at_ = empty() ? 0 : at(size() - 1); }

  std::int64_t total_ = 0;
  // Copies of what the ends hold, 0 when empty: most requests then need not look at entries, each
  // of which may be a wait for memory.
  Micros first_at_ = 0;
  Micros last_at_ = 0;
  std::uint32_t first_cost_ = 0;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
  std::uint32_t capacity_;
  std::uint32_t words_;
};

}  // namespace saqiya

// The memory store's table: buckets by keyed hash, in shards.
//
// Locking. Nearly every check finds its entry, and then it must not write to memory that other
// threads' checks write to, or the cores pass cache lines around (with a plain lock a shard, two
// threads ran at 3/4 of the speed of two processes). So:
//  - A visit announces "I am in shard s" in a cache line of the thread's own (its stripe), then
//    looks whether the shard's lock is held; if so it withdraws. Inside, it may change one entry's
//    value, having set the entry's busy bit.
//  - A change of the shard's structure (insert, erase, grow) takes the shard's lock and then waits
//    until no stripe announces that shard. It is alone from then on.
// The announcement and the lock are sequentially consistent, so one side always sees the other.
//
// An entry that is dead (a full bucket, a window that is over, a log of which nothing counts)
// equals an absent one and may be dropped at any time; only an eviction at the bound drops others.
//
// Blocks that entries own (logs, leases) count against the bound: 32 bytes as much as an entry. The
// bound is shared out among the shards, evenly; as blocks are few and large, a shard may borrow for
// them while the whole table is below its bound, and gives back when it is next to take more.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "core/lock.h"
#include "core/memory_words.h"
#include "core/rule.h"
#include "core/siphash.h"
#include "core/store.h"
#include "core/time.h"

namespace saqiya {

class MemoryTable {
 public:
  // clock: null: the system's. It is read where entries are dropped; callers bring their own now.
  explicit MemoryTable(std::uint64_t max_keys, std::uint64_t epoch,
                       std::shared_ptr<const Clock> clock = nullptr);
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  // Told apart by tickets: a ticket of another table gives nothing back.
  std::uint64_t epoch() const { return epoch_; }

  // Calls bool apply(Words*, Micros floor) with the entry's words, and keeps what it leaves there,
  // atomically. Without an entry, first with null, to learn whether there would be anything to keep
  // (true), and if so with absent words, which it may leave absent; floor is then the instant at
  // which the last dead entry was dropped (else 0). The last call counts. now: in the clock of the
  // entry, the wall's or the monotonic one. kBlocks: entries may own a block. What apply throws
  // comes through; it must have changed nothing then. May throw std::bad_alloc, having kept
  // nothing.
  template <bool kBlocks, typename Apply>
  void update(const Hash128& key, bool wall, Micros now, Apply&& apply);

  void erase(const Hash128& key);

  class Several;

  struct Size {
    std::uint64_t keys = 0;
    std::uint64_t bytes = 0;
    std::uint64_t evictions = 0;
  };
  Size size() const;

 private:
  // Half a cache line, aligned so that no entry lies across two.
  struct alignas(32) Entry {
    Hash128 key;
    mutable Words words;  // not part of what the set compares
  };
  struct HashOf {
    using is_transparent = void;
    std::size_t operator()(const Hash128& key) const { return key.lo; }
    std::size_t operator()(const Entry& entry) const { return entry.key.lo; }
  };
  struct SameKey {
    using is_transparent = void;
    bool operator()(const Entry& a, const Entry& b) const { return a.key == b.key; }
    bool operator()(const Entry& a, const Hash128& b) const { return a.key == b; }
  };
  using Map = absl::flat_hash_set<Entry, HashOf, SameKey>;

  struct alignas(64) Shard {
    mutable Lock lock;
    std::uint32_t bound = 0;         // entries and weight of blocks this shard may hold
    std::uint32_t inserts_left = 0;  // until the next sweep
    std::uint32_t slots_used = 0;    // by entries, or perhaps by the marks that erased ones leave
    // The latest instant of the dead entries of the monotonic clock that were dropped. Who is
    // absent counts as new at this instant: so after a clock went back, or when a thread was
    // interrupted with an old reading, no bucket is fuller than it was.
    Micros dropped_until = 0;
    Map map;
  };
  static_assert(sizeof(Shard) == 64);

  // The rest of a shard, which token buckets do not need.
  struct Annex {
    Micros wall_dropped_until = 0;
    std::uint32_t blocks = 0;   // their weight; visits add to it atomically
    std::uint32_t planned = 0;  // entries that there will be at the next sweep: at most
  };

  struct alignas(64) Stripe {
    std::atomic<std::uint32_t> shard{0};  // 1 + the shard that is being visited; 0: none
    std::uint32_t revivals = 0;           // owned by the visitor
  };

  // A thread's announcement. False when the shard's structure is being changed.
  class Visit {
   public:
    Visit(MemoryTable& table, std::uint32_t shard);
    ~Visit() { leave(); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    explicit operator bool() const { return stripe_ != nullptr; }
    // True once in a while: time to look for dead entries around the one that came to life.
    bool is_reclaim_due() { return (++stripe_->revivals & 15) == 0; }
    void leave() {
      if (stripe_ != nullptr) stripe_->shard.store(0, std::memory_order_release);
      stripe_ = nullptr;
    }

   private:
    Stripe* stripe_ = nullptr;
  };

  // Takes the shard's lock and waits until nobody is visiting.
  void enter_alone(std::uint32_t shard) const;
  class Alone {
   public:
    Alone(const MemoryTable& table, std::uint32_t shard) : lock_(table.shards_[shard].lock) {
      table.enter_alone(shard);
    }
    ~Alone() { lock_.unlock(); }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    Lock& lock_;
  };

  // Shards get unequal shares of the keys, spread over one octave, so that they double at different
  // times: memory then grows smoothly and stays near 55 bytes per key at every size. log2(1 + x) is
  // the spread that does this; x + 0.34 x (1 - x) is close to it.
  std::uint32_t shard_of(const Hash128& h) const {
    const std::uint64_t x = h.hi >> 48;
    const std::uint64_t y = x + (((x * (65536 - x)) >> 16) * 22282 >> 16);
    return static_cast<std::uint32_t>((y * shard_count_) >> 16);
  }

  template <typename Apply>
  static void change(Words* entry, Apply&& apply);
  Micros floor(std::uint32_t shard, bool wall) const {
    return wall ? annexes_[shard].wall_dropped_until : shards_[shard].dropped_until;
  }
  // Of a visitor; whoever is alone may as well use it.
  void add_blocks(std::uint32_t shard, std::int64_t weight) {
    if (weight == 0) return;
    std::atomic_ref(annexes_[shard].blocks)
        .fetch_add(static_cast<std::uint32_t>(weight), std::memory_order_relaxed);
    weight_.fetch_add(weight, std::memory_order_relaxed);
  }
  std::uint64_t weight(std::uint32_t shard) const {
    return shards_[shard].map.size() +
           std::atomic_ref(annexes_[shard].blocks).load(std::memory_order_relaxed);
  }
  // Whether so much more is within the bound.
  bool has_room(std::uint32_t shard, std::uint32_t entries, std::uint64_t blocks) const;

  // Both clocks, each read when it is first asked for, but for the one that is known.
  class Now {
   public:
    explicit Now(const Clock* clock) : clock_(clock) {}
    Now(const Clock* clock, bool wall, Micros known) : clock_(clock) {
      (wall ? wall_ : monotonic_) = known;
    }
    Micros of(const Words& words) {
      Micros& reading = words.is_wall() ? wall_ : monotonic_;
      if (reading < 0) reading = read(words.is_wall());
      return reading;
    }

   private:
    Micros read(bool wall) const;

    const Clock* const clock_;
    Micros monotonic_ = -1;
    Micros wall_ = -1;
  };

  // All these want to be alone in the shard.
  void drop(std::uint32_t shard, Map::iterator at);
  // Drops the entry if it is dead, and tells whether it was.
  bool drop_if_dead(std::uint32_t shard, Map::iterator at, Now& now);
  void insert(std::uint32_t shard, const Hash128& key, const Words& words, Now now);
  // Room for so many more entries and such weight of blocks; `keep` stays, dead or not.
  void make_room(std::uint32_t shard, std::uint32_t entries, std::uint64_t blocks,
                 std::span<const Hash128> keep, Now now);
  void evict(std::uint32_t shard, std::uint64_t weight, Now& now, std::span<const Hash128> keep);
  // Moves the entries to a table of so many slots. Throws std::bad_alloc having changed nothing.
  // flat_hash_set itself must never allocate: where that fails, it is left broken. So the set is
  // not asked to rehash, and slots_used sees to it that there is always room when it is inserted
  // into.
  static void rebuild(Shard& shard, std::size_t slots);
  void shrink(std::uint32_t shard, std::uint32_t entries);
  void plan_sweep(std::uint32_t shard, std::uint32_t entries);

  // Blocks have grown, perhaps: back to the bound, if there is memory to do so.
  void restore_bound(std::uint32_t shard, std::span<const Hash128> keep);

  // Not alone yet.
  void reclaim_around(std::uint32_t shard, const Hash128& key, Now now);

  const std::uint64_t max_keys_;
  const std::size_t shard_count_;
  const std::size_t stripe_count_;  // a power of two
  const std::uint64_t epoch_;
  const std::shared_ptr<const Clock> clock_;
  std::unique_ptr<Shard[]> shards_;
  std::unique_ptr<Annex[]> annexes_;
  std::unique_ptr<Stripe[]> stripes_;
  std::atomic<std::uint64_t> evictions_{0};
  std::atomic<std::int64_t> weight_{0};  // of the whole table: entries that are planned, and blocks
};

// The entries of several keys, alone with all of them: shards are taken in ascending order.
class MemoryTable::Several {
 public:
  static constexpr std::size_t kMost = kMaxItems * kMaxRules;

  // At most kMost keys, some perhaps equal; they stay where they are for as long as this lives.
  explicit Several(MemoryTable& table, std::span<const Hash128> keys);
  ~Several();
  Several(const Several&) = delete;
  Several& operator=(const Several&) = delete;

  using Set = std::bitset<kMost>;
  // False when there is no entry.
  bool get(std::size_t i, Words* words) const;
  Micros floor(std::size_t i, bool wall) const;
  // So that put() of these finds room. Throws std::bad_alloc, having dropped and evicted others at
  // the most.
  void make_room(const Set& which);
  // old_block_weight: of what get() gave, before its block was changed. With an entry, or after
  // make_room(). The block then belongs to the table.
  void put(std::size_t i, const Words& words, std::uint32_t old_block_weight);
  void erase(std::size_t i);
  // After blocks have grown: back to the bound, if there is memory to do so.
  void restore_bound();

 private:
  MemoryTable& table_;
  std::span<const Hash128> keys_;
  std::size_t shard_count_ = 0;
  std::array<std::uint32_t, kMost> shards_;  // ascending, each once
};

// Takes the entry's busy bit for as long as apply runs.
template <typename Apply>
void MemoryTable::change(Words* entry, Apply&& apply) {
  const std::atomic_ref<std::int64_t> q(entry->q);
  std::int64_t seen = q.load(std::memory_order_relaxed) & ~Words::kBusy;
  int spins = 0;
  while (!q.compare_exchange_weak(seen, seen | Words::kBusy, std::memory_order_acquire,
                                  std::memory_order_relaxed)) {
    seen &= ~Words::kBusy;
    if (++spins > 100) std::this_thread::yield();  // the holder was interrupted
  }
  Words words{seen, entry->r, entry->n};
  try {
    apply(&words);
  } catch (...) {
    q.store(seen, std::memory_order_release);
    throw;
  }
  entry->r = words.r;
  entry->n = words.n;
  q.store(words.q, std::memory_order_release);
}

template <bool kBlocks, typename Apply>
void MemoryTable::update(const Hash128& key, bool wall, Micros now, Apply&& apply) {
  const std::uint32_t index = shard_of(key);
  Shard& shard = shards_[index];
  // True when the shard has come to be beyond its bound.
  [[maybe_unused]] const auto change_block = [&](Words* words) {
    const std::uint32_t before = words->block_weight();
    apply(words, 0);
    const std::int64_t growth = std::int64_t{words->block_weight()} - before;
    add_blocks(index, growth);
    return growth > 0 && !has_room(index, 0, 0);
  };
  bool beyond = false;
  if (Visit visit{*this, index}) {
    const auto it = shard.map.find(key);
    if (it != shard.map.end()) {
      bool revives = false;
      change(&it->words, [&](Words* words) {
        revives = words->dead_at() < now;
        if constexpr (kBlocks) {
          beyond = change_block(words);
        } else {
          apply(words, 0);
        }
      });
      if (kBlocks && beyond) {
        visit.leave();
        const Alone alone(*this, index);
        restore_bound(index, {&key, 1});
        return;
      }
      if (!revives || !visit.is_reclaim_due()) return;
      visit.leave();
      reclaim_around(index, key, {clock_.get(), wall, now});
      return;
    }
    if (!apply(nullptr, floor(index, wall))) return;
  }
  const Alone alone(*this, index);
  const auto it = shard.map.find(key);
  if (it != shard.map.end()) {
    if constexpr (kBlocks) {
      if (change_block(&it->words)) restore_bound(index, {&key, 1});
    } else {
      apply(&it->words, 0);
    }
    return;
  }
  Words words;
  apply(&words, floor(index, wall));
  if (!words.is_absent()) insert(index, key, words, {clock_.get(), wall, now});
}

}  // namespace saqiya

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
// An entry whose bucket is full equals an absent one and may be dropped at any time; only an
// eviction at the bound drops others.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "core/lock.h"
#include "core/siphash.h"
#include "core/time.h"
#include "core/token_bucket.h"

namespace saqiya {

class MemoryTable {
 public:
  explicit MemoryTable(std::uint64_t max_keys, std::uint64_t epoch);

  // Told apart by tickets: a ticket of another table gives nothing back.
  std::uint64_t epoch() const { return epoch_; }

  // Calls apply(BucketState*) with the entry's state, or an absent one (n == 0; full from its q
  // on), and keeps what it leaves there, atomically. apply may be called twice; the last call
  // counts. May throw std::bad_alloc, having changed nothing.
  template <typename Apply>
  void update(const Hash128& key, Micros now, Apply&& apply);

  void erase(const Hash128& key);

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
    mutable BucketState state;  // not part of what the set compares
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
    std::uint32_t bound = 0;         // entries this shard may hold
    std::uint32_t inserts_left = 0;  // until the next sweep
    std::uint32_t slots_used = 0;    // by entries, or perhaps by the marks that erased ones leave
    // The latest instant of the full entries that were dropped. Who is absent counts as full at
    // this instant: so after a clock went back, or when a thread was interrupted with an old
    // reading, no bucket is fuller than it was.
    Micros dropped_until = 0;
    Map map;
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

  // The lock, and nobody visiting.
  class Alone {
   public:
    Alone(const MemoryTable& table, std::uint32_t shard);
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
  static void change(BucketState* entry, Apply&& apply);

  // Drops the entry if it is full, and tells whether it was.
  static bool drop_if_full(Shard& shard, Map::iterator at, Micros now);
  static void reclaim_after(Shard& shard, Map::iterator at, Micros now, int steps);
  void insert(Shard& shard, const Hash128& key, const BucketState& state, Micros now);
  void reclaim_around(std::uint32_t shard, const Hash128& key, Micros now);
  void make_room(Shard& shard, Micros now);
  // Moves the entries to a table of so many slots. Throws std::bad_alloc having changed nothing.
  // flat_hash_set itself must never allocate: where that fails, it is left broken. So the set is
  // not asked to rehash, and slots_used sees to it that there is always room when it is inserted
  // into.
  static void rebuild(Shard& shard, std::size_t slots);
  static void shrink(Shard& shard);
  static void plan_sweep(Shard& shard);
  void evict(Shard& shard, std::size_t count);

  const std::size_t shard_count_;
  const std::size_t stripe_count_;  // a power of two
  const std::uint64_t epoch_;
  std::unique_ptr<Shard[]> shards_;
  std::unique_ptr<Stripe[]> stripes_;
  std::atomic<std::uint64_t> evictions_{0};
};

// Takes the entry's busy bit, bit 62 of q (instants stay below 2^53), for as long as apply runs.
template <typename Apply>
void MemoryTable::change(BucketState* entry, Apply&& apply) {
  constexpr std::int64_t kBusy = std::int64_t{1} << 62;
  const std::atomic_ref<std::int64_t> q(entry->q);
  std::int64_t seen = q.load(std::memory_order_relaxed) & ~kBusy;
  int spins = 0;
  while (!q.compare_exchange_weak(seen, seen | kBusy, std::memory_order_acquire,
                                  std::memory_order_relaxed)) {
    seen &= ~kBusy;
    if (++spins > 100) std::this_thread::yield();  // the holder was interrupted
  }
  BucketState state{seen, entry->r, entry->n};
  apply(&state);
  entry->r = state.r;
  entry->n = state.n;
  q.store(state.q, std::memory_order_release);
}

template <typename Apply>
void MemoryTable::update(const Hash128& key, Micros now, Apply&& apply) {
  const std::uint32_t index = shard_of(key);
  Shard& shard = shards_[index];
  if (Visit visit{*this, index}) {
    const auto it = shard.map.find(key);
    if (it != shard.map.end()) {
      bool revives = false;
      change(&it->state, [&](BucketState* state) {
        revives = state->q < now;
        apply(state);
      });
      if (!revives || !visit.is_reclaim_due()) return;
      visit.leave();
      reclaim_around(index, key, now);
      return;
    }
    BucketState state{shard.dropped_until, 0, 0};
    apply(&state);
    if (state.n == 0) return;  // nothing to keep
  }
  const Alone alone(*this, index);
  const auto it = shard.map.find(key);
  if (it != shard.map.end()) {
    apply(&it->state);
    return;
  }
  BucketState state{shard.dropped_until, 0, 0};
  apply(&state);
  if (state.n != 0) insert(shard, key, state, now);
}

}  // namespace saqiya

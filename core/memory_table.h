// The memory store's table: buckets by keyed hash, in shards with a lock each.
//
// Invariants: an entry is looked up, decided and written under its shard's lock. An entry whose
// bucket is full equals an absent one and may be dropped at any time without changing any answer;
// only an eviction at the bound drops others.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

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

  // Calls apply(BucketState*) under the lock, with an absent state (n == 0) when there is no entry,
  // and keeps what it leaves there. May throw std::bad_alloc, having changed nothing.
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
  struct TakeLow {
    std::size_t operator()(const Hash128& h) const { return h.lo; }
  };
  using Map = absl::flat_hash_map<Hash128, BucketState, TakeLow>;

  struct alignas(64) Shard {
    mutable Lock lock;
    std::uint32_t bound = 0;  // entries this shard may hold
    Map map;
  };

  // Shards get unequal shares of the keys, spread over one octave, so that they double at different
  // times: memory then grows smoothly and stays near 54 bytes per key at every size. log2(1 + x) is
  // the spread that does this; x + 0.34 x (1 - x) is close to it.
  std::size_t shard_of(const Hash128& h) const {
    const std::uint64_t x = h.hi >> 48;
    const std::uint64_t y = x + (((x * (65536 - x)) >> 16) * 22282 >> 16);
    return static_cast<std::size_t>((y * shard_count_) >> 16);
  }

  void insert(Shard& shard, const Hash128& key, const BucketState& state, Micros now);
  static void reclaim_after(Map& map, Map::iterator at, Micros now);
  void make_room(Shard& shard, Micros now);
  void evict(Shard& shard);

  const std::size_t shard_count_;
  const std::uint64_t epoch_;
  std::unique_ptr<Shard[]> shards_;
  std::atomic<std::uint64_t> evictions_{0};
};

template <typename Apply>
void MemoryTable::update(const Hash128& key, Micros now, Apply&& apply) {
  Shard& shard = shards_[shard_of(key)];
  const std::lock_guard guard(shard.lock);
  const auto it = shard.map.find(key);
  if (it != shard.map.end()) {
    const bool revives = it->second.q < now;
    apply(&it->second);
    if (revives) reclaim_after(shard.map, it, now);
    return;
  }
  BucketState state;
  apply(&state);
  if (state.n != 0) insert(shard, key, state, now);
}

}  // namespace saqiya

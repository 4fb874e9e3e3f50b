#include "core/memory_table.h"

#include <algorithm>
#include <bit>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace saqiya {
namespace {

// Many enough that no shard takes long to grow (9,000 entries each at 10 million keys), few enough
// that empty ones cost little (72 KiB in all).
constexpr std::size_t kMaxShards = 1152;
constexpr std::size_t kKeysPerShard = 64;  // at the least, when max_keys is small

// A shard is swept when as many entries were added as the last sweep left, so that there are never
// more dead than living ones for long, at the price of two looks an insertion. (Looking at the
// neighbours of what is added instead misses the dead that lie behind living ones: they pile up.)
constexpr std::uint32_t kFewestInserts = 16;

// Entries looked at for each sixteenth that comes back to life.
constexpr int kStepsOfRevival = 32;

std::size_t shards_for(std::uint64_t max_keys) {
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(max_keys / kKeysPerShard, 1, kMaxShards));
}

// Some more than threads that run at once; threads beyond share.
std::size_t stripes_for_machine() {
  const std::size_t cores = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 4, 64);
  return std::bit_ceil(cores * 2);
}

// Threads are numbered as they come, in any order and for ever.
std::size_t thread_number() {
  static std::atomic<std::size_t> count{0};
  thread_local const std::size_t number = count.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// Entries whose new places are fetched ahead while a table is rebuilt.
constexpr int kAhead = 8;

// Slots below which a shard is not worth shrinking.
constexpr std::size_t kShrinkFrom = 64;

bool is_full(const BucketState& state, Micros now) {
  return state.q < now || (state.q == now && state.r == 0);
}

// Entries that a flat_hash_set of so many slots takes before it grows: a load of 7/8.
std::size_t growth_limit(std::size_t slots) { return slots == 7 ? 6 : slots - slots / 8; }

}  // namespace

MemoryTable::MemoryTable(std::uint64_t max_keys, std::uint64_t epoch)
    : shard_count_(shards_for(max_keys)),
      stripe_count_(stripes_for_machine()),
      epoch_(epoch),
      shards_(std::make_unique<Shard[]>(shard_count_)),
      stripes_(std::make_unique<Stripe[]>(stripe_count_)) {
  // Each shard's bound is its share of the hash space.
  std::vector<std::uint32_t> cells(shard_count_);
  for (std::uint64_t x = 0; x < 65536; ++x) ++cells[shard_of({0, x << 48})];
  for (std::size_t i = 0; i < shard_count_; ++i) {
    const double share = static_cast<double>(max_keys) * cells[i] / 65536.0;
    shards_[i].bound = static_cast<std::uint32_t>(std::clamp(share, 1.0, 4e9));
  }
}

MemoryTable::Visit::Visit(MemoryTable& table, std::uint32_t shard) {
  Stripe& stripe = table.stripes_[thread_number() & (table.stripe_count_ - 1)];
  std::uint32_t none = 0;
  // A stripe in use belongs to a thread that shares it and was interrupted: take the other way.
  if (!stripe.shard.compare_exchange_strong(none, shard + 1)) return;
  if (table.shards_[shard].lock.is_held()) {
    stripe.shard.store(0, std::memory_order_release);
    return;
  }
  stripe_ = &stripe;
}

MemoryTable::Alone::Alone(const MemoryTable& table, std::uint32_t shard)
    : lock_(table.shards_[shard].lock) {
  lock_.lock();
  for (std::size_t i = 0; i < table.stripe_count_; ++i) {
    for (int spins = 0; table.stripes_[i].shard.load() == shard + 1; ++spins) {
      if (spins >= 100) std::this_thread::yield();
    }
  }
}

void MemoryTable::insert(Shard& shard, const Hash128& key, const BucketState& state, Micros now) {
  if (shard.inserts_left == 0 || shard.map.size() >= shard.bound) make_room(shard, now);
  shard.map.insert({key, state});
  ++shard.slots_used;
  --shard.inserts_left;
}

bool MemoryTable::drop_if_full(Shard& shard, Map::iterator at, Micros now) {
  if (!is_full(at->state, now)) return false;
  shard.dropped_until = std::max(shard.dropped_until, at->state.q);
  shard.map.erase(at);
  return true;
}

void MemoryTable::reclaim_after(Shard& shard, Map::iterator at, Micros now, int steps) {
  ++at;
  bool found = false;
  for (int i = 0; i < steps && at != shard.map.end(); ++i) {
    found = drop_if_full(shard, at++, now) || found;
  }
  if (found) shrink(shard);
}

void MemoryTable::rebuild(Shard& shard, std::size_t slots) {
  Map fresh(slots);
  // This is the longest pause there is, most of it waiting for memory: some entries are asked for
  // ahead.
  auto ahead = shard.map.begin();
  for (int i = 0; i < kAhead && ahead != shard.map.end(); ++i) fresh.prefetch((ahead++)->key);
  for (const Entry& entry : shard.map) {
    if (ahead != shard.map.end()) fresh.prefetch((ahead++)->key);
    fresh.insert(entry);
  }
  shard.map.swap(fresh);
  shard.slots_used = static_cast<std::uint32_t>(shard.map.size());
}

// A crowd that has left gives its memory back. This takes memory first; when there is none, what
// the caller wanted is done all the same.
void MemoryTable::shrink(Shard& shard) {
  const std::size_t size = shard.map.size();
  const std::size_t slots = shard.map.capacity();
  if (slots < kShrinkFrom || size * 8 >= slots) return;
  try {
    rebuild(shard, std::max<std::size_t>(slots / 4, 1));
    plan_sweep(shard);
  } catch (const std::bad_alloc&) {
  }
}

void MemoryTable::plan_sweep(Shard& shard) {
  const std::size_t room = growth_limit(shard.map.capacity()) - shard.slots_used;
  const std::size_t size = shard.map.size();
  shard.inserts_left =
      static_cast<std::uint32_t>(std::min(room, std::max<std::size_t>(kFewestInserts, size)));
}

void MemoryTable::reclaim_around(std::uint32_t shard, const Hash128& key, Micros now) {
  const Alone alone(*this, shard);
  Map& map = shards_[shard].map;
  const auto it = map.find(key);
  if (it != map.end()) reclaim_after(shards_[shard], it, now, kStepsOfRevival);
}

void MemoryTable::make_room(Shard& shard, Micros now) {
  Map& map = shard.map;
  const std::size_t bound = shard.bound;
  const bool at_bound = map.size() >= bound;
  for (auto it = map.begin(); it != map.end();) drop_if_full(shard, it++, now);
  // Room for a sixteenth, so that the next few newcomers need not search again.
  const std::size_t wanted = bound - std::max<std::size_t>(1, bound / 16);
  if (at_bound && map.size() > wanted) evict(shard, map.size() - wanted);
  const std::size_t slots = map.capacity();
  const std::size_t limit = growth_limit(slots);
  if (shard.slots_used >= limit) {
    // When little was found, a larger table, or the next few entries would sweep again.
    rebuild(shard, map.size() * 8 > limit * 7 || slots == 0 ? slots * 2 + 1 : slots);
  } else {
    shrink(shard);
  }
  plan_sweep(shard);
}

// The entries nearest to full lose least: they go first.
void MemoryTable::evict(Shard& shard, std::size_t count) {
  std::vector<std::pair<Micros, Hash128>> entries;
  entries.reserve(shard.map.size());
  for (const Entry& entry : shard.map) entries.emplace_back(entry.state.q, entry.key);
  std::nth_element(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(count - 1),
                   entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < count; ++i) shard.map.erase(entries[i].second);
  evictions_.fetch_add(count, std::memory_order_relaxed);
}

void MemoryTable::erase(const Hash128& key) {
  const std::uint32_t index = shard_of(key);
  const Alone alone(*this, index);
  shards_[index].map.erase(key);
}

MemoryTable::Size MemoryTable::size() const {
  Size size;
  size.bytes = sizeof *this + shard_count_ * sizeof(Shard);
  size.bytes += stripe_count_ * sizeof(Stripe);
  for (std::uint32_t i = 0; i < shard_count_; ++i) {
    const Alone alone(*this, i);
    const Shard& shard = shards_[i];
    size.keys += shard.map.size();
    // One control byte a slot, and a group of them cloned at the end.
    const std::size_t capacity = shard.map.capacity();
    if (capacity != 0) size.bytes += capacity * (sizeof(Map::value_type) + 1) + 16;
  }
  size.evictions = evictions_.load(std::memory_order_relaxed);
  return size;
}

}  // namespace saqiya

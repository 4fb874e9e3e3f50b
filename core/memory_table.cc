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

bool contains(std::span<const Hash128> keys, const Hash128& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Entries that a flat_hash_set of so many slots takes before it grows: a load of 7/8.
std::size_t growth_limit(std::size_t slots) { return slots == 7 ? 6 : slots - slots / 8; }

}  // namespace

MemoryTable::MemoryTable(std::uint64_t max_keys, std::uint64_t epoch,
                         std::shared_ptr<const Clock> clock)
    : max_keys_(max_keys),
      shard_count_(shards_for(max_keys)),
      stripe_count_(stripes_for_machine()),
      epoch_(epoch),
      clock_(std::move(clock)),
      shards_(std::make_unique<Shard[]>(shard_count_)),
      annexes_(std::make_unique<Annex[]>(shard_count_)),
      stripes_(std::make_unique<Stripe[]>(stripe_count_)) {
  // Each shard's bound is its share of the hash space.
  std::vector<std::uint32_t> cells(shard_count_);
  for (std::uint64_t x = 0; x < 65536; ++x) ++cells[shard_of({0, x << 48})];
  for (std::size_t i = 0; i < shard_count_; ++i) {
    const double share = static_cast<double>(max_keys) * cells[i] / 65536.0;
    shards_[i].bound = static_cast<std::uint32_t>(std::clamp(share, 1.0, 4e9));
  }
}

MemoryTable::~MemoryTable() {
  for (std::size_t i = 0; i < shard_count_; ++i) {
    for (const Entry& entry : shards_[i].map) delete entry.words.block();
  }
}

Micros MemoryTable::Now::read(bool wall) const {
  if (clock_ != nullptr) return wall ? clock_->wall() : clock_->monotonic();
  return wall ? system_wall() : system_monotonic();
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

void MemoryTable::enter_alone(std::uint32_t shard) const {
  shards_[shard].lock.lock();
  for (std::size_t i = 0; i < stripe_count_; ++i) {
    for (int spins = 0; stripes_[i].shard.load() == shard + 1; ++spins) {
      if (spins >= 100) std::this_thread::yield();
    }
  }
}

bool MemoryTable::has_room(std::uint32_t index, std::uint32_t entries, std::uint64_t blocks) const {
  const Shard& shard = shards_[index];
  const std::uint64_t wanted = entries + blocks;
  if (weight(index) + wanted <= shard.bound) return true;
  return shard.map.size() + entries <= shard.bound &&
         static_cast<std::uint64_t>(weight_.load(std::memory_order_relaxed)) + wanted <= max_keys_;
}

void MemoryTable::insert(std::uint32_t index, const Hash128& key, const Words& words, Now now) {
  Shard& shard = shards_[index];
  const std::uint32_t blocks = words.block_weight();
  if (shard.inserts_left == 0 || !has_room(index, 1, blocks)) {
    try {
      make_room(index, 1, blocks, {}, now);
    } catch (...) {
      delete words.block();
      throw;
    }
  }
  shard.map.insert({key, words});
  add_blocks(index, blocks);
  ++shard.slots_used;
  --shard.inserts_left;
}

void MemoryTable::drop(std::uint32_t index, Map::iterator at) {
  add_blocks(index, -std::int64_t{at->words.block_weight()});
  delete at->words.block();
  shards_[index].map.erase(at);
}

bool MemoryTable::drop_if_dead(std::uint32_t index, Map::iterator at, Now& now) {
  const Words& words = at->words;
  if (!words.is_dead(now.of(words))) return false;
  Micros& until =
      words.is_wall() ? annexes_[index].wall_dropped_until : shards_[index].dropped_until;
  until = std::max(until, words.dead_at());
  drop(index, at);
  return true;
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
void MemoryTable::shrink(std::uint32_t index, std::uint32_t entries) {
  Shard& shard = shards_[index];
  const std::size_t size = shard.map.size() + entries;
  const std::size_t slots = shard.map.capacity();
  if (slots < kShrinkFrom || size * 8 >= slots) return;
  try {
    rebuild(shard, std::max<std::size_t>(slots / 4, 1));
    plan_sweep(index, entries);
  } catch (const std::bad_alloc&) {
  }
}

void MemoryTable::plan_sweep(std::uint32_t index, std::uint32_t entries) {
  Shard& shard = shards_[index];
  const std::size_t room = growth_limit(shard.map.capacity()) - shard.slots_used;
  const std::size_t size = std::max<std::size_t>(shard.map.size(), entries);
  shard.inserts_left =
      static_cast<std::uint32_t>(std::min(room, std::max<std::size_t>(kFewestInserts, size)));
  const auto planned = static_cast<std::uint32_t>(
      std::min<std::size_t>(shard.bound, shard.map.size() + shard.inserts_left));
  weight_.fetch_add(std::int64_t{planned} - annexes_[index].planned, std::memory_order_relaxed);
  annexes_[index].planned = planned;
}

void MemoryTable::reclaim_around(std::uint32_t index, const Hash128& key, Now now) {
  const Alone alone(*this, index);
  Map& map = shards_[index].map;
  auto it = map.find(key);
  if (it == map.end()) return;
  ++it;
  bool found = false;
  for (int i = 0; i < kStepsOfRevival && it != map.end(); ++i) {
    found = drop_if_dead(index, it++, now) || found;
  }
  if (found) shrink(index, 0);
}

void MemoryTable::make_room(std::uint32_t index, std::uint32_t entries, std::uint64_t blocks,
                            std::span<const Hash128> keep, Now now) {
  Shard& shard = shards_[index];
  Map& map = shard.map;
  const std::uint64_t bound = shard.bound;
  const std::uint64_t wanted = entries + blocks;
  const bool at_bound = !has_room(index, entries, blocks);
  for (auto it = map.begin(); it != map.end();) {
    const auto at = it++;
    if (keep.empty() || !contains(keep, at->key)) drop_if_dead(index, at, now);
  }
  // Room for a sixteenth, so that the next few newcomers need not search again.
  const std::uint64_t target = bound - std::min(bound, std::max(wanted, bound / 16));
  if (at_bound && weight(index) > target) evict(index, weight(index) - target, now, keep);
  const std::size_t slots = map.capacity();
  const std::size_t limit = growth_limit(slots);
  if (shard.slots_used + entries > limit) {
    // When little was found, a larger table, or the next few entries would sweep again.
    std::size_t larger = map.size() * 8 > limit * 7 || slots == 0 ? slots * 2 + 1 : slots;
    while (growth_limit(larger) < map.size() + entries) larger = larger * 2 + 1;
    rebuild(shard, larger);
  } else {
    shrink(index, entries);
  }
  plan_sweep(index, entries);
}

void MemoryTable::restore_bound(std::uint32_t index, std::span<const Hash128> keep) {
  if (has_room(index, 0, 0)) return;
  try {
    make_room(index, 0, 0, keep, Now(clock_.get()));
  } catch (const std::bad_alloc&) {
  }
}

// The entries nearest to dead lose least: they go first.
void MemoryTable::evict(std::uint32_t index, std::uint64_t weight, Now& now,
                        std::span<const Hash128> keep) {
  Map& map = shards_[index].map;
  std::vector<std::pair<Micros, const Entry*>> entries;
  entries.reserve(map.size());
  for (const Entry& entry : map) {
    if (!keep.empty() && contains(keep, entry.key)) continue;
    entries.emplace_back(entry.words.dead_at() - now.of(entry.words), &entry);
  }
  const auto later = [](const auto& a, const auto& b) { return a.first > b.first; };
  std::make_heap(entries.begin(), entries.end(), later);
  std::uint64_t evicted = 0;
  for (std::uint64_t freed = 0; freed < weight && !entries.empty(); ++evicted) {
    std::pop_heap(entries.begin(), entries.end(), later);
    const auto at = map.find(entries.back().second->key);
    entries.pop_back();
    freed += 1 + at->words.block_weight();
    drop(index, at);
  }
  evictions_.fetch_add(evicted, std::memory_order_relaxed);
}

void MemoryTable::erase(const Hash128& key) {
  const std::uint32_t index = shard_of(key);
  const Alone alone(*this, index);
  const auto it = shards_[index].map.find(key);
  if (it != shards_[index].map.end()) drop(index, it);
}

MemoryTable::Size MemoryTable::size() const {
  Size size;
  size.bytes = sizeof *this + shard_count_ * (sizeof(Shard) + sizeof(Annex));
  size.bytes += stripe_count_ * sizeof(Stripe);
  for (std::uint32_t i = 0; i < shard_count_; ++i) {
    const Alone alone(*this, i);
    const Shard& shard = shards_[i];
    size.keys += shard.map.size();
    // One control byte a slot, and a group of them cloned at the end.
    const std::size_t capacity = shard.map.capacity();
    if (capacity != 0) size.bytes += capacity * (sizeof(Map::value_type) + 1) + 16;
    size.bytes += std::uint64_t{annexes_[i].blocks} * Words::kBlockUnit;
  }
  size.evictions = evictions_.load(std::memory_order_relaxed);
  return size;
}

MemoryTable::Several::Several(MemoryTable& table, std::span<const Hash128> keys)
    : table_(table), keys_(keys) {
  for (const Hash128& key : keys) shards_[shard_count_++] = table.shard_of(key);
  const auto begin = shards_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(shard_count_);
  std::sort(begin, end);
  shard_count_ = static_cast<std::size_t>(std::unique(begin, end) - begin);
  for (std::size_t i = 0; i < shard_count_; ++i) table_.enter_alone(shards_[i]);
}

MemoryTable::Several::~Several() {
  for (std::size_t i = shard_count_; i-- > 0;) table_.shards_[shards_[i]].lock.unlock();
}

bool MemoryTable::Several::get(std::size_t i, Words* words) const {
  const Map& map = table_.shards_[table_.shard_of(keys_[i])].map;
  const auto it = map.find(keys_[i]);
  if (it == map.end()) return false;
  *words = it->words;
  return true;
}

Micros MemoryTable::Several::floor(std::size_t i, bool wall) const {
  return table_.floor(table_.shard_of(keys_[i]), wall);
}

void MemoryTable::Several::make_room(const Set& which) {
  for (std::size_t s = 0; s < shard_count_; ++s) {
    const std::uint32_t index = shards_[s];
    const Shard& shard = table_.shards_[index];
    std::uint32_t missing = 0;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (!which[i] || table_.shard_of(keys_[i]) != index) continue;
      if (!shard.map.contains(keys_[i])) ++missing;
    }
    if (missing == 0) continue;
    if (shard.inserts_left < missing || !table_.has_room(index, missing, 0)) {
      table_.make_room(index, missing, 0, keys_, Now(table_.clock_.get()));
    }
  }
}

void MemoryTable::Several::put(std::size_t i, const Words& words, std::uint32_t old_block_weight) {
  const std::uint32_t index = table_.shard_of(keys_[i]);
  Shard& shard = table_.shards_[index];
  const auto it = shard.map.find(keys_[i]);
  if (it != shard.map.end()) {
    it->words = words;
  } else {
    if (words.is_absent()) return;
    shard.map.insert({keys_[i], words});
    ++shard.slots_used;
    --shard.inserts_left;
  }
  table_.add_blocks(index, std::int64_t{words.block_weight()} - old_block_weight);
}

void MemoryTable::Several::erase(std::size_t i) {
  const std::uint32_t index = table_.shard_of(keys_[i]);
  Map& map = table_.shards_[index].map;
  const auto it = map.find(keys_[i]);
  if (it != map.end()) table_.drop(index, it);
}

void MemoryTable::Several::restore_bound() {
  for (std::size_t s = 0; s < shard_count_; ++s) table_.restore_bound(shards_[s], keys_);
}

}  // namespace saqiya

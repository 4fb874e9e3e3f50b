#include "core/redis/deny_cache.h"

#include <algorithm>
#include <new>

#include "core/token_bucket.h"

namespace saqiya::redis {
namespace {

// Readings of both clocks are cut to whole microseconds, and so may the remembered instant be
// rounded up.
constexpr Micros kRounding = 3;
// A clock may be slewed by 500 parts in a million; twice that for two of them.
constexpr Micros kSlew = 1000;
// So often a reader looks at an entry that is always just being written anew, before it does
// without.
constexpr int kLooks = 8;

}  // namespace

bool DenyCache::Entry::read(Seen* seen) const {
  for (int look = 0; look < kLooks; ++look) {
    const std::uint64_t before = sequence_.load(std::memory_order_acquire);
    const Copy& words = copies_[readable(before)];
    std::array<std::uint64_t, 5> copy;
    for (std::size_t i = 0; i < copy.size(); ++i) {
      copy[i] = words[i].load(std::memory_order_acquire);
    }
    // Who writes this copy anew has made the sequence odd, after another one has written the other.
    if (sequence_.load(std::memory_order_relaxed) - before / 2 * 2 > 2) continue;
    seen->tag = copy[0];
    seen->q = static_cast<std::int64_t>(copy[1]);
    seen->r = static_cast<std::uint32_t>(copy[2] >> 32);
    seen->n = static_cast<std::uint32_t>(copy[2]);
    seen->ahead = static_cast<Micros>(copy[3]);
    seen->flushed_at = static_cast<Micros>(copy[4]);
    return true;
  }
  return false;
}

// Unless it is what is newer, of the same key. False when the entry is busy.
bool DenyCache::Entry::write(const Seen& seen) {
  std::uint64_t before = sequence_.load(std::memory_order_relaxed);
  if (before % 2 != 0) return false;
  if (!sequence_.compare_exchange_strong(before, before + 1, std::memory_order_acquire)) {
    return false;
  }
  const Copy& old = copies_[readable(before)];
  const auto flushed_at = static_cast<Micros>(old[4].load(std::memory_order_relaxed));
  if (old[0].load(std::memory_order_relaxed) == seen.tag && flushed_at >= seen.flushed_at) {
    sequence_.store(before, std::memory_order_release);
    return true;
  }
  const std::array<std::uint64_t, 5> copy = {
      seen.tag, static_cast<std::uint64_t>(seen.q), std::uint64_t{seen.r} << 32 | seen.n,
      static_cast<std::uint64_t>(seen.ahead), static_cast<std::uint64_t>(seen.flushed_at)};
  Copy& words = copies_[readable(before + 2)];
  for (std::size_t i = 0; i < copy.size(); ++i) words[i].store(copy[i], std::memory_order_release);
  sequence_.store(before + 2, std::memory_order_release);
  return true;
}

Micros DenyCache::Entry::flushed_at() const {
  const Copy& words = copies_[readable(sequence_.load(std::memory_order_acquire))];
  return static_cast<Micros>(words[4].load(std::memory_order_relaxed));
}

bool DenyCache::find(const Request& request, std::string_view subject, Micros now,
                     Answer* answer) const {
  const Table* const table = table_.load(std::memory_order_acquire);
  const Limiter& limiter = *request.limiter;
  if (table == nullptr || !limiter.remembers_denials()) return false;
  const TokenBucket& rule = limiter.bucket();
  if (request.cost <= 0 || request.cost > rule.capacity) return false;
  const Hash128 hash = keyed_hash(limiter.binding().hash_key, subject);
  const std::size_t set = hash.lo % kSets;
  // Several may be of this key, when two wrote at once: the newest counts.
  Seen newest;
  for (std::size_t way = 0; way < kWays; ++way) {
    if (table->tags[set][way].load(std::memory_order_relaxed) != hash.lo) continue;
    Seen seen;
    if (!table->entries[set][way].read(&seen) || seen.tag != hash.hi) continue;
    if (seen.flushed_at > newest.flushed_at) newest = seen;
  }
  now = std::max(now, newest.flushed_at);  // the caller looked at the clock before
  const Micros age = now - newest.flushed_at;
  if (newest.n != rule.tokens || age >= kLife) return false;
  const Micros server_now = now + newest.ahead + age / kSlew + kRounding;
  if (server_now < 0 || server_now > kMaxNow) return false;
  const Charge charge = limiter.charge(request.cost, request.max_wait);
  BucketState state{newest.q, newest.r, newest.n};
  const Fraction over = step(charge, rule.tokens, server_now, true, &state);
  if (!Units<false>::positive(over)) return false;
  decide(rule, request.cost, charge, over, true, &answer->decision);
  answer->decision.source = Source::kCache;
  if (request.op == Op::kCheck) hits_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void DenyCache::remember(const Limiter& limiter, std::string_view subject, Fraction full_at,
                         Micros server_now, Micros flushed_at) noexcept {
  if (!limiter.remembers_denials()) return;
  if (table_.load() == nullptr) {
    Table* fresh = new (std::nothrow) Table;
    Table* none = nullptr;
    if (fresh == nullptr) return;
    if (!table_.compare_exchange_strong(none, fresh)) delete fresh;
  }
  // Who forgets sees the table, or is seen here: both write first and look then.
  if (flushed_at <= forgotten_at_.load()) return;
  write(limiter, subject,
        {0, full_at.q, full_at.r, limiter.bucket().tokens, server_now - flushed_at, flushed_at});
}

void DenyCache::forget(const Limiter& limiter, std::string_view subject, Micros now) noexcept {
  if (!limiter.is_bucket()) return;
  if (table_.load() == nullptr) {
    Micros before = forgotten_at_.load();
    while (before < now && !forgotten_at_.compare_exchange_weak(before, now)) {
    }
    if (table_.load() == nullptr) return;
  }
  write(limiter, subject, {0, 0, 0, 0, 0, now});
}

// Over an older one of the same key, else over the oldest; when that is busy over the next.
void DenyCache::write(const Limiter& limiter, std::string_view subject, Seen seen) noexcept {
  Table& table = *table_.load(std::memory_order_acquire);
  const Hash128 hash = keyed_hash(limiter.binding().hash_key, subject);
  const std::size_t set = hash.lo % kSets;
  seen.tag = hash.hi;
  std::array<Micros, kWays> age;
  std::array<std::size_t, kWays> order;
  for (std::size_t way = 0; way < kWays; ++way) {
    const bool same = table.tags[set][way].load(std::memory_order_relaxed) == hash.lo;
    age[way] = same ? -1 : table.entries[set][way].flushed_at();
    order[way] = way;
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return age[a] < age[b]; });
  for (const std::size_t way : order) {
    if (!table.entries[set][way].write(seen)) continue;
    table.tags[set][way].store(hash.lo, std::memory_order_relaxed);
    return;
  }
}

}  // namespace saqiya::redis

#include "core/redis/breaker.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "core/fork.h"
#include "core/random.h"

namespace saqiya::redis {
namespace {

constexpr Micros kFirstPause = 10'000;
// A claim lasts longer than any attempt; only one that was never ended expires.
constexpr Micros kClaim = Breaker::kLongestProbe + 100'000;
// A server that lasted less than this after it came back goes on being backed off from.
constexpr Micros kSteady = 1'000'000;

// Until when, and the fork generation's last bits: of a claim that was made in the parent nobody in
// a child will ever hear.
constexpr int kGenerationBits = 10;
static_assert(kMaxNow <= std::numeric_limits<std::int64_t>::max() >> kGenerationBits);
constexpr std::uint64_t kGenerationMask = (1U << kGenerationBits) - 1;

std::uint64_t claim_until(Micros until) {
  return static_cast<std::uint64_t>(until) << kGenerationBits |
         (fork_generation() & kGenerationMask);
}

bool stands(std::uint64_t claim, Micros now) {
  return static_cast<Micros>(claim >> kGenerationBits) > now &&
         (claim & kGenerationMask) == (fork_generation() & kGenerationMask);
}

// Anywhere up to the limit while it grows: processes that lost a server at one instant are apart by
// the time it is longest, and remain so. Then only little of it is left out, or there would be more
// than about one attempt per second.
Micros pause_after(int failures, Micros now) {
  std::uint64_t random = 0;
  if (!fill_random(&random, sizeof random)) random = static_cast<std::uint64_t>(now) * 2654435761U;
  const Micros longest = std::min(kFirstPause << std::min(failures, 10), Breaker::kLongestPause);
  const Micros shortest = longest == Breaker::kLongestPause ? longest / 10 * 9 : 0;
  return shortest +
         static_cast<Micros>(random % static_cast<std::uint64_t>(longest - shortest + 1));
}

// Never 0.
std::uint64_t hash_of(const Place& place) {
  return std::max<std::uint64_t>(1, std::hash<std::string>()(place.host) * 31 + place.port);
}

}  // namespace

std::uint64_t Breaker::try_claim(Micros now) {
  if (!is_open() || now < retry_at()) return 0;
  std::uint64_t before = claim_.load(std::memory_order_relaxed);
  const std::uint64_t mine = claim_until(now + kClaim);
  const bool got = !stands(before, now) &&
                   claim_.compare_exchange_strong(before, mine, std::memory_order_acq_rel);
  return got ? mine : 0;
}

void Breaker::give_up(std::uint64_t claim) {
  claim_.compare_exchange_strong(claim, 0, std::memory_order_relaxed);
}

bool Breaker::open(Reason reason, Micros retry_at) {
  reason_.store(reason, std::memory_order_relaxed);
  retry_at_.store(retry_at, std::memory_order_relaxed);
  claim_.store(0, std::memory_order_relaxed);
  return open_.exchange(fork_generation(), std::memory_order_acq_rel) != fork_generation();
}

bool Breaker::failed(Reason reason, Micros now, std::uint64_t claim) {
  if (!is_open()) {
    if (now - closed_at_.load(std::memory_order_relaxed) > kSteady) failures_ = 0;
  } else if (claim == 0 || claim_.load(std::memory_order_relaxed) != claim) {
    return false;  // an attempt from before it opened: that many came at once is one failure
  }
  const int failures = failures_.fetch_add(1, std::memory_order_relaxed);
  return open(reason, now + pause_after(failures, now));
}

bool Breaker::fell_silent(Reason reason, Micros now) {
  silent_at_.store(now, std::memory_order_relaxed);
  if (is_open()) return false;
  if (now - closed_at_.load(std::memory_order_relaxed) > kSteady) {
    failures_ = 0;
    return open(reason, now);
  }
  return failed(reason, now);  // again so soon: no attempt at once
}

bool Breaker::succeeded(Micros now) {
  claim_.store(0, std::memory_order_relaxed);
  if (!is_open()) return false;
  closed_at_.store(now, std::memory_order_relaxed);
  return open_.exchange(0, std::memory_order_acq_rel) == fork_generation();
}

Micros Breaker::next_attempt() const {
  const std::uint64_t claimed = claim_.load(std::memory_order_relaxed);
  const bool ours = stands(claimed, 0);
  return std::max(retry_at(), ours ? static_cast<Micros>(claimed >> kGenerationBits) : 0);
}

Breaker* Breakers::of(const Place& place) {
  const std::uint64_t server = hash_of(place);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[(server + i) % entries_.size()];
    std::uint64_t found = entry.server.load(std::memory_order_acquire);
    if (found == 0 && entry.server.compare_exchange_strong(found, server)) found = server;
    if (found == server) return &entry.breaker;
  }
  return &entries_[server % entries_.size()].breaker;
}

std::size_t Breakers::keep_only(const std::vector<Place>& servers, Micros now) {
  std::size_t closed = 0;
  for (Entry& entry : entries_) {
    if (!entry.breaker.is_open()) continue;
    const bool kept = std::any_of(servers.begin(), servers.end(), [&](const Place& server) {
      return of(server) == &entry.breaker;
    });
    if (!kept && entry.breaker.succeeded(now)) ++closed;
  }
  return closed;
}

}  // namespace saqiya::redis

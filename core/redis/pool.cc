#include "core/redis/pool.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "core/fork.h"
#include "core/group.h"

namespace saqiya::redis {
namespace {

// Measured (tests/bench/redis_threads): threads that share a connection cost less than threads with
// one each, as soon as they wait for each other's batches rather than for nothing; but what two can
// send at once need not wait.
constexpr QueueOptions options() {
  QueueOptions made;
  made.in_flight = 2;
  return made;
}

// How many threads share a connection before another one is opened.
constexpr std::uint32_t kCrowd = 64;

// After a connection could not be had while others work, no more are tried for this long: these may
// be all that the server grants.
constexpr Micros kPauseOfGrowth = 10 * kMicrosPerSecond;
// Threads that find the server down move its next connection on, no more often than this in all.
constexpr Micros kNudgeEvery = 1'000;
constexpr Micros kPartOfDeadline = 4;

}  // namespace

Pool::Pool(std::shared_ptr<const Config> config)
    : config_(std::move(config)), generation_(fork_generation()) {}

Pool::~Pool() {
  for (std::uint32_t i = 0; i < made_; ++i) delete flights_[i].load();
}

void Pool::abandon() {
  // One that was being made is not among them: its descriptors are then left open, no harm done.
  const std::uint32_t made = made_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < made; ++i) flights_[i].load()->abandon();
}

// The first one that is connected and has room, so that few connections carry what there is; else
// the least crowded. Without any connection the least crowded of those that try for one.
Flight* Pool::choose() {
  const std::uint32_t made = made_.load(std::memory_order_acquire);
  Flight* connected = nullptr;  // the least crowded
  Flight* other = nullptr;      // and of those without a connection
  std::uint32_t least = 0;
  std::uint32_t least_other = 0;
  for (std::uint32_t i = 0; i < made; ++i) {
    Flight* const flight = flights_[i].load(std::memory_order_relaxed);
    const std::uint32_t load = flight->load();
    const bool ready = flight->is_connected();
    if (ready && load < kCrowd) return flight;
    Flight*& best = ready ? connected : other;
    std::uint32_t& lowest = ready ? least : least_other;
    if (best == nullptr || load < lowest) {
      best = flight;
      lowest = load;
    }
  }
  if (connected == nullptr) return other != nullptr ? other : grow(made);
  if (config_->breaker.is_open() || system_monotonic() < grow_at_.load(std::memory_order_relaxed)) {
    return connected;
  }
  if (other != nullptr) return least_other == 0 ? other : connected;
  if (made < config_->connections) {
    if (Flight* const fresh = grow(made)) return fresh;
  }
  return connected;
}

// Another flight, unless somebody else made one meanwhile, which then serves. Null when the
// operating system gives no descriptor.
Flight* Pool::grow(std::uint32_t from) {
  const std::lock_guard<Lock> guard(growing_);
  const std::uint32_t made = made_.load(std::memory_order_relaxed);
  if (made > from) return flights_[from].load(std::memory_order_relaxed);
  auto fresh = std::make_unique<Flight>(config_, options());
  if (!fresh->has_descriptors()) return nullptr;
  flights_[made].store(fresh.get(), std::memory_order_relaxed);
  made_.store(made + 1, std::memory_order_release);
  return fresh.release();
}

// Somebody must drive the opening of a connection while nobody waits for it: those who pass by. Who
// begins one waits for it, for a part of what a request may take: so a server that is back serves
// the first who comes when an attempt is due, also where requests are few.
void Pool::nudge(Flight& flight, std::span<const Request> requests, Micros now) {
  Micros before = nudged_at_.load(std::memory_order_relaxed);
  if (now - before < kNudgeEvery) return;
  if (!nudged_at_.compare_exchange_strong(before, now, std::memory_order_relaxed)) return;
  Micros shortest = kForever;
  for (const Request& request : requests) shortest = std::min(shortest, deadline_of(request));
  flight.nudge(shortest / kPartOfDeadline);
}

void Pool::fail(std::span<const Request> requests, Reason reason, std::span<Answer> answers) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    config_->failover.answer_unsent(requests[i], reason, &answers[i]);
  }
}

void Pool::execute(std::span<const Request> requests, std::span<Answer> answers) {
  if (requests.empty()) return;
  Flight* const flight = choose();
  if (flight == nullptr) return fail(requests, Reason::kBusy, answers);
  const Micros since = system_monotonic();
  if (flight->is_restless()) nudge(*flight, requests, since);
  flight->carry(requests, answers, since);
  if (!flight->is_connected() && made_.load(std::memory_order_relaxed) > 1) {
    grow_at_.store(system_monotonic() + kPauseOfGrowth, std::memory_order_relaxed);
  }
}

}  // namespace saqiya::redis

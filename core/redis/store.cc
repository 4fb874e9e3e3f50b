#include "core/redis/store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/fork.h"
#include "core/limiter.h"
#include "core/memory_store.h"
#include "core/random.h"
#include "core/redis/front.h"
#include "core/redis/queue.h"

namespace saqiya::redis {

RedisStore::RedisStore(std::shared_ptr<const Config> config, std::shared_ptr<Store> local_table)
    : config_(std::move(config)), local_table_(std::move(local_table)), pool_(new Pool(config_)) {
  watch_forks();
}

RedisStore::~RedisStore() {
  Pool* const pool = pool_.load(std::memory_order_acquire);
  if (pool->generation() == fork_generation()) {
    delete pool;
  } else {
    pool->abandon();
  }
}

Pool& RedisStore::pool() {
  Pool* pool = pool_.load(std::memory_order_acquire);
  if (pool->generation() == fork_generation()) return *pool;
  auto fresh = std::make_unique<Pool>(config_);
  Pool* const parents = pool;
  if (!pool_.compare_exchange_strong(pool, fresh.get(), std::memory_order_acq_rel)) return *pool;
  parents->abandon();
  return *fresh.release();
}

Binding RedisStore::bind(std::string_view identity) const {
  Binding binding;
  binding.key_head = config_->prefix + "{";
  binding.key_tail.assign("}:").append(identity);
  binding.hash_key = config_->deny_cache.key_of(identity);
  return binding;
}

void RedisStore::execute(const Request& request, Answer* answer) {
  if (answer_here(*config_, request, answer)) return;
  pool().execute({&request, 1}, {answer, 1});
}

void RedisStore::execute_many(std::span<const Request> requests, std::span<Answer> answers) {
  std::vector<std::size_t> rest;
  rest.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!answer_here(*config_, requests[i], &answers[i])) rest.push_back(i);
  }
  if (rest.size() == requests.size()) return pool().execute(requests, answers);
  std::vector<Request> asked;
  std::vector<Answer> told(rest.size());
  asked.reserve(rest.size());
  for (const std::size_t i : rest) asked.push_back(requests[i]);
  pool().execute(asked, told);
  for (std::size_t k = 0; k < rest.size(); ++k) answers[rest[k]] = told[k];
}

std::unique_ptr<Queue> RedisStore::open_queue(const std::shared_ptr<Store>& self,
                                              const QueueOptions& options) {
  auto queue = std::make_unique<RedisQueue>(self, config_, options);
  if (!queue->has_descriptor()) return nullptr;
  return queue;
}

StoreStats RedisStore::stats() const {
  const Counters& counters = config_->counters;
  StoreStats stats;
  const auto read = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  stats.requests = read(counters.requests);
  stats.batches = read(counters.batches);
  stats.connects = read(counters.connects);
  const Failover::Counters& without = config_->failover.counters();
  stats.failures = read(without.failures);
  stats.allowed = read(counters.allowed);
  stats.denied = read(counters.denied);
  stats.cached = config_->deny_cache.hits();
  stats.local_allowed = read(without.local_allowed);
  stats.local_denied = read(without.local_denied);
  stats.opened = read(without.opened);
  stats.closed = read(without.closed);
  stats.outages = config_->events.outages();
  stats.degraded = config_->events.is_degraded() ? 1 : 0;
  std::transform(counters.latency.begin(), counters.latency.end(), stats.latency.begin(), read);
  return stats;
}

std::shared_ptr<Store> make_redis_store(Endpoint endpoint, const StoreOptions& options) {
  auto config = std::make_shared<Config>();
  config->endpoint = std::move(endpoint);
  config->deadline = options.deadline;
  config->prefix = options.prefix;
  config->secret = options.secret;
  config->hash_subjects = options.hash_subjects;
  config->testing = options.testing;
  config->clock = options.clock;
  config->connections = options.connections;
  config->failover.write_subjects(options.hash_subjects, options.secret);
  SipKey secret;
  if (!fill_random(&secret, sizeof secret)) return nullptr;
  config->deny_cache.set_secret(secret);
  std::shared_ptr<Store> local_table = make_memory_store(options);
  if (local_table == nullptr) return nullptr;
  return std::make_shared<RedisStore>(std::move(config), std::move(local_table));
}

}  // namespace saqiya::redis

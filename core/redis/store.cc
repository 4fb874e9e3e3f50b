#include "core/redis/store.h"

#include <utility>

#include "core/fork.h"
#include "core/limiter.h"
#include "core/redis/queue.h"

namespace saqiya::redis {

RedisStore::RedisStore(std::shared_ptr<const Config> config)
    : config_(std::move(config)), pool_(new Pool(config_)) {
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
  return binding;
}

void RedisStore::execute(const Request& request, Answer* answer) {
  pool().execute({&request, 1}, {answer, 1});
}

void RedisStore::execute_many(std::span<const Request> requests, std::span<Answer> answers) {
  pool().execute(requests, answers);
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
  stats.requests = counters.requests.load(std::memory_order_relaxed);
  stats.batches = counters.batches.load(std::memory_order_relaxed);
  stats.connects = counters.connects.load(std::memory_order_relaxed);
  stats.failures = counters.failures.load(std::memory_order_relaxed);
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
  return std::make_shared<RedisStore>(std::move(config));
}

}  // namespace saqiya::redis

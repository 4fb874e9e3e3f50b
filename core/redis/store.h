// The store on a Redis server. Queues are its natural form; execute() is the blocking facade.
#pragma once

#include <atomic>
#include <memory>

#include "core/redis/config.h"
#include "core/redis/pool.h"
#include "core/store.h"

namespace saqiya::redis {

class RedisStore final : public Store {
 public:
  // local_table: decides while the server does not; null: no limiter can ask for that.
  explicit RedisStore(std::shared_ptr<const Config> config,
                      std::shared_ptr<Store> local_table = nullptr);
  ~RedisStore() override;

  bool is_local() const override { return false; }
  Micros deadline() const override { return config_->deadline; }
  Binding bind(std::string_view identity) const override;
  void execute(const Request& request, Answer* answer) override;
  void execute_many(std::span<const Request> requests, std::span<Answer> answers) override;
  std::unique_ptr<Queue> open_queue(const std::shared_ptr<Store>& self,
                                    const QueueOptions& options) override;
  StoreStats stats() const override;
  std::shared_ptr<Store> local_table() const override { return local_table_; }
  bool remembers_denials() const override { return !config_->testing; }
  bool has_event() const override { return config_->events.any(); }
  bool next_event(Event* event) override { return config_->events.next(event); }

 private:
  Pool& pool();

  const std::shared_ptr<const Config> config_;
  const std::shared_ptr<Store> local_table_;
  std::atomic<Pool*> pool_;  // replaced in a child after fork; the parent's is left where it is
};

// Options and URL have been checked. Null when the operating system gives no randomness.
std::shared_ptr<Store> make_redis_store(Endpoint endpoint, const StoreOptions& options);

}  // namespace saqiya::redis

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
  explicit RedisStore(std::shared_ptr<const Config> config);
  ~RedisStore() override;

  bool is_local() const override { return false; }
  Micros deadline() const override { return config_->deadline; }
  Binding bind(std::string_view identity) const override;
  void execute(const Request& request, Answer* answer) override;
  void execute_many(std::span<const Request> requests, std::span<Answer> answers) override;
  std::unique_ptr<Queue> open_queue(const std::shared_ptr<Store>& self,
                                    const QueueOptions& options) override;
  StoreStats stats() const override;

 private:
  Pool& pool();

  const std::shared_ptr<const Config> config_;
  std::atomic<Pool*> pool_;  // replaced in a child after fork; the parent's is left where it is
};

// Options and URL have been checked.
std::shared_ptr<Store> make_redis_store(Endpoint endpoint, const StoreOptions& options);

}  // namespace saqiya::redis

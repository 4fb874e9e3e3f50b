#include "core/redis/queue.h"

#include <utility>

namespace saqiya::redis {

RedisQueue::RedisQueue(std::shared_ptr<Store> store, std::shared_ptr<const Config> config,
                       const QueueOptions& options)
    : store_(std::move(store)),
      config_(std::move(config)),
      options_(options),
      generation_(fork_generation()),
      engine_(std::make_unique<Engine>(config_, options_, true)) {}

SubmitResult RedisQueue::submit(const Request& request, std::uint64_t user_data) {
  return engine().submit(request, user_data, 0);
}

void RedisQueue::close() {
  closed_ = true;
  engine().close();
}

// What was submitted before the fork is the parent's, and so are the connection's bytes.
void RedisQueue::start_afresh() const {
  engine_->abandon();
  engine_ = std::make_unique<Engine>(config_, options_, true);
  generation_ = fork_generation();
  if (closed_) engine_->close();
}

}  // namespace saqiya::redis

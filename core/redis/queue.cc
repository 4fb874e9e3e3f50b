#include "core/redis/queue.h"

#include <utility>

#include "core/redis/front.h"

namespace saqiya::redis {

RedisQueue::RedisQueue(std::shared_ptr<Store> store, std::shared_ptr<const Config> config,
                       const QueueOptions& options)
    : store_(std::move(store)),
      config_(std::move(config)),
      options_(options),
      generation_(fork_generation()),
      engine_(std::make_unique<Engine>(config_, options_)) {}

SubmitResult RedisQueue::submit(const Request& request, std::uint64_t user_data) {
  Engine& own = engine();
  const bool unlimited = request.items.empty() && request.limiter->is_unlimited();
  if (Answer answer; !unlimited && own.has_room() == SubmitResult::kOk &&
                     answer_here(*config_, request, &answer)) {
    own.answered(user_data, answer);
    return SubmitResult::kOk;
  }
  return own.submit(request, user_data, 0);
}

void RedisQueue::close() {
  closed_ = true;
  engine().close();
}

RedisQueue::~RedisQueue() {
  if (generation_ != fork_generation()) leave_to_parent();
}

// What was submitted before the fork is the parent's, and so are the connection's bytes and what
// the epoll instance watches. The engine is left where it is: a thread may have been inside.
void RedisQueue::leave_to_parent() const {
  engine_->abandon();
  static_cast<void>(engine_.release());
}

void RedisQueue::start_afresh() const {
  auto fresh = std::make_unique<Engine>(config_, options_);
  leave_to_parent();
  engine_ = std::move(fresh);
  generation_ = fork_generation();
  if (closed_) engine_->close();
}

}  // namespace saqiya::redis

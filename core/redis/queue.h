// The queue that callers see: an Engine, made anew in a child after fork.
#pragma once

#include <cstdint>
#include <memory>

#include "core/fork.h"
#include "core/redis/engine.h"
#include "core/store.h"

namespace saqiya::redis {

class RedisQueue final : public Queue {
 public:
  // store: kept alive with the queue.
  RedisQueue(std::shared_ptr<Store> store, std::shared_ptr<const Config> config,
             const QueueOptions& options);
  ~RedisQueue() override;

  // False when the operating system refused a descriptor.
  bool has_descriptor() const { return engine().has_descriptor(); }

  SubmitResult submit(const Request& request, std::uint64_t user_data) override;
  bool cancel(std::uint64_t user_data) override { return engine().cancel(user_data); }
  void process() override { engine().process(); }
  std::size_t drain(std::span<Completion> out) override { return engine().drain(out); }
  // Another one in a child after fork.
  int fd() const override { return engine().fd(); }
  Micros timeout() const override { return engine().timeout(); }
  std::size_t pending() const override { return engine().pending(); }
  void wait(Micros max_wait) override { engine().wait(max_wait); }
  void close() override;

 private:
  Engine& engine() const {
    if (generation_ != fork_generation()) start_afresh();
    return *engine_;
  }
  void start_afresh() const;
  void leave_to_parent() const;

  const std::shared_ptr<Store> store_;
  const std::shared_ptr<const Config> config_;
  const QueueOptions options_;
  bool closed_ = false;
  mutable std::uint64_t generation_;
  mutable std::unique_ptr<Engine> engine_;
};

}  // namespace saqiya::redis

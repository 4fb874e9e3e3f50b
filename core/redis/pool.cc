#include "core/redis/pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/fork.h"

namespace saqiya::redis {
namespace {

constexpr QueueOptions kOptions;

std::chrono::steady_clock::time_point to_time_point(Micros monotonic) {
  // steady_clock is CLOCK_MONOTONIC, as is system_monotonic().
  return std::chrono::steady_clock::time_point(std::chrono::microseconds(monotonic));
}

}  // namespace

// Puts the engine back also when an exception passes; one that still has requests is emptied first,
// since they refer to limiters of the caller.
class Pool::Borrowed {
 public:
  Borrowed(Pool& pool, Engine* engine) : pool_(pool), engine_(engine) {}
  ~Borrowed() {
    if (engine_ != nullptr) pool_.put_back(engine_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Engine* operator->() const { return engine_; }
  explicit operator bool() const { return engine_ != nullptr; }

 private:
  Pool& pool_;
  Engine* const engine_;
};

Pool::Pool(std::shared_ptr<const Config> config)
    : config_(std::move(config)), generation_(fork_generation()) {
  idle_.reserve(config_->connections);
}

void Pool::abandon() {
  // made_ may be one behind the engine being made: a descriptor is then left open, no harm done.
  for (std::uint32_t i = 0; i < made_; ++i) engines_[i]->abandon();
}

Engine* Pool::take(Micros deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (!idle_.empty()) {
      Engine* const engine = idle_.back();
      idle_.pop_back();
      return engine;
    }
    if (made_ < config_->connections) {
      auto engine = std::make_unique<Engine>(config_, kOptions, false);
      if (!engine->has_descriptor()) return nullptr;
      engines_[made_] = std::move(engine);
      return engines_[made_++].get();
    }
    if (free_.wait_until(lock, to_time_point(deadline)) == std::cv_status::timeout &&
        idle_.empty()) {
      return nullptr;
    }
  }
}

void Pool::put_back(Engine* engine) {
  if (engine->pending() > 0) engine->end_all();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(engine);
  }
  free_.notify_one();
}

void Pool::execute(std::span<const Request> requests, std::span<Answer> answers) {
  if (requests.empty()) return;
  const Micros start = system_monotonic();
  Micros last_deadline = 0;
  for (const Request& request : requests) {
    last_deadline = std::max(last_deadline, start + request.limiter->deadline());
  }
  const Borrowed engine(*this, take(last_deadline));
  if (!engine) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const Request& request = requests[i];
      answers[i].decision =
          failed_decision(*request.limiter, request.op, request.cost, Reason::kBusy);
    }
    Counters::add(config_->counters.failures, answers.size());
    return;
  }
  std::size_t submitted = 0;
  std::size_t done = 0;
  std::array<Completion, 64> completions;
  while (done < requests.size()) {
    while (submitted < requests.size() &&
           engine->submit(requests[submitted], submitted,
                          start + requests[submitted].limiter->deadline()) == SubmitResult::kOk) {
      ++submitted;
    }
    engine->process();
    std::size_t count = 0;
    while ((count = engine->drain(completions)) > 0) {
      for (std::size_t i = 0; i < count; ++i) {
        Answer& answer = answers[static_cast<std::size_t>(completions[i].user_data)];
        answer.decision = completions[i].decision;
        answer.ticket = completions[i].ticket;
      }
      done += count;
    }
    if (done < submitted) engine->wait(last_deadline - start);
  }
}

}  // namespace saqiya::redis

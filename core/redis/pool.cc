#include "core/redis/pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/fork.h"
#include "core/group.h"

namespace saqiya::redis {
namespace {

constexpr QueueOptions kOptions;
constexpr Micros kPauseOfGrowth = 10 * kMicrosPerSecond;

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

// An engine to use now; null: wait for one. Connected ones first. One whose server cannot be
// reached answers at once, so it would be idle most of the time and draw all requests to it: it
// serves only when no other is in use, and a failed opening is not tried again at the cost of a
// request while there are connections that work, but now and then.
Engine* Pool::pick() {
  for (auto it = idle_.rbegin(); it != idle_.rend(); ++it) {
    if ((*it)->is_connected()) return take_out(std::next(it).base());
  }
  const bool others_in_use = idle_.size() < made_;
  const BackOff& back_off = config_->back_off;
  const Micros pause = back_off.failures > 0 && others_in_use ? kPauseOfGrowth : 0;
  // Without any engine one is made all the same, to say what is wrong.
  if (made_ == 0 || system_monotonic() >= back_off.retry_at + pause) {
    if (!idle_.empty()) return take_out(std::prev(idle_.end()));
    if (made_ < config_->connections) {
      auto engine = std::make_unique<Engine>(config_, kOptions, false);
      if (engine->has_descriptor()) {
        engines_[made_] = std::move(engine);
        return engines_[made_++].get();
      }
    }
  }
  return others_in_use || idle_.empty() ? nullptr : take_out(std::prev(idle_.end()));
}

Engine* Pool::take_out(std::vector<Engine*>::iterator at) {
  Engine* const engine = *at;
  idle_.erase(at);
  return engine;
}

Engine* Pool::take(Micros deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (waiters_.empty()) {
    if (Engine* const engine = pick()) return engine;
    if (made_ == 0) return nullptr;  // no descriptor to be had, and nobody to wait for
  }
  Waiter self;
  waiters_.push_back(&self);
  Engine* engine = nullptr;
  bool late = false;
  while (engine == nullptr && !late) {
    late = self.turn.wait_until(lock, to_time_point(deadline)) == std::cv_status::timeout;
    if (waiters_.front() == &self) engine = pick();
  }
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &self));
  if (!idle_.empty() && !waiters_.empty()) waiters_.front()->turn.notify_one();
  return engine;
}

void Pool::put_back(Engine* engine) {
  if (engine->pending() > 0) engine->end_all();
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(engine);
  if (!waiters_.empty()) waiters_.front()->turn.notify_one();
}

void Pool::execute(std::span<const Request> requests, std::span<Answer> answers) {
  if (requests.empty()) return;
  Micros start = system_monotonic();
  Micros longest = 0;
  for (const Request& request : requests) longest = std::max(longest, deadline_of(request));
  const Borrowed engine(*this, take(start + longest));
  if (!engine) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
      fail_request(requests[i], Reason::kBusy, &answers[i]);
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
                          start + deadline_of(requests[submitted])) == SubmitResult::kOk) {
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
    if (done < submitted) engine->wait(longest);
    // Of more than fit at once each has its time from when its turn comes.
    start = system_monotonic();
  }
}

}  // namespace saqiya::redis

// C66: a queue under random treatment. Requests are submitted, cancelled, taken and driven, and the
// queue is closed and opened anew; each request that was not cancelled completes exactly once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/redis/fixture.h"

namespace saqiya::testing {

class SoakQueue {
 public:
  SoakQueue(std::shared_ptr<Store> store, std::uint32_t seed)
      : store_(std::move(store)), random_(seed) {
    options_.capacity = 300;
    options_.batch = 8;
    options_.in_flight = 3;
    queue_ = open_queue(store_, options_);
  }
  virtual ~SoakQueue() = default;
  SoakQueue(const SoakQueue&) = delete;
  SoakQueue& operator=(const SoakQueue&) = delete;

  void run(int events) {
    for (int i = 0; i < events; ++i) {
      step();
      if (::testing::Test::HasFatalFailure()) return;
      ASSERT_EQ(queue_->pending(), open_);
    }
    const Micros give_up = system_monotonic() + 60 * kMicrosPerSecond;
    while (open_ > 0 && system_monotonic() < give_up) {
      queue_->process();
      take();
      queue_->wait(10'000);
    }
    EXPECT_EQ(open_, 0U);
    EXPECT_EQ(queue_->pending(), 0U);
  }

 protected:
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

  // For next().
  void submit(const Request& request) {
    const SubmitResult result = queue_->submit(request, states_.size());
    if (result == SubmitResult::kOk) {
      states_.push_back(State::kOpen);
      ++open_;
    } else {
      ASSERT_EQ(result, SubmitResult::kFull);
      queue_->process();
      queue_->wait(1000);
      take();
    }
  }

 private:
  enum class State { kOpen, kDone, kCancelled };

  // Submits one request.
  virtual void next() = 0;
  virtual void disturb() {}
  virtual void completed(const Completion&) {}
  virtual void cancelled() {}

  void step() {
    const std::uint32_t what = below(1000);
    if (what == 0) return reopen();
    if (what < 50) return cancel();
    if (what < 70) return queue_->wait(1000);
    if (what < 150) return take();
    if (what < 350) return queue_->process();
    if (what < 360) return disturb();
    next();
  }

  void reopen() {
    queue_->close();
    while (queue_->pending() > 0) take();
    ASSERT_EQ(open_, 0U);
    queue_ = open_queue(store_, options_);
  }

  // A completion that waits to be drained can no longer be cancelled.
  void cancel() {
    if (states_.empty()) return;
    const auto recent = std::min<std::uint32_t>(50, static_cast<std::uint32_t>(states_.size()));
    const std::size_t which = states_.size() - 1 - below(recent);
    if (!queue_->cancel(which)) return;
    ASSERT_EQ(states_[which], State::kOpen);
    states_[which] = State::kCancelled;
    --open_;
    cancelled();
  }

  void take() {
    std::array<Completion, 32> some;
    const std::size_t count = queue_->drain(some);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(states_[some[i].user_data], State::kOpen) << some[i].user_data;
      states_[some[i].user_data] = State::kDone;
      --open_;
      completed(some[i]);
    }
  }

  const std::shared_ptr<Store> store_;
  std::minstd_rand random_;
  QueueOptions options_;
  std::unique_ptr<Queue> queue_;
  std::vector<State> states_;  // by user data
  std::size_t open_ = 0;
};

}  // namespace saqiya::testing

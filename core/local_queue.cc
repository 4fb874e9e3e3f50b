#include "core/local_queue.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <deque>

#include "core/fork.h"
#include "core/limiter.h"

namespace saqiya {
namespace {

class LocalQueue final : public Queue {
 public:
  LocalQueue(std::shared_ptr<Store> store, const QueueOptions& options, int fd)
      : store_(std::move(store)), capacity_(options.capacity), fd_(fd) {}

  ~LocalQueue() override { ::close(fd_); }

  SubmitResult submit(const Request& request, std::uint64_t user_data) override {
    forget_parents();
    if (closed_) return SubmitResult::kClosed;
    if (done_.size() >= capacity_) return SubmitResult::kFull;
    // Its place first: an allocation that fails must not follow a charge.
    done_.push_back({user_data, {}, {}});
    Answer answer;
    if (request.items.empty() && request.limiter->is_unlimited()) {
      answer.decision = unlimited_decision(request.op);
      if (!request.each.empty()) request.each[0] = answer.decision;
      if (!request.tickets_out.empty()) request.tickets_out[0] = answer.ticket;
    } else {
      try {
        store_->execute(request, &answer);
      } catch (...) {
        done_.pop_back();
        throw;
      }
    }
    done_.back().decision = answer.decision;
    done_.back().ticket = answer.ticket;
    return SubmitResult::kOk;
  }

  // Everything submitted has completed; one that waits to be drained can no longer be cancelled.
  bool cancel(std::uint64_t) override { return false; }
  void process() override {}

  std::size_t drain(std::span<Completion> out) override {
    forget_parents();
    const std::size_t count = std::min(out.size(), done_.size());
    const auto end = done_.begin() + static_cast<std::ptrdiff_t>(count);
    std::copy(done_.begin(), end, out.begin());
    done_.erase(done_.begin(), end);
    return count;
  }

  int fd() const override { return fd_; }
  Micros timeout() const override { return pending() == 0 ? -1 : 0; }
  std::size_t pending() const override {
    return generation_ == fork_generation() ? done_.size() : 0;
  }

  void wait(Micros max_wait) override {
    if (pending() != 0) return;
    constexpr Micros kLongest = 3'600'000'000;
    ::poll(nullptr, 0, static_cast<int>(std::clamp<Micros>(max_wait, 0, kLongest) / 1000));
  }

  void close() override { closed_ = true; }

 private:
  // What the parent submitted before a fork stays the parent's.
  void forget_parents() {
    if (generation_ == fork_generation()) return;
    generation_ = fork_generation();
    done_.clear();
  }

  const std::shared_ptr<Store> store_;
  const std::size_t capacity_;
  const int fd_;  // never readable: for loops that watch a descriptor in any case
  std::uint64_t generation_ = fork_generation();
  bool closed_ = false;
  std::deque<Completion> done_;
};

}  // namespace

std::unique_ptr<Queue> open_local_queue(std::shared_ptr<Store> store, const QueueOptions& options) {
  const int fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return nullptr;
  return std::make_unique<LocalQueue>(std::move(store), options, fd);
}

}  // namespace saqiya

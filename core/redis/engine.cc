#include "core/redis/engine.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <utility>

#include "core/group.h"

namespace saqiya::redis {

Engine::Engine(std::shared_ptr<const Config> config, const QueueOptions& options)
    : config_(std::move(config)), options_(options), calls_(config_, options_) {
  if (config_->endpoint.topology == Endpoint::Topology::kCluster) {
    cluster_ = std::make_unique<Cluster>(*config_, options_, &calls_, epoll_.fd());
  } else {
    link_ = std::make_unique<Link>(*config_, options_, &calls_, &config_->breaker, epoll_.fd(),
                                   config_->endpoint.places.front());
  }
}

Engine::~Engine() = default;

void Engine::abandon() {
  if (link_) link_->abandon();
  if (cluster_) cluster_->abandon();
  // The epoll instance's descriptor stays open: a child that has closed everything may have one of
  // its own under this number, and nothing tells them apart.
  epoll_.forget();
}

Engine::Descriptor::Descriptor() : fd_(epoll_create1(EPOLL_CLOEXEC)) {}

void Engine::Descriptor::close() {
  if (const int fd = std::exchange(fd_, -1); fd >= 0) ::close(fd);
}

bool Engine::is_connected() const {
  return link_ ? link_->is_connected() : cluster_->is_connected();
}

bool Engine::is_opening() const {
  return link_ ? link_->is_connected() && !link_->is_ready() : cluster_->is_opening();
}

Micros Engine::tried_at() const { return link_ ? link_->tried_at() : cluster_->tried_at(); }

SubmitResult Engine::submit(const Request& request, std::uint64_t user_data, Micros deadline) {
  if (const SubmitResult room = has_room(); room != SubmitResult::kOk) return room;
  if (request.items.empty() && request.limiter->is_unlimited()) {
    calls_.complete_at_once(user_data, {unlimited_decision(request.op), {}});
    return SubmitResult::kOk;
  }
  const Micros now = system_monotonic();
  if (deadline == 0) deadline = now + deadline_of(request);
  const std::uint64_t seq = calls_.add(request, user_data, deadline);
  if (cluster_) {
    try {
      cluster_->expect(seq);  // the last that may throw
    } catch (...) {
      calls_.drop(seq);
      throw;
    }
  }
  calls_.opened();
  if (calls_.at(seq).key_count == 0) {  // every item is unlimited
    Answer answer;
    calls_.at(seq).group->group.finish(false, kEpoch, &answer);
    calls_.complete(seq, answer);
    calls_.retire();
  } else if (cluster_) {
    cluster_->take(seq, eager_batch(), now);
  } else {
    link_->take(seq);
    if (link_->has(eager_batch())) link_->send_early(now);
  }
  return SubmitResult::kOk;
}

void Engine::process() {
  if (closed_) return;
  open_before_ = calls_.open();
  const Micros now = system_monotonic();
  if (cluster_) return cluster_->process(now);
  // What has arrived counts, even when this call comes late.
  link_->receive(now);
  link_->process(now);
}

void Engine::push() {
  if (closed_) return;
  link_ ? link_->push() : cluster_->push();
}

void Engine::give_up(Micros now) {
  if (closed_) return;
  link_ ? link_->give_up(now) : cluster_->give_up(now);
}

Micros Engine::timeout() const {
  if (calls_.has_completions()) return 0;
  if (closed_) return -1;
  const Micros now = system_monotonic();
  const Micros next = link_ ? link_->next_event(now) : cluster_->next_event(now);
  if (next == kForever) return -1;
  return std::max<Micros>(0, next - now);
}

// The socket itself is cheaper to watch than the epoll descriptor around it.
pollfd Engine::to_watch() const {
  if (!link_ || !link_->is_ready()) return {epoll_.fd(), POLLIN, 0};
  const bool unsent = link_->wants_to_write();
  return {link_->fd(), static_cast<short>(unsent ? POLLIN | POLLOUT : POLLIN), 0};
}

void Engine::wait(Micros max_wait) {
  Micros most = std::max<Micros>(0, max_wait);
  const Micros due = timeout();
  if (due >= 0) most = std::min(most, due);
  if (most == 0) return;
  pollfd p = to_watch();
  const timespec time = to_timespec(most);
  ppoll(&p, 1, &time, nullptr);
}

void Engine::close() {
  closed_ = true;
  link_ ? link_->close(Reason::kCancelled) : cluster_->close(Reason::kCancelled);
}

void Engine::end_all() {
  close();
  closed_ = false;
  calls_.forget_completions();
}

}  // namespace saqiya::redis

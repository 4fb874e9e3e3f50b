// The Redis queue's works: requests in order of submission, a link to each server, completions for
// the caller. Knows nothing of forks (queue.h does) and has one owner at a time.
#pragma once

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/redis/calls.h"
#include "core/redis/cluster.h"
#include "core/redis/config.h"
#include "core/redis/link.h"
#include "core/store.h"

namespace saqiya::redis {

class Engine {
 public:
  Engine(std::shared_ptr<const Config> config, const QueueOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Connected, or about to be.
  bool is_connected() const;
  // There is no connection yet, but one is being opened.
  bool is_opening() const;
  // When one was begun to be opened last.
  Micros tried_at() const;
  bool has_descriptor() const { return epoll_.fd() >= 0; }
  // What submit() would return.
  SubmitResult has_room() const {
    if (closed_) return SubmitResult::kClosed;
    return calls_.is_full() ? SubmitResult::kFull : SubmitResult::kOk;
  }
  // A request that was answered without a server, when there is room.
  void answered(std::uint64_t user_data, const Answer& answer) {
    calls_.complete_at_once(user_data, answer);
  }
  // deadline: an instant; 0: what the limiters allow from now on.
  SubmitResult submit(const Request& request, std::uint64_t user_data, Micros deadline);
  bool cancel(std::uint64_t user_data) { return calls_.cancel(user_data); }
  void process();
  bool has_completions() const { return calls_.has_completions(); }
  std::size_t drain(std::span<Completion> out) { return calls_.drain(out); }
  int fd() const { return epoll_.fd(); }
  Micros timeout() const;
  std::size_t pending() const { return calls_.open(); }
  void wait(Micros max_wait);
  // What wait() waits for: the one socket where there is no more to it than that.
  pollfd to_watch() const;

  // For threads that share an engine, under a lock of theirs, while one of them waits on its
  // descriptors without the lock:
  // Sends what waits where a ready connection takes it; never receives, opens or closes.
  void push();
  // Ends requests past their deadline; closes nothing.
  void give_up(Micros now);
  // Nothing waits and nothing is on the wire, not even what nobody waits for any more.
  bool is_idle() const { return calls_.ring().empty(); }

  // Ends everything as cancelled; completions can still be drained.
  void close();
  // Forgets every request and completion, for an owner that was interrupted.
  void end_all();
  // In a child after fork: closes the copies of descriptors without a byte to anyone. Nothing but
  // the destructor may follow, and not even that when another thread may have been inside.
  void abandon();

 private:
  class Descriptor {
   public:
    Descriptor();
    ~Descriptor() { close(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int fd() const { return fd_; }
    void close();
    void forget() { fd_ = -1; }

   private:
    int fd_;
  };

  // How many requests are worth a batch before the turn ends: half of what was open when the last
  // turn began, so that the server works on one half while the caller deals with the other.
  std::size_t eager_batch() const {
    return std::min<std::size_t>(options_.batch, std::max<std::size_t>(16, open_before_ / 2));
  }

  const std::shared_ptr<const Config> config_;
  const QueueOptions options_;
  Descriptor epoll_;  // outlives what is registered with it
  Calls calls_;
  // One of the two: the only server (or what Sentinel says that it is), or a cluster of them.
  std::unique_ptr<Link> link_;
  std::unique_ptr<Cluster> cluster_;
  std::size_t open_before_ = 0;  // how many were open when process() was called last
  bool closed_ = false;
};

}  // namespace saqiya::redis

// The Redis queue's works: requests in order of submission, batches of them on the wire,
// completions for the caller. Knows nothing of forks (queue.h does) and has one owner at a time.
//
// A request is in exactly one place: waiting (from next_ on in calls_), in a batch of sent_, or
// done. Invariants: sequence numbers in calls_ only grow; batches hold disjoint ranges of them;
// replies come in the order of sent_.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "core/redis/batch.h"
#include "core/redis/config.h"
#include "core/redis/connection.h"
#include "core/redis/ring.h"
#include "core/store.h"

namespace saqiya::redis {

class Engine {
 public:
  // hold_limiters: false when limiters outlive their requests anyway (blocking callers).
  Engine(std::shared_ptr<const Config> config, const QueueOptions& options, bool hold_limiters);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Connected, or about to be.
  bool is_connected() const { return connection_.state() != Connection::State::kClosed; }
  // A request submitted now would not fail for the back-off alone.
  bool can_serve(Micros now) const { return is_connected() || now >= config_->back_off.retry_at; }
  bool has_descriptor() const { return epoll_.fd() >= 0; }
  SubmitResult submit(const Request& request, std::uint64_t user_data, Micros deadline);
  bool cancel(std::uint64_t user_data);
  void process();
  std::size_t drain(std::span<Completion> out);
  int fd() const { return epoll_.fd(); }
  Micros timeout() const;
  std::size_t pending() const { return open_; }
  void wait(Micros max_wait);
  // Ends everything as cancelled; completions can still be drained.
  void close();
  // Forgets every request and completion, for an owner that was interrupted.
  void end_all();
  // In a child after fork: closes the copies of descriptors without a byte to anyone. Nothing but
  // the destructor may follow, and not even that when another thread may have been inside.
  void abandon();

 private:
  // A command on the wire; [first, last) may hold requests that are gone.
  struct Batch {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::uint64_t begins_at = 0;  // in the connection's stream
    Micros deadline = 0;          // the earliest among its requests that still wait
    Micros last_deadline = 0;
    Micros give_up_at = 0;  // no reply by then: the server is not answering
    bool as_eval = false;
  };

  class Descriptor {
   public:
    Descriptor();
    ~Descriptor() { close(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int fd() const { return fd_; }
    void close();

   private:
    int fd_;
  };

  HeldLimiter* hold(const Limiter& limiter);
  void release(HeldLimiter* held);
  void release(Call* call);
  void append_key(const Limiter& limiter, std::size_t rule, std::string_view subject, Call* call);
  void prepare(const Request& request, Call* call);
  void prepare_group(const Request& request, Call* call);
  Call& new_call(std::uint64_t user_data, Micros deadline);
  void wait_in_line(Call* call);
  // A batch may begin with requests whose slots have been freed.
  std::uint64_t first_of(const Batch& batch) const { return std::max(batch.first, calls_.begin()); }
  void tell(const Call& call, const Answer& answer);
  void complete(Call* call, const Answer& answer);
  void end(Call* call, Reason reason);
  void give_back(const Call& call, const Ticket& ticket);
  void give_back_group(const Call& call);
  bool go_again(std::uint64_t seq, Micros now);
  void retire();

  void connect_if_needed(Micros now);
  void connection_failed(Reason reason, Micros now);
  void lose_connection(Reason reason, Micros now);
  void receive(Micros now);
  bool take_replies(Micros now);
  bool take_reply(const Reply& reply, Micros now);
  void end_batch(const Batch& batch, Reason reason);
  bool resend(Batch batch, Micros now);
  bool may_send() const;
  // How many requests are worth a batch before the turn ends: half of what was open when the last
  // turn began, so that the server works on one half while the caller deals with the other.
  std::size_t eager_batch() const {
    return std::min<std::size_t>(options_.batch, std::max<std::size_t>(16, open_before_ / 2));
  }
  void send_waiting();
  void send_batch(Batch batch);
  void flush(Micros now);
  void expire(Micros now);
  void expire_sent(Batch* batch, Micros now);
  void expire_waiting(Micros now);
  void end_waiting(Reason reason);

  const std::shared_ptr<const Config> config_;
  const QueueOptions options_;
  const bool hold_limiters_;
  Descriptor epoll_;  // outlives what is registered with it
  Connection connection_;

  Ring<Call> calls_;
  KeyBytes keys_;
  Ring<Batch> sent_;
  Ring<Completion> completions_;
  std::uint64_t next_ = 0;              // the first request that may be waiting
  std::size_t waiting_ = 0;             // how many are
  Micros waiting_deadline_ = kForever;  // not later than the earliest deadline among them
  Micros longest_deadline_ = 0;         // of all that waited since the connection was lost
  std::size_t open_before_ = 0;         // open_ when process() was called last
  std::size_t open_ = 0;                // submitted, not cancelled, not drained
  bool closed_ = false;

  std::unordered_map<const Limiter*, std::unique_ptr<HeldLimiter>> held_;
  HeldLimiter* last_held_ = nullptr;

  bool always_eval_ = false;  // EVALSHA is forbidden to this user
  bool eval_first_ = false;   // SCRIPT LOAD was refused: the first batch brings the script
  bool leaving_ = false;      // send nothing more on this connection
  Reason leave_reason_ = Reason::kNone;
  bool good_ = false;  // this connection has answered
  std::uint64_t jitter_;
  Micros server_ahead_ = 0;  // of this machine's wall clock, when it last answered

  std::string subject_;    // scratch
  std::string arguments_;  // scratch
};

}  // namespace saqiya::redis

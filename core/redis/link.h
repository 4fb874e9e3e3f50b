// What an engine has with one server: a connection, the line of requests that wait for it, the
// batches on the wire, and what its breaker says of it.
//
// Batches are answered in the order of sent_. On a cluster a batch holds requests of one slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/redis/breaker.h"
#include "core/redis/calls.h"
#include "core/redis/config.h"
#include "core/redis/connection.h"
#include "core/redis/error.h"
#include "core/redis/ring.h"
#include "core/redis/slots.h"

namespace saqiya::redis {

class Link {
 public:
  // Requests that this server of a cluster did not answer, linked; nothing of them ran.
  struct Turned {
    std::uint64_t first = kNoCall;
    Redirect how = Redirect::kNone;
    bool down = false;    // kLater: it is the whole cluster that is down
    bool placed = false;  // kMoved, kAsk: `place` says where to
    Place place;
  };

  // All outlive the link, or live as long.
  Link(const Config& config, const QueueOptions& options, Calls* calls, Breaker* breaker,
       int epoll_fd, Place place);
  ~Link() { stop_trying(); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  const Place& place() const { return place_; }
  int fd() const { return connection_.fd(); }
  // Connected, or about to be.
  bool is_connected() const { return connection_.state() != Connection::State::kClosed; }
  bool is_ready() const { return connection_.is_ready(); }
  // When a connection was begun to be opened last.
  Micros tried_at() const { return tried_at_; }
  bool wants_to_write() const { return connection_.backlog() > 0; }
  bool is_idle() const { return line_.empty() && sent_.empty(); }
  // A request that comes now is sent, or worth waiting; else the breaker is open.
  bool can_serve() const { return is_ready() ? is_trusted() : !breaker_->is_open(); }

  // Why the breaker is open.
  Reason failure() const { return breaker_->reason(); }

  // The request waits here from now on, or ends at once. Nothing is sent yet.
  void take(std::uint64_t seq);
  bool has(std::size_t waiting) const { return line_.size >= waiting && may_send(); }
  // Sends what waits, ahead of process(), where that can be done at once.
  void send_early(Micros now);

  void receive(Micros now);
  // All but receiving: connects, sends, ends what is late.
  void process(Micros now);
  // See Engine.
  void push();
  void give_up(Micros now);
  // kForever: nothing to do until the socket has something.
  Micros next_event(Micros now) const;

  // Asks for the map of the cluster. The answer, once; false for a failure.
  void ask_map() { map_wanted_ = true; }
  bool is_asked_for_map() const { return map_wanted_ || map_asked_; }
  std::optional<bool> take_map(SlotMap* map);
  Reason map_failure() const { return map_failure_; }
  std::vector<Turned>& turned() { return turned_; }
  // No more is sent on this connection, and when the last reply has come it counts as failed, or,
  // without a reason, another one is opened.
  void leave(Reason reason);

  void close(Reason reason);
  void abandon() { connection_.abandon(); }

 private:
  enum class Loss { kBroke, kDropped, kSilent, kLeft };

  // A command on the wire.
  struct Batch {
    std::uint64_t first = kNoCall;  // its requests, linked; none: a question for the map
    std::uint64_t begins_at = 0;    // in the connection's stream
    Micros deadline = kForever;     // the earliest among its requests that still wait
    Micros last_deadline = 0;
    Micros give_up_at = 0;  // no reply by then: the server is not answering
    Micros flushed_at = 0;
    bool as_eval = false;
    bool asking = false;   // ASKING went before it, and is answered before it
    bool unasked = false;  // but was not permitted, so the other answer tells nothing
  };

  // While the breaker is open because the server fell silent, a connection that has heard nothing
  // since is not used.
  bool is_trusted() const { return !breaker_->is_open() || heard_at_ >= breaker_->silent_at(); }
  std::string name() const;  // of the server, for events
  bool may_send() const;
  void connect(Micros now);
  void try_anew(Micros now);
  void stop_trying();
  void opened(Micros now);
  void serves(Micros now);
  void fell_silent(Reason reason, Micros now);
  void opening_failed(Reason reason, Micros now);
  void lose(Reason reason, Loss how, Micros now);
  void end_line();
  void expire(Micros now);
  bool expire_batches(Micros now);
  bool expire_batch(Batch* batch, Micros now);
  Reason unsent_reason() const;

  bool take_replies(Micros now);
  bool take_reply(const Reply& reply, Micros now);
  bool take_error(const Batch& batch, std::string_view text, Micros now);
  void take_asking_reply(const Reply& reply, Micros now);
  void take_map_reply(const Reply& reply, Micros now);
  void take_results(BatchReply* results, const Batch& batch, Micros now);
  bool go_again(std::uint64_t seq, Micros now);
  bool go_elsewhere(std::uint64_t seq, Reason reason, Micros now);
  void give_back(std::uint64_t seq, const Answer& answer);
  void turn(const Batch& batch, const ErrorClass& error, std::string_view text, Micros now);
  // Ends what nobody waits for of a batch of which nothing ran. The rest, linked.
  std::uint64_t still_wanted(std::uint64_t first, Reason late, Micros now);
  void end_batch(const Batch& batch, Reason reason);
  void resend(Batch batch, Micros now);

  void send_waiting();
  void fill(Batch* batch);
  void fill_by_slot(Batch* batch);
  void put_in(Call* call, Batch* batch);
  void send_batch(Batch batch);
  void send_map_question(Micros now);
  void flush(Micros now);

  const Config& config_;
  const QueueOptions& options_;
  Calls& calls_;
  Breaker* const breaker_;
  const Place place_;
  const bool by_slot_;
  const std::size_t most_sent_;  // batches
  Connection connection_;
  Line line_;
  Ring<Batch> sent_;
  std::vector<Turned> turned_;

  bool wanted_ = false;       // requests ended for want of this server: it is tried for
  bool late_ = false;         // batches ran out of time since expire() looked last
  bool always_eval_ = false;  // EVALSHA is forbidden to this user
  bool eval_first_ = false;   // SCRIPT LOAD was refused: the first batch brings the script
  bool leaving_ = false;      // send nothing more on this connection
  bool used_ = false;         // something was sent on it
  bool good_ = false;         // and answered
  Reason leave_reason_ = Reason::kNone;
  std::uint64_t claim_ = 0;  // to the attempt to connect that the breaker allows
  Micros tried_at_ = 0;
  Micros try_until_ = 0;
  Micros heard_at_ = 0;
  Micros server_ahead_ = 0;  // of this machine's wall clock, when it last answered

  bool map_wanted_ = false;
  bool map_asked_ = false;
  std::optional<bool> map_answered_;
  Reason map_failure_ = Reason::kNone;
  SlotMap map_;

  std::string arguments_;  // scratch
};

}  // namespace saqiya::redis

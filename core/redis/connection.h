// One non-blocking connection to one server, ready for use: found, reached, logged in, and with the
// script loaded. Never waits, never retries: what it could not do it reports, and its owner
// decides.
//
// kClosed --open--> kResolving -> kConnecting -> kHandshake -> kReady, back to kClosed from each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/decision.h"
#include "core/redis/config.h"
#include "core/redis/resp.h"
#include "core/redis/sentinel.h"
#include "core/redis/stream.h"
#include "core/time.h"

namespace saqiya::redis {

class Connection {
 public:
  // kConnecting: sentinels are asked, the server is being reached, TLS is agreed upon.
  enum class State { kClosed, kResolving, kConnecting, kHandshake, kReady };
  using Input = Stream::Input;

  // config outlives the connection; its descriptors are registered with epoll_fd.
  Connection(const Config& config, int epoll_fd);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  State state() const;
  bool is_ready() const { return ready_; }

  // Begins to connect to the server at `place`, or, where there are sentinels, to the one they
  // name; all of it must be done by `limit`.
  void open(const Place& place, Micros now, Micros limit);
  // Goes on with opening as far as it can. Afterwards kReady, kClosed (see failure()), or not yet.
  void advance(Micros now);
  // Why opening failed; and in words, which hold no password.
  Reason failure() const { return failure_; }
  const std::string& problem() const { return problem_; }
  // The instant at which advance(), or moved_away() when ready, must be called again at the latest;
  // kForever: none.
  Micros next_event(Micros now) const;
  void close();
  // As close(), and ends questions for names and to sentinels too, which close() lets run on.
  void stop();

  // The server that this is a connection to, or was last tried.
  const Place& server() const { return server_; }

  // -- When ready. Whoever learns here that the connection broke calls close().

  // Where there are sentinels: they now name another master, so this connection should be left.
  // Asks them at most once a second, without waiting; to be called at every turn.
  bool moved_away(Micros now);

  // Commands are appended to output(), then sent.
  std::string* output() { return stream_.output(); }
  // Positions in the stream of all bytes since opening.
  std::uint64_t appended() const { return stream_.appended(); }
  std::uint64_t sent() const { return stream_.sent(); }
  std::size_t backlog() const { return stream_.backlog(); }
  // Sends what the socket takes. False when the connection broke.
  bool send() { return stream_.send(); }
  // Reads once. The replies read so far are in reader(), also when the connection closed.
  Input receive() { return stream_.receive(); }
  ReplyReader& reader() { return stream_.reader(); }
  // The server holds the script, so EVALSHA will do.
  bool script_loaded() const { return script_loaded_; }

  // This TLS connection goes on with the session of the one before.
  bool is_resumed() const { return stream_.is_resumed(); }

  int fd() const { return stream_.fd(); }
  // In a child after fork: closes the copies of descriptors without a byte to anyone.
  void abandon();

 private:
  void fail(Reason reason, std::string problem);
  void find(Micros now);
  void greet();
  void shake_hands(Micros now);
  void take_replies();
  void take_reply(const Reply& reply, char step);

  const Config& config_;
  Stream stream_;
  std::unique_ptr<MasterFinder> finder_;  // null without sentinels
  bool opening_ = false;
  bool finding_ = false;  // the first part of it
  bool ready_ = false;
  Place server_;
  Micros limit_ = 0;   // of the whole opening
  Micros ask_at_ = 0;  // when sentinels are asked again
  Reason failure_ = Reason::kConnect;
  std::string problem_;
  // What each awaited reply answers: 'a'uth, client's 'n'ame, 's'elect, 'r'ole, 'l'oad, 'p'robe.
  // Empty before the first command.
  std::string handshake_;
  std::size_t handshake_at_ = 0;
  bool script_loaded_ = false;
};

}  // namespace saqiya::redis

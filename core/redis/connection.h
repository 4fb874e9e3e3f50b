// One non-blocking connection to one server: name, address, socket, login, script, bytes. Never
// waits, never retries: what it could not do it reports, and its owner decides.
//
// kClosed --open--> kResolving -> kConnecting -> kHandshake -> kReady, back to kClosed from each.
//
// A seam: TLS goes between the socket and send_some()/receive_some().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/decision.h"
#include "core/redis/config.h"
#include "core/redis/file_id.h"
#include "core/redis/resolver.h"
#include "core/redis/resp.h"
#include "core/time.h"

namespace saqiya::redis {

class Connection {
 public:
  enum class State { kClosed, kResolving, kConnecting, kHandshake, kReady };
  enum class Input { kMore, kDone, kClosed };

  // config outlives the connection; its socket is registered with epoll_fd.
  Connection(const Config& config, int epoll_fd);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  State state() const { return state_; }
  bool is_ready() const { return state_ == State::kReady; }

  // Begins to connect; all of it must be done by `limit`.
  void open(Micros now, Micros limit);
  // Goes on with opening as far as it can. Afterwards kReady, kClosed (see failure()), or not yet.
  void advance(Micros now);
  // Why opening failed.
  Reason failure() const { return failure_; }
  // The instant at which advance() must be called again at the latest; kForever: none.
  Micros next_event(Micros now) const;
  void close();
  // As close(), and ends a question for the name too, which close() lets run on.
  void stop();

  // -- When ready. Whoever learns here that the connection broke calls close().

  // Commands are appended to output(), then sent.
  std::string* output() { return &output_; }
  // Positions in the stream of all bytes since opening.
  std::uint64_t appended() const { return sent_ + (output_.size() - output_at_); }
  std::uint64_t sent() const { return sent_; }
  std::size_t backlog() const { return output_.size() - output_at_; }
  // Sends what the socket takes. False when the connection broke.
  bool send();
  // Reads once. The replies read so far are in reader(), also when the connection closed.
  Input receive();
  ReplyReader& reader() { return *reader_; }
  // The server holds the script, so EVALSHA will do.
  bool script_loaded() const { return script_loaded_; }

  int fd() const { return fd_; }
  // In a child after fork: closes the copies of descriptors without a byte to anyone.
  void abandon();

 private:
  void fail(Reason reason);
  void next_address(Micros now);
  void connected();
  void take_handshake_replies();
  void watch(std::uint32_t events);
  void close_socket();

  const Config& config_;
  const int epoll_fd_;
  State state_ = State::kClosed;
  Reason failure_ = Reason::kConnect;
  Resolver resolver_;
  std::vector<Address> addresses_;
  std::size_t address_at_ = 0;
  Micros limit_ = 0;          // of the whole opening
  Micros address_limit_ = 0;  // of the address being tried
  int fd_ = -1;
  FileId file_;  // what fd_ was opened as
  std::uint32_t watched_ = 0;
  std::string output_;
  std::size_t output_at_ = 0;
  std::uint64_t sent_ = 0;
  std::optional<ReplyReader> reader_;
  std::vector<char> handshake_;  // what each awaited reply answers: 'a'uth, 's'elect, 'l'oad
  std::size_t handshake_at_ = 0;
  bool script_loaded_ = false;
};

}  // namespace saqiya::redis

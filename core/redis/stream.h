// Commands out and replies in: one non-blocking connection to one place, by name, address, socket
// and TLS. Never waits and never retries; knows of no login and of no meaning of replies.
//
// kClosed --open--> kResolving -> kConnecting -> kSecuring -> kOpen, back to kClosed from each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/decision.h"
#include "core/redis/config.h"
#include "core/redis/file_id.h"
#include "core/redis/resolver.h"
#include "core/redis/resp.h"
#include "core/redis/tls.h"
#include "core/time.h"

namespace saqiya::redis {

class Stream {
 public:
  enum class State { kClosed, kResolving, kConnecting, kSecuring, kOpen };
  enum class Input { kMore, kDone, kClosed };

  // config outlives the stream; its descriptors are registered with epoll_fd.
  Stream(const Config& config, int epoll_fd);
  ~Stream() { close(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  State state() const { return state_; }
  bool is_open() const { return state_ == State::kOpen; }

  // Begins to connect; kOpen must be reached by `limit`.
  void open(const Place& place, Micros now, Micros limit);
  // Goes on with opening as far as it can.
  void advance(Micros now);
  // What was reached by the present address is of no use: on to the next, if there is one.
  void next_address(Micros now, std::string problem);
  // The present address has until then, for all that its owner wants of it before it is content.
  Micros address_limit() const { return address_limit_; }
  // Of the last opening that failed: in one word, and in words that hold nothing secret.
  Reason failure() const { return failure_; }
  const std::string& problem() const { return problem_; }
  // When advance() must be called at the latest; kForever: no need. When open: never.
  Micros next_event(Micros now) const;
  void close();
  // As close(), and ends a question for the name too, which close() lets run on.
  void stop();

  // -- When open. Whoever learns here that the connection broke calls close() or next_address().

  std::string* output() { return &output_; }
  // Positions in the stream of all bytes since opening.
  std::uint64_t appended() const { return sent_ + backlog(); }
  std::uint64_t sent() const { return sent_; }
  std::size_t backlog() const { return output_.size() - output_at_; }
  // Sends what the socket takes. False when the connection broke.
  bool send();
  // Reads once. The replies read so far are in reader(), also when the connection closed.
  Input receive();
  ReplyReader& reader() { return *reader_; }
  // Why it broke: what TLS has to say of it, or else `otherwise`.
  std::string breakage(const char* otherwise) const;
  // Nobody is told any more when bytes arrive, until the next send().
  void rest() { watch(0); }

  bool is_resumed() const { return tls_.is_resumed(); }
  int fd() const { return fd_; }
  // In a child after fork: closes the copies of descriptors without a byte to anyone.
  void abandon();

 private:
  void connect(Micros now);
  bool connect_to(const Address& address);
  void connected();
  void secure();
  void opened();
  bool send_secured();
  Input receive_secured();
  void fail(Reason reason, std::string problem);
  void broken();
  void watch(std::uint32_t events);
  void close_socket();

  const Config& config_;
  const int epoll_fd_;
  State state_ = State::kClosed;
  Reason failure_ = Reason::kConnect;
  std::string problem_;
  Place place_;
  Place asked_;  // the place whose name the resolver was asked for
  Resolver resolver_;
  std::vector<Address> addresses_;
  std::size_t address_at_ = 0;
  Micros limit_ = 0;          // of the whole opening
  Micros address_limit_ = 0;  // of the address being tried
  int fd_ = -1;
  FileId file_;  // what fd_ was opened as
  std::uint32_t watched_ = 0;
  TlsLink tls_;
  std::string output_;
  std::size_t output_at_ = 0;
  std::uint64_t sent_ = 0;
  std::optional<ReplyReader> reader_;
};

}  // namespace saqiya::redis

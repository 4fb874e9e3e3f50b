// TLS by OpenSSL on a socket of ours. Never waits, never raises SIGPIPE, leaves nothing in the
// host's error queue, and says no farewell when it closes. While a thread is in here no process
// forks, for OpenSSL has locks (core/fork.h).
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "core/redis/endpoint.h"

struct ssl_session_st;
struct ssl_st;

namespace saqiya::redis {

class TlsContext;  // authorities and our own certificate, as read from files

// The context that the connections of a store share. It is made at the first one, and anew after
// one has failed: files may have been renewed. Thread-safe.
class TlsContexts {
 public:
  // Null when a file cannot be used; *problem then names its parameter.
  std::shared_ptr<TlsContext> get(const Tls& settings, std::string* problem);
  // A connection with this context failed: the next one makes a new one.
  void renew(const TlsContext* failed);

 private:
  std::mutex mutex_;  // only under a ForkHold, so that no child finds it locked
  std::shared_ptr<TlsContext> context_;
};

// One TLS connection; its address must not change.
class TlsLink {
 public:
  enum class Result { kDone, kWantRead, kWantWrite, kClosed };

  TlsLink() = default;
  ~TlsLink();
  TlsLink(const TlsLink&) = delete;
  TlsLink& operator=(const TlsLink&) = delete;

  // On a connected socket; name: what the certificate must be for. False when out of memory.
  bool start(int fd, std::shared_ptr<TlsContext> context, const std::string& name);
  bool is_on() const { return ssl_ != nullptr; }
  // It goes on with the session of the one before.
  bool is_resumed() const;
  Result handshake();
  Result read(char* data, std::size_t room, std::size_t* got);
  // May take less than all; what it did not take must be offered again, unchanged.
  Result write(const char* data, std::size_t size, std::size_t* taken);
  // Bytes that were read from the socket wait here: no poll will tell.
  bool has_unread() const;
  // Whether it broke by what TLS itself says, and not by the connection; and what that is.
  bool has_failed() const { return !problem_.empty(); }
  const std::string& problem() const { return problem_; }
  const TlsContext* context() const { return context_.get(); }

  // Forgets the connection, without a byte to anyone. The session stays for the next one.
  void close();
  // As close(), in a child after fork: touches nothing that OpenSSL has.
  void abandon();

 private:
  friend class TlsContexts;
  struct Callbacks;
  Result ended(int result);
  void forget_session();

  ssl_st* ssl_ = nullptr;
  std::shared_ptr<TlsContext> context_;  // of the newest link
  std::string problem_;
  // The newest session, to be resumed by the next connection to the same name with this context.
  ssl_session_st* session_ = nullptr;
  std::string session_name_;
};

}  // namespace saqiya::redis

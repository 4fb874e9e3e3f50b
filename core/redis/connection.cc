#include "core/redis/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "core/redis/error.h"
#include "core/redis/lua/script.lua.h"

namespace saqiya::redis {
namespace {

constexpr std::size_t kReadSize = 16384;

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

// A peer that vanished without a word is noticed within about a minute, also when idle.
void tune_tcp(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool unix_address(const std::string& path, Address* address) {
  sockaddr_un un{};
  if (path.size() >= sizeof un.sun_path) return false;
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path, path.data(), path.size());
  std::memcpy(&address->storage, &un, sizeof un);
  address->size = sizeof un;
  return true;
}

}  // namespace

Connection::Connection(const Config& config, int epoll_fd)
    : config_(config), epoll_fd_(epoll_fd), resolver_(epoll_fd) {}

Connection::~Connection() { close(); }

void Connection::open(Micros now, Micros limit) {
  const Endpoint& endpoint = config_.endpoint;
  limit_ = limit;
  addresses_.clear();
  address_at_ = 0;
  Address address;
  if (endpoint.local ? unix_address(endpoint.path, &address)
                     : parse_address(endpoint.host, endpoint.port, &address)) {
    addresses_.push_back(address);
    next_address(now);
    return;
  }
  // A question that outlived the opening that asked it is worth waiting for again.
  if (!resolver_.running()) resolver_.start(endpoint.host, endpoint.port, config_.nameservers);
  state_ = State::kResolving;
}

void Connection::advance(Micros now) {
  resolver_.process();
  if (state_ == State::kResolving && !resolver_.running()) {
    addresses_ = resolver_.addresses();
    if (addresses_.empty()) {
      fail(Reason::kResolve);
    } else {
      next_address(now);
    }
  }
  while (state_ == State::kConnecting) {
    pollfd p{fd_, POLLOUT, 0};
    if (poll(&p, 1, 0) <= 0) break;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) {
      connected();
    } else {
      next_address(now);
    }
  }
  while (state_ == State::kHandshake) {
    if (!send()) {
      next_address(now);
      continue;
    }
    const Input input = receive();
    take_handshake_replies();
    if (state_ != State::kHandshake) break;
    if (input == Input::kClosed) {
      next_address(now);
    } else if (input == Input::kDone) {
      break;
    }
  }
  if (state_ == State::kClosed || state_ == State::kReady) return;
  if (now >= limit_) {
    fail(state_ == State::kResolving ? Reason::kResolve : Reason::kConnect);
  } else if (state_ != State::kResolving && now >= address_limit_) {
    next_address(now);
  }
}

Micros Connection::next_event(Micros now) const {
  if (state_ == State::kReady) return kForever;
  if (state_ == State::kConnecting || state_ == State::kHandshake) return address_limit_;
  const Micros wait = resolver_.timeout();
  return std::min(state_ == State::kResolving ? limit_ : kForever,
                  wait < 0 ? kForever : now + wait);
}

// Tries the next address that gives a socket; none left: fails.
void Connection::next_address(Micros now) {
  while (true) {
    close_socket();
    if (address_at_ >= addresses_.size() || now >= limit_) return fail(Reason::kConnect);
    // Each address left gets its share of the time left.
    const auto left = static_cast<Micros>(addresses_.size() - address_at_);
    address_limit_ = now + (limit_ - now) / left;
    const Address& address = addresses_[address_at_++];
    const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    fd_ = fd;
    file_ = FileId(fd);
    if (address.family() != AF_UNIX) tune_tcp(fd_);
    int done = 0;
    do {
      done = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address.storage), address.size);
    } while (done != 0 && errno == EINTR);
    if (done != 0 && errno != EINPROGRESS) continue;
    state_ = State::kConnecting;
    watch(EPOLLOUT);
    if (watched_ == 0) continue;
    if (done == 0) connected();
    return;
  }
}

void Connection::connected() {
  output_.clear();
  output_at_ = 0;
  sent_ = 0;
  reader_.emplace();
  handshake_.clear();
  handshake_at_ = 0;
  script_loaded_ = false;
  const Endpoint& endpoint = config_.endpoint;
  if (endpoint.has_password) {
    if (endpoint.user.empty()) {
      append_command(std::array<std::string_view, 2>{"AUTH", endpoint.password}, &output_);
    } else {
      append_command(std::array<std::string_view, 3>{"AUTH", endpoint.user, endpoint.password},
                     &output_);
    }
    handshake_.push_back('a');
  }
  if (endpoint.database != 0) {
    const std::string number = std::to_string(endpoint.database);
    append_command(std::array<std::string_view, 2>{"SELECT", number}, &output_);
    handshake_.push_back('s');
  }
  append_command(std::array<std::string_view, 3>{"SCRIPT", "LOAD", lua::kScript}, &output_);
  handshake_.push_back('l');
  state_ = State::kHandshake;  // last: when something above throws, this is tried again
}

// A login or database that was refused ends the opening; a script that was refused (access rules
// allow EVAL only) does not.
void Connection::take_handshake_replies() {
  while (state_ == State::kHandshake) {
    const ReplyReader::Result result = reader_->next();
    if (result == ReplyReader::Result::kMore) return;
    if (result == ReplyReader::Result::kError) return fail(Reason::kProtocol);
    const Reply& reply = reader_->reply();
    const char step = handshake_[handshake_at_++];
    if (reply.root().kind == ReplyItem::kError) {
      const ErrorClass error = classify_error(reply.text(reply.root()));
      const bool about_us = error.reason == Reason::kProtocol ||
                            error.reason == Reason::kPermission || error.reason == Reason::kAuth;
      if (step != 'l') return fail(about_us ? Reason::kAuth : error.reason);
      if (error.leave || !about_us) return fail(error.reason);
    } else if (step == 'l') {
      script_loaded_ =
          reply.root().kind == ReplyItem::kText && reply.text(reply.root()) == lua::kScriptSha1;
    }
    if (handshake_at_ == handshake_.size()) {
      state_ = State::kReady;
      Counters::add(config_.counters.connects, 1);
      watch(EPOLLIN);
    }
  }
}

bool Connection::send() {
  while (output_at_ < output_.size()) {
    const ssize_t done = ::send(fd_, output_.data() + output_at_, output_.size() - output_at_,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
      watch(EPOLLIN | EPOLLOUT);
      return true;
    }
    output_at_ += static_cast<std::size_t>(done);
    sent_ += static_cast<std::uint64_t>(done);
  }
  output_.clear();
  output_at_ = 0;
  watch(EPOLLIN);
  return true;
}

Connection::Input Connection::receive() {
  char buffer[kReadSize];
  while (true) {
    const ssize_t got = ::recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK ? Input::kDone : Input::kClosed;
    }
    if (got == 0) return Input::kClosed;
    const auto size = static_cast<std::size_t>(got);
    // What is refused here shows as an error of the reader.
    static_cast<void>(reader_->feed(buffer, size));
    return size == sizeof buffer ? Input::kMore : Input::kDone;
  }
}

void Connection::watch(std::uint32_t events) {
  if (events == watched_) return;
  epoll_event event{};
  event.events = events;
  event.data.fd = fd_;
  const int how = watched_ == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (epoll_ctl(epoll_fd_, how, fd_, &event) == 0) watched_ = events;
}

void Connection::fail(Reason reason) {
  close();
  failure_ = reason;
}

void Connection::close() {
  close_socket();
  state_ = State::kClosed;
}

void Connection::stop() {
  close();
  resolver_.stop();
}

void Connection::close_socket() {
  if (fd_ < 0) return;
  // Forgotten first: a fork in between must not make the child close someone else's descriptor.
  const int fd = fd_;
  fd_ = -1;
  watched_ = 0;
  // Said explicitly: while some child holds a copy, closing ours would leave it watched for ever.
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  ::close(fd);
}

void Connection::abandon() {
  resolver_.abandon();
  // The epoll instance is the parent's, too: nothing may be taken out of it.
  if (fd_ >= 0 && file_.is_still(fd_)) ::close(fd_);
  fd_ = -1;
  watched_ = 0;
  state_ = State::kClosed;
}

}  // namespace saqiya::redis

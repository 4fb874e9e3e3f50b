#include "core/redis/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace saqiya::redis {
namespace {

constexpr std::size_t kReadSize = 16384;

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

// A peer that vanished without a word is noticed within about a minute, also when idle; bytes that
// nobody acknowledges are given up after half a minute.
void tune_tcp(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);  // milliseconds
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

std::string cannot_connect(int error) {
  return "cannot connect: " + std::generic_category().message(error);
}

const char* too_late(Stream::State state) {
  switch (state) {
    case Stream::State::kResolving:
      return "the name was not resolved in time";
    case Stream::State::kConnecting:
      return "cannot connect: no answer in time";
    default:
      return "no answer in time in the TLS handshake";
  }
}

}  // namespace

Stream::Stream(const Config& config, int epoll_fd)
    : config_(config), epoll_fd_(epoll_fd), resolver_(epoll_fd) {}

void Stream::open(const Place& place, Micros now, Micros limit) {
  close();
  place_ = place;
  limit_ = limit;
  addresses_.clear();
  address_at_ = 0;
  problem_.clear();
  Address address;
  if (place.local ? unix_address(place.path, &address)
                  : parse_address(place.host, place.port, &address)) {
    resolver_.stop();  // nobody would process its answer
    addresses_.push_back(address);
    connect(now);
    return;
  }
  // A question that outlived the opening that asked it is worth waiting for again.
  if (!resolver_.running() || asked_ != place) {
    asked_ = place;
    resolver_.start(place.host, place.port, config_.nameservers);
  }
  state_ = State::kResolving;
}

void Stream::advance(Micros now) {
  resolver_.process();
  if (state_ == State::kResolving && !resolver_.running()) {
    addresses_ = resolver_.addresses();
    if (addresses_.empty()) {
      fail(Reason::kResolve, "the name cannot be resolved");
    } else {
      connect(now);
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
      next_address(now, cannot_connect(error));
    }
  }
  if (state_ == State::kSecuring) secure();
  if (state_ == State::kSecuring && fd_ < 0) next_address(now, std::move(problem_));
  if (state_ == State::kClosed || state_ == State::kOpen) return;
  if (now >= limit_) {
    fail(state_ == State::kResolving ? Reason::kResolve : Reason::kConnect, too_late(state_));
  } else if (state_ != State::kResolving && now >= address_limit_) {
    next_address(now, too_late(state_));
  }
}

Micros Stream::next_event(Micros now) const {
  if (state_ == State::kOpen) return kForever;
  if (state_ == State::kConnecting || state_ == State::kSecuring) return address_limit_;
  const Micros wait = resolver_.timeout();
  return std::min(state_ == State::kResolving ? limit_ : kForever,
                  wait < 0 ? kForever : now + wait);
}

void Stream::next_address(Micros now, std::string problem) {
  // A server may hang up without a word because of our certificate.
  if (tls_.is_on() && now < address_limit_) config_.tls.renew(tls_.context());
  problem_ = std::move(problem);
  connect(now);
}

// Tries the next address that gives a socket; none left: fails.
void Stream::connect(Micros now) {
  while (true) {
    close_socket();
    if (address_at_ >= addresses_.size() || now >= limit_) {
      if (problem_.empty()) problem_ = too_late(State::kConnecting);
      return fail(Reason::kConnect, std::move(problem_));
    }
    // Each address left gets its share of the time left.
    const auto left = static_cast<Micros>(addresses_.size() - address_at_);
    address_limit_ = now + (limit_ - now) / left;
    if (connect_to(addresses_[address_at_++])) return;
  }
}

bool Stream::connect_to(const Address& address) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int done = fd < 0 ? -1 : 0;
  if (fd >= 0) {
    fd_ = fd;
    file_ = FileId(fd);
    if (address.family() != AF_UNIX) tune_tcp(fd_);
    do {
      done = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address.storage), address.size);
    } while (done != 0 && errno == EINTR);
  }
  if (done != 0 && errno != EINPROGRESS) {
    problem_ = cannot_connect(errno);
    return false;
  }
  state_ = State::kConnecting;
  watch(EPOLLOUT);
  if (watched_ == 0) {
    problem_ = "the operating system has no room to watch a socket";
    return false;
  }
  if (done == 0) connected();
  return true;
}

void Stream::connected() {
  if (!config_.endpoint.tls.on || place_.local) return opened();
  state_ = State::kSecuring;
  const Tls& settings = config_.endpoint.tls;
  std::shared_ptr<TlsContext> context = config_.tls.get(settings, &problem_);
  if (context == nullptr) {
    problem_.insert(0, "TLS: ");
    address_at_ = addresses_.size();  // no other address would do better
    return close_socket();
  }
  const std::string& name = settings.server_name.empty() ? place_.host : settings.server_name;
  if (!tls_.start(fd_, std::move(context), name)) {
    problem_ = "TLS: out of memory";
    close_socket();
  }
}

// Afterwards kOpen, or still kSecuring; without a socket when it failed.
void Stream::secure() {
  if (fd_ < 0) return;
  switch (tls_.handshake()) {
    case TlsLink::Result::kDone:
      return opened();
    case TlsLink::Result::kWantRead:
      return watch(EPOLLIN);
    case TlsLink::Result::kWantWrite:
      return watch(EPOLLIN | EPOLLOUT);
    case TlsLink::Result::kClosed:
      problem_ = breakage("the server hung up in the TLS handshake");
      // Perhaps because of our certificate.
      config_.tls.renew(tls_.context());
      return close_socket();
  }
}

void Stream::opened() {
  output_.clear();
  output_at_ = 0;
  sent_ = 0;
  reader_.emplace();
  watch(EPOLLIN);
  state_ = State::kOpen;  // last: when something above throws, this is tried again
}

// When TLS itself failed, perhaps because of a certificate that has been replaced since: the next
// connection reads the files again.
void Stream::broken() {
  if (tls_.has_failed()) config_.tls.renew(tls_.context());
}

std::string Stream::breakage(const char* otherwise) const {
  return tls_.has_failed() ? "TLS: " + tls_.problem() : otherwise;
}

bool Stream::send() {
  if (tls_.is_on()) return send_secured();
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

// A record that went out only in part does not count as sent: nobody can read it.
bool Stream::send_secured() {
  while (output_at_ < output_.size()) {
    std::size_t done = 0;
    const TlsLink::Result result =
        tls_.write(output_.data() + output_at_, output_.size() - output_at_, &done);
    if (result == TlsLink::Result::kClosed) {
      broken();
      return false;
    }
    if (result != TlsLink::Result::kDone) {
      watch(EPOLLIN | EPOLLOUT);
      return true;
    }
    output_at_ += done;
    sent_ += done;
  }
  output_.clear();
  output_at_ = 0;
  watch(EPOLLIN);
  return true;
}

Stream::Input Stream::receive() {
  if (tls_.is_on()) return receive_secured();
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

Stream::Input Stream::receive_secured() {
  char buffer[kReadSize];
  std::size_t got = 0;
  switch (tls_.read(buffer, sizeof buffer, &got)) {
    case TlsLink::Result::kDone:
      static_cast<void>(reader_->feed(buffer, got));
      return tls_.has_unread() ? Input::kMore : Input::kDone;
    case TlsLink::Result::kClosed:
      broken();
      return Input::kClosed;
    case TlsLink::Result::kWantWrite:  // to answer a change of keys
      watch(EPOLLIN | EPOLLOUT);
      return Input::kDone;
    default:
      return Input::kDone;
  }
}

void Stream::watch(std::uint32_t events) {
  if (events == watched_) return;
  epoll_event event{};
  event.events = events;
  event.data.fd = fd_;
  const int how = watched_ == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
  if (epoll_ctl(epoll_fd_, how, fd_, &event) == 0) watched_ = events;
}

void Stream::fail(Reason reason, std::string problem) {
  close();
  failure_ = reason;
  problem_ = std::move(problem);
}

void Stream::close() {
  close_socket();
  state_ = State::kClosed;
}

void Stream::stop() {
  close();
  resolver_.stop();
}

void Stream::close_socket() {
  tls_.close();
  if (fd_ < 0) return;
  // Forgotten first: a fork in between must not make the child close someone else's descriptor.
  const int fd = fd_;
  fd_ = -1;
  watched_ = 0;
  // Said explicitly: while some child holds a copy, closing ours would leave it watched for ever.
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  ::close(fd);
}

void Stream::abandon() {
  resolver_.abandon();
  tls_.abandon();
  // The epoll instance is the parent's, too: nothing may be taken out of it.
  if (fd_ >= 0 && file_.is_still(fd_)) ::close(fd_);
  fd_ = -1;
  watched_ = 0;
  state_ = State::kClosed;
}

}  // namespace saqiya::redis

#include "core/redis/resolver.h"

#include <ares.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace saqiya::redis {
namespace {

Address make_address(const sockaddr* from, socklen_t size) {
  Address address;
  address.size = std::min<socklen_t>(size, sizeof address.storage);
  std::memcpy(&address.storage, from, address.size);
  return address;
}

}  // namespace

bool parse_address(const std::string& host, std::uint16_t port, Address* address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return false;
  *address = make_address(found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return true;
}

bool prepare_resolvers() {
  static const int ready = ares_library_init(ARES_LIB_INIT_ALL);
  return ready == ARES_SUCCESS;
}

struct Resolver::Callbacks {
  // c-ares opened, closed, or wants other events of a socket.
  static void socket_state(void* data, ares_socket_t fd, int readable, int writable) {
    auto& self = *static_cast<Resolver*>(data);
    try {
      self.watch(fd, readable != 0, writable != 0);
    } catch (const std::bad_alloc&) {
      // Unwatched, the question times out. No exception may cross c-ares.
    }
  }

  static void answer(void* data, int, int, ares_addrinfo* result) {
    auto& self = *static_cast<Resolver*>(data);
    self.running_ = false;
    if (result == nullptr) return;
    try {
      for (const ares_addrinfo_node* node = result->nodes; node != nullptr; node = node->ai_next) {
        self.addresses_.push_back(make_address(node->ai_addr, node->ai_addrlen));
      }
    } catch (const std::bad_alloc&) {
      // Fewer addresses to try.
    }
    ares_freeaddrinfo(result);
  }
};

void Resolver::watch(int fd, bool readable, bool writable) {
  const auto at =
      std::find_if(watched_.begin(), watched_.end(), [fd](const Watched& w) { return w.fd == fd; });
  epoll_event event{};
  event.events = (readable ? EPOLLIN : 0U) | (writable ? EPOLLOUT : 0U);
  event.data.fd = fd;
  if (!readable && !writable) {
    if (at == watched_.end()) return;
    watched_.erase(at);
    epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  } else if (at == watched_.end()) {
    watched_.push_back({fd, FileId(fd), readable, writable});
    epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
  } else {
    at->readable = readable;
    at->writable = writable;
    epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, fd, &event);
  }
}

Resolver::~Resolver() { stop(); }

void Resolver::stop() {
  if (channel_ != nullptr) ares_destroy(channel_);  // ends a running question by its callback
  channel_ = nullptr;
  running_ = false;
}

void Resolver::start(const std::string& host, std::uint16_t port, const std::string& nameservers) {
  // A new channel reads resolv.conf and hosts again, which may have changed since.
  stop();
  addresses_.clear();
  if (!prepare_resolvers()) throw std::bad_alloc();
  ares_options options{};
  options.sock_state_cb = Callbacks::socket_state;
  options.sock_state_cb_data = this;
  options.timeout = 1000;  // per try; requests have their own deadlines
  options.tries = 2;
  // No TCP, whose writes could raise SIGPIPE: a cut answer still has addresses. No HOSTALIASES
  // file.
  options.flags = ARES_FLAG_IGNTC | ARES_FLAG_NOALIASES;
  constexpr int kSet =
      ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_FLAGS;
  if (ares_init_options(&channel_, &options, kSet) != ARES_SUCCESS) {
    channel_ = nullptr;
    return;  // no addresses: cannot be resolved
  }
  if (!nameservers.empty() &&
      ares_set_servers_ports_csv(channel_, nameservers.c_str()) != ARES_SUCCESS) {
    return;
  }
  ares_addrinfo_hints hints{};
  hints.ai_flags = ARES_AI_NUMERICSERV | ARES_AI_NOSORT;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  running_ = true;
  ares_getaddrinfo(channel_, host.c_str(), std::to_string(port).c_str(), &hints, Callbacks::answer,
                   this);
}

void Resolver::process() {
  if (!running_) return;
  const std::vector<Watched> watched = watched_;  // callbacks change it
  for (const Watched& w : watched) {
    ares_process_fd(channel_, w.readable ? w.fd : ARES_SOCKET_BAD,
                    w.writable ? w.fd : ARES_SOCKET_BAD);
  }
  ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

Micros Resolver::timeout() const {
  if (!running_) return -1;
  timeval room{};
  const timeval* until = ares_timeout(channel_, nullptr, &room);
  if (until == nullptr) return -1;
  return Micros{until->tv_sec} * kMicrosPerSecond + until->tv_usec;
}

void Resolver::abandon() {
  for (const Watched& w : watched_) {
    if (w.file.is_still(w.fd)) ::close(w.fd);
  }
  watched_.clear();
  channel_ = nullptr;
  running_ = false;
}

}  // namespace saqiya::redis

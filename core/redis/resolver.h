// Host names to addresses by c-ares: asks and returns at once, the answer comes through sockets
// that are registered with the owner's epoll descriptor.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/redis/file_id.h"
#include "core/time.h"

struct ares_channeldata;

namespace saqiya::redis {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  int family() const { return storage.ss_family; }
};

// "127.0.0.1", "::1", "fe80::1%eth0": the address without asking anyone. False for names.
bool parse_address(const std::string& host, std::uint16_t port, Address* address);

// Once, before the first resolver: done while a store is opened, since a child of a fork must not
// wait for what another thread had begun. False when there is no memory for it.
bool prepare_resolvers();

class Resolver {
 public:
  explicit Resolver(int epoll_fd) : epoll_fd_(epoll_fd) {}
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Forgets what went before and begins anew. nameservers: empty for the system's.
  void start(const std::string& host, std::uint16_t port, const std::string& nameservers);
  // Ends a running question: it then has no answer.
  void stop();
  bool running() const { return running_; }
  // Lets c-ares read, write, and give up. Never waits.
  void process();
  // Until process() must be called without a descriptor being ready; -1: no need.
  Micros timeout() const;
  // When no longer running: what was found, nothing if the name has no address.
  const std::vector<Address>& addresses() const { return addresses_; }

  // In a child after fork: closes the copies of the sockets and leaks the rest, whose locks may
  // be held by a thread of the parent.
  void abandon();

 private:
  struct Watched {
    int fd;
    FileId file;
    bool readable;
    bool writable;
  };
  struct Callbacks;

  void watch(int fd, bool readable, bool writable);

  const int epoll_fd_;
  ares_channeldata* channel_ = nullptr;
  bool running_ = false;
  std::vector<Watched> watched_;
  std::vector<Address> addresses_;
};

}  // namespace saqiya::redis

// A port that takes no connection and does not refuse any, as behind a firewall.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/redis/launch.h"

namespace saqiya::testing {

// A listener whose backlog is full: the kernel drops whatever else comes.
class BlackHole {
 public:
  explicit BlackHole(const char* host = "127.0.0.1") : host_(host) {
    const int listener = socket();
    sockaddr_in address = at(free_port());
    if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener, 0) != 0) {
      throw std::runtime_error("no listener");
    }
    port_ = ntohs(address.sin_port);
    bool taken = true;
    for (int i = 0; taken && i < 100; ++i) {
      const int filler = socket();
      ::connect(filler, reinterpret_cast<sockaddr*>(&address), sizeof address);
      pollfd polled{filler, POLLOUT, 0};
      taken = ::poll(&polled, 1, 200) != 0;
    }
    if (taken) throw std::runtime_error("the backlog is never full");
  }
  ~BlackHole() {
    for (const int fd : sockets_) ::close(fd);
  }
  BlackHole(const BlackHole&) = delete;
  BlackHole& operator=(const BlackHole&) = delete;

  std::uint16_t port() const { return port_; }
  std::string place() const { return host_ + ":" + std::to_string(port_); }

 private:
  int socket() {
    sockets_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (sockets_.back() < 0) throw std::runtime_error("no socket");
    return sockets_.back();
  }
  sockaddr_in at(std::uint16_t port) const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    ::inet_pton(AF_INET, host_.c_str(), &address.sin_addr);
    return address;
  }

  const std::string host_;
  std::uint16_t port_ = 0;
  std::vector<int> sockets_;
};

}  // namespace saqiya::testing

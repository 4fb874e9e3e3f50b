// The listening half of what stands in for a server, and its way to be woken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace saqiya::testing {

class Listener {
 public:
  // On a free port of the loopback.
  Listener();
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  int fd() const { return fd_; }
  std::uint16_t port() const { return port_; }
  std::string url(std::string_view login = {}, std::string_view rest = {}) const;
  // Only when fd() is readable. A new connection that does not hold back small packets.
  int accept() const;

  // Makes wake_fd() readable until hear().
  void wake() const;
  int wake_fd() const { return wake_[0]; }
  void hear() const;

 private:
  int fd_ = -1;
  int wake_[2] = {-1, -1};
  std::uint16_t port_ = 0;
};

}  // namespace saqiya::testing

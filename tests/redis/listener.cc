#include "tests/redis/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace saqiya::testing {

Listener::Listener() {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd_ < 0 || ::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(fd_, 64) != 0 || ::pipe2(wake_, O_CLOEXEC) != 0 ||
      ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no listener");
  }
  port_ = ntohs(address.sin_port);
}

Listener::~Listener() {
  ::close(fd_);
  ::close(wake_[0]);
  ::close(wake_[1]);
}

std::string Listener::url(std::string_view login, std::string_view rest) const {
  return "redis://" + std::string(login) + "127.0.0.1:" + std::to_string(port_) + std::string(rest);
}

int Listener::accept() const {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void Listener::wake() const {
  if (::write(wake_[1], "x", 1) != 1) throw std::runtime_error("cannot wake");
}

void Listener::hear() const {
  char byte = 0;
  if (::read(wake_[0], &byte, 1) != 1) throw std::runtime_error("cannot be woken");
}

}  // namespace saqiya::testing

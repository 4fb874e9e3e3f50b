#include "tests/redis/proxy.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace saqiya::testing {
namespace {

int connect_unix(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

Proxy::Proxy(std::string server) : server_path_(std::move(server)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 64) != 0 || ::pipe(wake_) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no listener");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
  ::close(listener_);
  ::close(wake_[0]);
  ::close(wake_[1]);
}

std::string Proxy::url() const { return "redis://127.0.0.1:" + std::to_string(port_); }

void Proxy::wake() {
  if (::write(wake_[1], "x", 1) != 1) throw std::runtime_error("cannot wake the proxy");
}

void Proxy::cut_next_after(std::int64_t to_server, std::int64_t to_client) {
  const std::lock_guard<std::mutex> lock(mutex_);
  next_to_server_ = to_server;
  next_to_client_ = to_client;
}

void Proxy::drop_replies(bool on) {
  const std::lock_guard<std::mutex> lock(mutex_);
  drop_replies_ = on;
}

void Proxy::refuse(bool on) {
  const std::lock_guard<std::mutex> lock(mutex_);
  refuse_ = on;
}

void Proxy::cut_all() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cut_all_ = true;
  }
  wake();
}

std::int64_t Proxy::received() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return received_;
}

int Proxy::connections() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return connections_;
}

// False when the pair is to be cut.
bool Proxy::pass(Pair* pair, bool to_server) {
  char buffer[65536];
  const int from = to_server ? pair->client : pair->server;
  const int to = to_server ? pair->server : pair->client;
  const ssize_t got = ::recv(from, buffer, sizeof buffer, 0);
  if (got <= 0) return false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (to_server) received_ += got;
    if (!to_server && drop_replies_) return false;
  }
  std::int64_t& left = to_server ? pair->to_server_left : pair->to_client_left;
  const auto size = static_cast<std::size_t>(std::min<std::int64_t>(got, left));
  if (::send(to, buffer, size, MSG_NOSIGNAL) < 0) return false;
  if (left != kNoLimit) left -= static_cast<std::int64_t>(size);
  return left > 0;
}

void Proxy::run() {
  std::vector<Pair> pairs;
  while (true) {
    std::vector<pollfd> polled = {{wake_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Pair& pair : pairs) {
      polled.push_back({pair.client, POLLIN, 0});
      polled.push_back({pair.server, POLLIN, 0});
    }
    ::poll(polled.data(), polled.size(), -1);
    bool cut_all = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) break;
      cut_all = std::exchange(cut_all_, false);
    }
    if (polled[0].revents != 0) {
      char byte = 0;
      if (::read(wake_[0], &byte, 1) != 1) break;
    }
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      bool alive = !cut_all;
      if (alive && polled[2 + 2 * i].revents != 0) alive = pass(&pairs[i], true);
      if (alive && polled[3 + 2 * i].revents != 0) alive = pass(&pairs[i], false);
      if (alive) continue;
      ::close(pairs[i].client);
      ::close(pairs[i].server);
      pairs[i].client = -1;
    }
    std::erase_if(pairs, [](const Pair& pair) { return pair.client < 0; });
    if (polled[1].revents == 0) continue;
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard<std::mutex> lock(mutex_);
    ++connections_;
    const int server = refuse_ ? -1 : connect_unix(server_path_);
    if (server < 0) {
      ::close(client);
      continue;
    }
    const int on = 1;
    ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pairs.push_back({client, server, std::exchange(next_to_server_, kNoLimit),
                     std::exchange(next_to_client_, kNoLimit)});
  }
  for (const Pair& pair : pairs) {
    ::close(pair.client);
    ::close(pair.server);
  }
}

}  // namespace saqiya::testing

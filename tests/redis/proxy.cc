#include "tests/redis/proxy.h"

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
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  listener_.wake();
  thread_.join();
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
  listener_.wake();
}

void Proxy::freeze(bool on) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    frozen_ = on;
  }
  listener_.wake();
}

std::int64_t Proxy::received() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return received_;
}

bool Proxy::is_frozen() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return frozen_;
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
    // While it is frozen, nothing but the wish to wake it.
    const short events = is_frozen() ? 0 : POLLIN;
    std::vector<pollfd> polled = {{listener_.wake_fd(), POLLIN, 0}};
    const auto listen_to = [&](int fd) { polled.push_back({events == 0 ? -1 : fd, events, 0}); };
    listen_to(listener_.fd());
    for (const Pair& pair : pairs) {
      listen_to(pair.client);
      listen_to(pair.server);
    }
    ::poll(polled.data(), polled.size(), -1);
    bool cut_all = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) break;
      cut_all = std::exchange(cut_all_, false);
    }
    if (polled[0].revents != 0) listener_.hear();
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
    const int client = listener_.accept();
    const std::lock_guard<std::mutex> lock(mutex_);
    ++connections_;
    const int server = refuse_ ? -1 : connect_unix(server_path_);
    if (server < 0) {
      ::close(client);
      continue;
    }
    pairs.push_back({client, server, std::exchange(next_to_server_, kNoLimit),
                     std::exchange(next_to_client_, kNoLimit)});
  }
  for (const Pair& pair : pairs) {
    ::close(pair.client);
    ::close(pair.server);
  }
}

}  // namespace saqiya::testing

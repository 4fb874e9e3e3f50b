// A name server of the tests' own.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "core/redis/store.h"

namespace saqiya::testing {

// Answers questions for A records with 127.0.0.1, or other addresses of the loopback, and says of
// everything else that there is none; or stays silent.
class NameServer {
 public:
  explicit NameServer(bool silent) : silent_(silent) {
    socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (socket_ < 0 || ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        ::pipe(stop_) != 0) {
      throw std::runtime_error("no name server");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~NameServer() {
    if (::write(stop_[1], "x", 1) == 1) thread_.join();
    for (const int fd : {socket_, stop_[0], stop_[1]}) ::close(fd);
  }
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int questions() const { return questions_; }
  void speak() { silent_ = false; }
  // To 127.0.0.x.
  void point_to(int last_byte) { point_to({last_byte}); }
  // To several of them, in this order; at most four.
  void point_to(std::initializer_list<int> last_bytes) {
    std::uint32_t all = 0;
    for (auto it = std::rbegin(last_bytes); it != std::rend(last_bytes); ++it) {
      all = all << 8 | static_cast<std::uint32_t>(*it);
    }
    last_bytes_ = all;
  }

 private:
  void run() {
    while (true) {
      pollfd polled[2] = {{stop_[0], POLLIN, 0}, {socket_, POLLIN, 0}};
      ::poll(polled, 2, -1);
      if (polled[0].revents != 0) return;
      char packet[512];
      sockaddr_storage from{};
      socklen_t from_size = sizeof from;
      const ssize_t got = ::recvfrom(socket_, packet, sizeof packet, 0,
                                     reinterpret_cast<sockaddr*>(&from), &from_size);
      if (got < 12) continue;
      ++questions_;
      if (silent_) continue;
      // Header, then the name as labels up to a zero, then type and class.
      std::size_t end = 12;
      while (packet[end] != 0) end += static_cast<std::size_t>(packet[end]) + 1;
      const bool is_a = packet[end + 2] == 1;
      end += 5;
      std::string answer(packet, end);
      answer[2] = static_cast<char>(0x81);
      answer[3] = static_cast<char>(0x80);
      answer[7] = answer[9] = answer[11] = 0;
      for (std::uint32_t rest = is_a ? last_bytes_.load() : 0; rest != 0; rest >>= 8) {
        ++answer[7];
        answer += std::string("\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0", 15) +
                  static_cast<char>(rest & 0xff);
      }
      ::sendto(socket_, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from),
               from_size);
    }
  }

  std::atomic<bool> silent_;
  std::atomic<int> questions_{0};
  std::atomic<std::uint32_t> last_bytes_{1};  // the first one lowest
  int socket_ = -1;
  int stop_[2] = {-1, -1};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

// A store of redis.example, for whose address it asks this name server.
inline std::shared_ptr<Store> named_store(const NameServer& names, std::uint16_t port,
                                          Micros deadline) {
  auto config = std::make_shared<redis::Config>();
  config->endpoint.places.emplace_back();
  config->endpoint.places[0].host = "redis.example";
  config->endpoint.places[0].port = port;
  config->deadline = deadline;
  config->prefix = "sq:";
  config->nameservers = names.address();
  return std::make_shared<redis::RedisStore>(std::move(config));
}

}  // namespace saqiya::testing

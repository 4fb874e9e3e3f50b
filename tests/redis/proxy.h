// A proxy before a real server that cuts connections, and drops or holds back replies.
#pragma once

#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/redis/listener.h"

namespace saqiya::testing {

class Proxy {
 public:
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  // server: the path of its Unix socket.
  explicit Proxy(std::string server);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  std::string url() const { return listener_.url(); }

  // From now on the next connection is cut after so many bytes to the server, or to the client;
  // connections after it are not, until this is called again.
  void cut_next_after(std::int64_t to_server, std::int64_t to_client);
  // Cuts each connection as soon as this many bytes more have come from the server; they are not
  // passed on.
  void drop_replies(bool on);
  // While on, connections are taken and closed at once.
  void refuse(bool on);
  void cut_all();
  // While on, nothing passes and nothing is closed, as over a link that lost its middle;
  // connections are taken by the kernel only. What was sent meanwhile passes when it is off again:
  // too late.
  void freeze(bool on);
  // How many bytes clients have sent.
  std::int64_t received() const;
  int connections() const;

 private:
  struct Pair {
    int client;
    int server;
    std::int64_t to_server_left;
    std::int64_t to_client_left;
  };

  void run();
  bool pass(Pair* pair, bool to_server);
  bool is_frozen() const;

  const std::string server_path_;
  Listener listener_;
  mutable std::mutex mutex_;
  bool stop_ = false;
  bool drop_replies_ = false;
  bool refuse_ = false;
  bool cut_all_ = false;
  bool frozen_ = false;
  std::int64_t next_to_server_ = kNoLimit;
  std::int64_t next_to_client_ = kNoLimit;
  std::int64_t received_ = 0;
  int connections_ = 0;
  std::thread thread_;
};

}  // namespace saqiya::testing

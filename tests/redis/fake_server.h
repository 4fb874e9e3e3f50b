// A server that says what a test tells it to: for replies that no real server gives on demand.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace saqiya::testing {

using Command = std::vector<std::string>;

// What a fake server does on a command.
struct Act {
  std::vector<std::string> pieces;  // written one after another, each in a packet of its own
  bool close = false;               // then hang up
};

inline Act say(std::string bytes) { return {{std::move(bytes)}, false}; }
inline Act hang_up() { return {{}, true}; }
inline Act stay_silent() { return {}; }

class FakeServer {
 public:
  // Called for every batch (EVALSHA, EVAL). The handshake is answered as a real server would,
  // unless a handler for it is given.
  using Handler = std::function<Act(const Command& command)>;

  explicit FakeServer(Handler batch, Handler handshake = {});
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url(std::string_view login = {}, std::string_view rest = {}) const;
  int connections() const { return connections_; }
  std::vector<Command> commands() const;  // all so far

 private:
  struct Peer {
    int fd;
    std::string input;
  };

  void run();
  bool serve(Peer* peer);
  Act answer(const Command& command) const;

  const Handler batch_;
  const Handler handshake_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  std::uint16_t port_ = 0;
  std::atomic<int> connections_{0};
  mutable std::mutex mutex_;
  std::vector<Command> commands_;
  std::thread thread_;
};

// A well-formed reply to a batch: now, then the values.
std::string batch_reply(std::int64_t now, const std::vector<std::int64_t>& values);

}  // namespace saqiya::testing

// A server that says what a test tells it to: for replies that no real server gives on demand.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/redis/listener.h"

namespace saqiya::testing {

using Command = std::vector<std::string>;

// What a fake server does on a command.
struct Act {
  std::vector<std::string> pieces;  // written one after another, each in a packet of its own
  bool close = false;               // then hang up
  int delay_ms = 0;                 // before the first piece; other connections do not wait for it
};

inline Act say(std::string bytes) { return {{std::move(bytes)}}; }
inline Act hang_up() { return {.pieces = {}, .close = true}; }
inline Act stay_silent() { return {}; }
inline Act say_late(int delay_ms, std::string bytes) {
  return {.pieces = {std::move(bytes)}, .delay_ms = delay_ms};
}
// What each connection gets to its batches, in order; the last act again and again, and the last
// connection's acts for all later ones.
using Script = std::vector<std::vector<Act>>;

class FakeServer {
 public:
  // Called for every batch (EVALSHA, EVAL). The handshake is answered as a real server would,
  // unless a handler for it is given.
  using Handler = std::function<Act(const Command& command)>;

  explicit FakeServer(Handler batch, Handler handshake = {});
  explicit FakeServer(Script script);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url(std::string_view login = {}, std::string_view rest = {}) const {
    return listener_.url(login, rest);
  }
  std::uint16_t port() const { return listener_.port(); }
  int connections() const { return connections_; }
  // All so far, but for the probe that ends a handshake.
  std::vector<Command> commands() const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  struct Piece {
    Time due;
    std::string bytes;
    bool close = false;
  };
  struct Peer {
    int fd = -1;
    int number = 0;
    std::size_t batches = 0;
    std::string input = {};
    std::deque<Piece> output = {};
  };

  void run();
  bool receive(Peer* peer);
  static bool send_due(Peer* peer);
  Act answer(const Command& command, Peer* peer) const;

  const Handler batch_;
  const Handler handshake_;
  const Script script_;
  Listener listener_;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0};
  mutable std::mutex mutex_;
  std::vector<Command> commands_;
  std::thread thread_;
};

// A well-formed reply to a batch: now, then the values.
std::string batch_reply(std::int64_t now, const std::vector<std::int64_t>& values);

}  // namespace saqiya::testing

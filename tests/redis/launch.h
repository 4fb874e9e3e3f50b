// What launching servers needs: ports, folders, processes that die with the test, waiting.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace saqiya::testing {

// The server under test: $SAQIYA_TEST_REDIS_SERVER, or redis-server. Sentinels are the same
// program.
const std::string& server_program();

// A port that nobody listens on and no other test in C++ or Python was given; below those that the
// kernel gives to clients, so that a server which is killed can come back to its port.
std::uint16_t free_port();

// Removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Makes or replaces a file of this folder; its path.
  std::string write(const std::string& name, const std::string& contents) const;

 private:
  std::string path_;
};

// A child without input and output. It is killed with the thread that started it, so that a test
// that crashes leaves nothing behind.
class Process {
 public:
  Process() = default;
  ~Process() { kill(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void start(const std::vector<std::string>& words);
  // By SIGKILL: nothing is said to anyone.
  void kill();
  // Stands still, its connections open; and goes on.
  void stop();
  void go_on();
  bool is_running() const { return pid_ > 0; }
  // Whether it ended by itself.
  bool ended();
  // Until it ends; how it did, as of waitpid.
  int wait();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

// Runs a program to its end; throws unless it ends well.
void run(const std::vector<std::string>& words);

// What a plain client throws when its server is away.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Asks again and again until it is so; throws when it is not so after half a minute. Servers that
// are promoted and demoted close their connections: a lost one only means that it is not so yet.
template <typename Predicate>
void wait_until(const std::string& what, Predicate is_so) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto is_so_now = [&] {
    try {
      return is_so();
    } catch (const ConnectionLost&) {
      return false;
    }
  };
  while (!is_so_now()) {
    if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("not so: " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace saqiya::testing

// A private redis-server for tests, on a free port and a Unix socket, and a plain client to look
// behind saqiya's back.
#pragma once

#include <hiredis/hiredis.h>
#include <sys/types.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace saqiya::testing {

// What the plain client got: one of text, number, list. Errors are texts with `error` set.
struct Value {
  bool nil = false;
  bool error = false;
  std::int64_t number = 0;
  std::string text;
  std::vector<Value> list;
};

class Client {
 public:
  explicit Client(const std::string& socket_path);
  Value operator()(std::initializer_list<std::string_view> words) {
    return (*this)(std::vector<std::string>(words.begin(), words.end()));
  }
  Value operator()(const std::vector<std::string>& words);
  std::string text(std::initializer_list<std::string_view> words) { return (*this)(words).text; }
  std::int64_t number(std::initializer_list<std::string_view> words) {
    return (*this)(words).number;
  }
  // A field of INFO, as text.
  std::string info(std::string_view field);
  std::vector<std::string> keys();
  // The server's TIME in microseconds.
  std::int64_t time();

 private:
  std::unique_ptr<redisContext, void (*)(redisContext*)> context_;
};

class RedisServer {
 public:
  // arguments: further options of redis-server, as on its command line.
  explicit RedisServer(std::vector<std::string> arguments = {}, bool started = true);
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  void start();
  // By SIGKILL: nothing is said to anyone.
  void kill();
  bool is_running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

  std::uint16_t port() const { return port_; }
  const std::string& socket_path() const { return socket_path_; }
  std::string url(std::string_view login = {}, std::string_view rest = {}) const;
  std::string unix_url(std::string_view login = {}, std::string_view rest = {}) const;
  Client client() const { return Client(socket_path_); }

 private:
  std::string directory_;
  std::string socket_path_;
  std::uint16_t port_ = 0;
  std::vector<std::string> arguments_;
  pid_t pid_ = -1;
};

// A port that nobody listens on at this moment.
std::uint16_t free_port();

}  // namespace saqiya::testing

// A private server for tests, on a free port and a Unix socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/redis/client.h"
#include "tests/redis/launch.h"

namespace saqiya::testing {

struct ServerOptions {
  // Further options, as on the server's command line.
  std::vector<std::string> arguments = {};
  // Serves TLS too, on tls_port(), with the certificates of certificates.h. "yes", "no" or
  // "optional": whether clients must have a certificate.
  bool tls = false;
  std::string tls_auth_clients = "optional";
  // The rules of an ACL file, as "user app on >secret ~sq:* +evalsha".
  std::vector<std::string> acl = {};
  bool started = true;
};

class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> arguments = {}, bool started = true);
  explicit RedisServer(const ServerOptions& options);
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  void start();
  // By SIGKILL: nothing is said to anyone. It can be started again, on the same ports.
  void kill() { process_.kill(); }
  // Stands still with its connections open; and goes on.
  void stop() { process_.stop(); }
  void go_on() { process_.go_on(); }
  bool is_running() const { return process_.is_running(); }
  pid_t pid() const { return process_.pid(); }

  std::uint16_t port() const { return port_; }
  std::uint16_t tls_port() const { return tls_port_; }
  const std::string& socket_path() const { return socket_path_; }
  const TemporaryDirectory& directory() const { return directory_; }
  std::string url(std::string_view login = {}, std::string_view rest = {}) const;
  // Without a word about certificates: add "?ca=" and the like.
  std::string tls_url(std::string_view login = {}, std::string_view rest = {}) const;
  std::string unix_url(std::string_view login = {}, std::string_view rest = {}) const;
  Client client() const { return Client(socket_path_); }

  // Makes it a replica of another, and waits until it has all of it.
  void follow(const RedisServer& master);

 private:
  const TemporaryDirectory directory_;
  const std::string socket_path_ = directory_.path() + "/redis.sock";
  const std::uint16_t port_ = free_port();
  const std::uint16_t tls_port_ = free_port();
  const ServerOptions options_;
  Process process_;
};

}  // namespace saqiya::testing

#include "tests/redis/server.h"

#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <utility>

#include "tests/redis/certificates.h"

namespace saqiya::testing {
namespace {

// Whether a server answers commands on its socket, be it with a refusal.
bool answers(const std::string& socket_path) {
  if (::access(socket_path.c_str(), F_OK) != 0) return false;
  try {
    Client plain(socket_path);
    const Value pong = plain({"PING"});
    return !pong.error || pong.text.rfind("NO", 0) == 0;  // NOAUTH, NOPERM
  } catch (const ConnectionLost&) {
    return false;
  }
}

}  // namespace

RedisServer::RedisServer(std::vector<std::string> arguments, bool started)
    : RedisServer(ServerOptions{.arguments = std::move(arguments), .started = started}) {}

RedisServer::RedisServer(const ServerOptions& options) : options_(options) {
  if (options_.started) start();
}

void RedisServer::start() {
  std::vector<std::string> words = {server_program(), "--port", std::to_string(port_), "--bind",
                                    "127.0.0.1", "--unixsocket", socket_path_, "--dir",
                                    directory_.path(), "--save", "", "--loglevel", "warning",
                                    "--daemonize", "no", "--enable-debug-command", "yes",
                                    // A replica is there at once, and notices at once.
                                    "--repl-diskless-sync-delay", "0"};
  const auto add = [&](std::initializer_list<std::string> more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (options_.tls) {
    const Certificates& files = certificates();
    add({"--tls-port", std::to_string(tls_port_), "--tls-cert-file", files.server.certificate});
    add({"--tls-key-file", files.server.key, "--tls-ca-cert-file", files.ca});
    add({"--tls-auth-clients", options_.tls_auth_clients});
  }
  if (!options_.acl.empty()) {
    std::string rules;
    for (const std::string& line : options_.acl) rules.append(line).append("\n");
    add({"--aclfile", directory_.write("users.acl", rules)});
  }
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  std::filesystem::remove(socket_path_);
  process_.start(words);
  wait_until("the server answers", [&] {
    if (process_.ended()) throw std::runtime_error(server_program() + " does not start");
    return answers(socket_path_);
  });
}

std::string RedisServer::url(std::string_view login, std::string_view rest) const {
  return "redis://" + std::string(login) + "127.0.0.1:" + std::to_string(port_) + std::string(rest);
}

std::string RedisServer::tls_url(std::string_view login, std::string_view rest) const {
  return "rediss://" + std::string(login) + "127.0.0.1:" + std::to_string(tls_port_) +
         std::string(rest);
}

std::string RedisServer::unix_url(std::string_view login, std::string_view rest) const {
  return "unix://" + std::string(login) + socket_path_ + std::string(rest);
}

void RedisServer::follow(const RedisServer& master) {
  Client plain = client();
  plain({"REPLICAOF", "127.0.0.1", std::to_string(master.port())});
  wait_until("the replica follows", [&] { return plain.info("master_link_status") == "up"; });
}

}  // namespace saqiya::testing

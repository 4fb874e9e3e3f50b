// A master, its replicas and the sentinels that watch them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/redis/server.h"

namespace saqiya::testing {

struct SentinelOptions {
  std::size_t replicas = 1;
  std::size_t sentinels = 3;
  // After which silence of the master the first sentinel takes it for dead; milliseconds. It is
  // three times as long with the others, and a failover that they must do takes some seconds.
  int down_after = 500;
  // Of the servers, by --requirepass and --masterauth; and of the sentinels.
  std::string password = {};
  std::string sentinel_password = {};
  bool tls = false;                         // of all, also among themselves
  std::vector<std::string> arguments = {};  // further ones of the servers
};

class Sentinels {
 public:
  static constexpr const char* kMaster = "front";  // the name of the master

  // Started; the sentinels know each other and the replicas. The master is server 0.
  explicit Sentinels(const SentinelOptions& options = {});

  // With TLS it lacks a word about certificates.
  std::string url(std::string_view login = {}, std::string_view rest = {}) const;
  RedisServer& server(std::size_t i) { return *servers_[i]; }
  std::size_t servers() const { return servers_.size(); }
  std::uint16_t sentinel_port(std::size_t i) const { return sentinels_[i]->port; }
  std::size_t sentinels() const { return sentinels_.size(); }
  void kill_sentinel(std::size_t i) { sentinels_[i]->process.kill(); }
  void stop_sentinel(std::size_t i) { sentinels_[i]->process.stop(); }
  // Again, on the same port.
  void start_sentinel(std::size_t i);
  Client sentinel_client(std::size_t i) const;

  // The server that the first living sentinel takes for the master.
  std::size_t master() const;
  // Until a server other than `old` is the master in the eyes of all living sentinels, and says
  // so itself; which one.
  std::size_t wait_for_failover(std::size_t old) const;
  // A planned one, with the old master alive; the new master.
  std::size_t failover();

 private:
  struct Sentinel {
    TemporaryDirectory directory;
    std::uint16_t port = free_port();
    std::uint16_t tls_port = free_port();
    Process process;
  };

  // Where clients and sentinels find it.
  std::uint16_t port(const RedisServer& server) const;
  std::size_t index_of(const std::string& port_text) const;
  std::size_t master_of(std::size_t sentinel) const;

  const SentinelOptions options_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<Sentinel>> sentinels_;
};

}  // namespace saqiya::testing

// A Redis Cluster: masters that share the slots, and their replicas.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/redis/server.h"

namespace saqiya::testing {

struct ClusterOptions {
  std::size_t masters = 3;
  std::size_t replicas = 1;  // of each master
  // After which silence a node is taken for dead; milliseconds. A dead master is replaced in one
  // to two seconds more.
  int node_timeout = 1000;
  bool tls = false;
  std::vector<std::string> acl = {};
  std::vector<std::string> arguments = {};  // further ones of the nodes
};

class Cluster {
 public:
  static constexpr int kSlots = 16384;

  // Started, all slots served. Masters are nodes 0, 1, ...; then come the replicas of master 0, and
  // so on.
  explicit Cluster(const ClusterOptions& options = {});

  std::string url(std::string_view login = {}, std::string_view rest = {}) const;
  RedisServer& node(std::size_t i) { return *nodes_[i]; }
  std::size_t nodes() const { return nodes_.size(); }
  std::string id(std::size_t i) const;
  std::size_t index_of(std::string_view id) const;

  // As the first living node says.
  int slot_of(std::string_view key) const;
  std::size_t master_of(int slot) const;
  // By the master that decides it.
  std::vector<std::string> a_subject_of_each() const;
  std::vector<std::size_t> replicas_of(std::size_t master) const;

  // Moves a slot, step by step. While it is on its way, keys that are still with the old master are
  // served there, and others only by the new one after ASKING.
  void begin_migration(int slot, std::size_t to);
  // At most so many keys; how many were moved.
  std::size_t migrate_keys(int slot, std::size_t to, std::size_t most = 1000);
  void end_migration(int slot, std::size_t to);
  void migrate(int slot, std::size_t to);

  // Until every living node says that the cluster is in order, all agree who serves what, and all
  // who serve are alive.
  void wait_until_ok() const;
  // A replica takes over from its living master.
  void promote(std::size_t replica);

 private:
  const RedisServer& living() const;
  // Where clients and nodes find it.
  std::uint16_t port(std::size_t i) const;

  const ClusterOptions options_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<std::uint16_t> bus_ports_;
};

}  // namespace saqiya::testing

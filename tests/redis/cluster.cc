#include "tests/redis/cluster.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace saqiya::testing {

Cluster::Cluster(const ClusterOptions& options) : options_(options) {
  const std::size_t count = options_.masters * (1 + options_.replicas);
  for (std::size_t i = 0; i < count; ++i) {
    bus_ports_.push_back(free_port());
    ServerOptions server;
    server.arguments = {"--cluster-enabled",
                        "yes",
                        "--cluster-config-file",
                        "nodes.conf",
                        "--cluster-port",
                        std::to_string(bus_ports_[i]),
                        "--cluster-node-timeout",
                        std::to_string(options_.node_timeout),
                        "--cluster-require-full-coverage",
                        "no",
                        "--cluster-allow-replica-migration",
                        "no",
                        "--cluster-replica-validity-factor",
                        "0"};
    server.arguments.insert(server.arguments.end(), options_.arguments.begin(),
                            options_.arguments.end());
    if (options_.tls) {
      server.tls = true;
      server.arguments.insert(server.arguments.end(),
                              {"--tls-cluster", "yes", "--tls-replication", "yes"});
    }
    server.acl = options_.acl;
    server.started = false;
    nodes_.push_back(std::make_unique<RedisServer>(server));
  }
  // What a cluster has written down when it was stopped: faster than letting strangers meet.
  for (std::size_t i = 0; i < count; ++i) {
    std::string text;
    for (std::size_t k = 0; k < count; ++k) {
      text += id(k) + " 127.0.0.1:" + std::to_string(port(k)) + "@" +
              std::to_string(bus_ports_[k]) + (k == i ? " myself," : " ");
      if (k < options_.masters) {
        const std::size_t from = kSlots * k / options_.masters;
        const std::size_t to = kSlots * (k + 1) / options_.masters - 1;
        text += "master - 0 0 " + std::to_string(k + 1) + " connected " + std::to_string(from) +
                "-" + std::to_string(to) + "\n";
      } else {
        const std::size_t master = (k - options_.masters) / options_.replicas;
        text += "slave " + id(master) + " 0 0 " + std::to_string(master + 1) + " connected\n";
      }
    }
    text += "vars currentEpoch " + std::to_string(options_.masters) + " lastVoteEpoch 0\n";
    nodes_[i]->directory().write("nodes.conf", text);
    nodes_[i]->start();
  }
  wait_until_ok();
  for (std::size_t i = options_.masters; i < count; ++i) {
    Client plain = nodes_[i]->client();
    wait_until("the replica follows", [&] { return plain.info("master_link_status") == "up"; });
  }
}

std::vector<std::string> Cluster::a_subject_of_each() const {
  std::vector<std::string> subjects(options_.masters);
  for (int i = 0; i < 100; ++i) {
    const std::string subject = "u" + std::to_string(i);
    subjects[master_of(slot_of("{" + subject + "}"))] = subject;
  }
  return subjects;
}

std::string Cluster::id(std::size_t i) const {
  char text[41];
  std::snprintf(text, sizeof text, "%040zx", i + 1);
  return text;
}

std::size_t Cluster::index_of(std::string_view id) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (this->id(i) == id) return i;
  }
  throw std::runtime_error("a foreign node");
}

std::string Cluster::url(std::string_view login, std::string_view rest) const {
  std::string text = (options_.tls ? "rediss+cluster://" : "redis+cluster://") + std::string(login);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    text += "127.0.0.1:" + std::to_string(port(i)) + ",";
  }
  text.pop_back();
  return text + std::string(rest);
}

std::uint16_t Cluster::port(std::size_t i) const {
  return options_.tls ? nodes_[i]->tls_port() : nodes_[i]->port();
}

const RedisServer& Cluster::living() const {
  for (const auto& node : nodes_) {
    if (node->is_running()) return *node;
  }
  throw std::runtime_error("no node lives");
}

int Cluster::slot_of(std::string_view key) const {
  return static_cast<int>(living().client().number({"CLUSTER", "KEYSLOT", key}));
}

std::size_t Cluster::master_of(int slot) const {
  const Value ranges = living().client()({"CLUSTER", "SLOTS"});
  for (const Value& range : ranges.list) {
    if (slot < range.list[0].number || slot > range.list[1].number) continue;
    return index_of(range.list[2].list[2].text);
  }
  throw std::runtime_error("nobody serves the slot");
}

std::vector<std::size_t> Cluster::replicas_of(std::size_t master) const {
  const Value lines = living().client()({"CLUSTER", "REPLICAS", id(master)});
  std::vector<std::size_t> all;
  for (const Value& line : lines.list) all.push_back(index_of(line.text.substr(0, 40)));
  return all;
}

void Cluster::begin_migration(int slot, std::size_t to) {
  const std::size_t from = master_of(slot);
  const std::string number = std::to_string(slot);
  nodes_[to]->client()({"CLUSTER", "SETSLOT", number, "IMPORTING", id(from)});
  nodes_[from]->client()({"CLUSTER", "SETSLOT", number, "MIGRATING", id(to)});
}

std::size_t Cluster::migrate_keys(int slot, std::size_t to, std::size_t most) {
  Client from = nodes_[master_of(slot)]->client();
  const Value keys = from({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), std::to_string(most)});
  for (const Value& key : keys.list) {
    const Value moved =
        from({"MIGRATE", "127.0.0.1", std::to_string(port(to)), key.text, "0", "20000"});
    if (moved.error) throw std::runtime_error(moved.text);
  }
  return keys.list.size();
}

void Cluster::end_migration(int slot, std::size_t to) {
  const std::size_t from = master_of(slot);
  // The new owner first: should the old one tell others, it must be true.
  std::vector<std::size_t> order = {to, from};
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (i != to && i != from) order.push_back(i);
  }
  for (const std::size_t i : order) {
    if (!nodes_[i]->is_running()) continue;
    Client plain = nodes_[i]->client();
    if (plain({"ROLE"}).list.at(0).text != "master") continue;
    const Value done = plain({"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", id(to)});
    if (done.error) throw std::runtime_error(done.text);
  }
}

void Cluster::migrate(int slot, std::size_t to) {
  begin_migration(slot, to);
  while (migrate_keys(slot, to) > 0) {
  }
  end_migration(slot, to);
}

void Cluster::wait_until_ok() const {
  wait_until("the cluster is in order", [&] {
    std::set<std::string> owners;
    for (const auto& node : nodes_) {
      if (!node->is_running()) continue;
      Client plain = node->client();
      const std::string info = plain.text({"CLUSTER", "INFO"});
      if (info.find("cluster_state:ok") == std::string::npos ||
          info.find("cluster_slots_ok:16384") == std::string::npos) {
        return false;
      }
      Value slots = plain({"CLUSTER", "SLOTS"});
      std::sort(slots.list.begin(), slots.list.end(),
                [](const Value& a, const Value& b) { return a.list[0].number < b.list[0].number; });
      std::string all;
      for (const Value& range : slots.list) {
        if (!nodes_[index_of(range.list[2].list[2].text)]->is_running()) return false;
        all += std::to_string(range.list[0].number) + " " + range.list[2].list[2].text + "\n";
      }
      owners.insert(all);
    }
    return owners.size() == 1;
  });
}

void Cluster::promote(std::size_t replica) {
  Client plain = nodes_[replica]->client();
  wait_until("the replica follows", [&] { return plain.info("master_link_status") == "up"; });
  // Masters do not vote for another one right after they have voted, so it is asked for again.
  int asked = 0;
  wait_until("the replica is the master", [&] {
    if (plain({"ROLE"}).list.at(0).text == "master") return true;
    if (asked++ % 200 == 0) plain({"CLUSTER", "FAILOVER"});
    return false;
  });
  wait_until_ok();
}

}  // namespace saqiya::testing

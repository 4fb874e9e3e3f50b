#include "tests/redis/sentinels.h"

#include <filesystem>

#include "tests/redis/certificates.h"

namespace saqiya::testing {

Sentinels::Sentinels(const SentinelOptions& options) : options_(options) {
  ServerOptions server;
  std::vector<std::string>& arguments = server.arguments;
  arguments = options_.arguments;
  server.tls = options_.tls;
  if (options_.tls) arguments.insert(arguments.end(), {"--tls-replication", "yes"});
  if (!options_.password.empty()) {
    for (const char* name : {"--requirepass", "--masterauth"}) {
      arguments.insert(arguments.end(), {name, options_.password});
    }
  }
  for (std::size_t i = 0; i <= options_.replicas; ++i) {
    servers_.push_back(std::make_unique<RedisServer>(server));
    if (i > 0) {
      Client plain = servers_[i]->client();
      if (!options_.password.empty()) plain({"AUTH", options_.password});
      plain({"REPLICAOF", "127.0.0.1", std::to_string(port(*servers_[0]))});
    }
  }
  for (std::size_t i = 0; i < options_.sentinels; ++i) {
    sentinels_.push_back(std::make_unique<Sentinel>());
    start_sentinel(i);
  }
  wait_until("the sentinels know all", [&] {
    for (std::size_t i = 0; i < sentinels_.size(); ++i) {
      Client plain = sentinel_client(i);
      if (plain({"SENTINEL", "SENTINELS", kMaster}).list.size() + 1 != sentinels_.size() ||
          plain({"SENTINEL", "CKQUORUM", kMaster}).error) {
        return false;
      }
      const Value replicas = plain({"SENTINEL", "REPLICAS", kMaster});
      std::size_t up = 0;
      for (const Value& replica : replicas.list) {
        for (std::size_t at = 0; at + 1 < replica.list.size(); at += 2) {
          up += replica.list[at].text == "master-link-status" && replica.list[at + 1].text == "ok";
        }
      }
      if (up != options_.replicas) return false;
    }
    return true;
  });
}

void Sentinels::start_sentinel(std::size_t i) {
  Sentinel& sentinel = *sentinels_[i];
  const std::string name = kMaster;
  const std::string path = sentinel.directory.path() + "/sentinel.conf";
  if (!std::filesystem::exists(path)) {
    // The first one is quick to start a failover, so that they do not run for it all at once and
    // begin again when nobody has won: a matter of seconds.
    const bool quick = i == 0;
    const std::string quorum = std::to_string(quick ? 1 : options_.sentinels / 2 + 1);
    const std::string down_after = std::to_string(options_.down_after * (quick ? 1 : 3));
    std::string text = "port " + std::to_string(sentinel.port) + "\nbind 127.0.0.1\ndir " +
                       sentinel.directory.path() + "\nsentinel monitor " + name + " 127.0.0.1 " +
                       std::to_string(port(*servers_[0])) + " " + quorum +
                       "\nsentinel down-after-milliseconds " + name + " " + down_after +
                       "\nsentinel failover-timeout " + name + " 2000\n";
    if (options_.tls) {
      const Certificates& files = certificates();
      text += "tls-port " + std::to_string(sentinel.tls_port) + "\ntls-cert-file " +
              files.server.certificate + "\ntls-key-file " + files.server.key +
              "\ntls-ca-cert-file " + files.ca +
              "\ntls-auth-clients optional\ntls-replication yes\n";
    }
    if (!options_.password.empty()) {
      text += "sentinel auth-pass " + name + " " + options_.password + "\n";
    }
    if (!options_.sentinel_password.empty()) {
      text += "requirepass " + options_.sentinel_password + "\nsentinel sentinel-pass " +
              options_.sentinel_password + "\n";
    }
    sentinel.directory.write("sentinel.conf", text);
  }
  sentinel.process.start({server_program(), path, "--sentinel"});
  wait_until("the sentinel answers", [&] {
    if (sentinel.process.ended()) throw std::runtime_error("the sentinel does not start");
    // They look around as often as tests are impatient; milliseconds. But what they know of a
    // replica that is to be promoted must not be older than five pings or three infos, and during
    // a failover they ask for infos each second only. After four publish periods the other
    // sentinels undo a promotion they have not heard of.
    return !sentinel_client(i)({"SENTINEL", "DEBUG", "INFO-PERIOD", "500", "PUBLISH-PERIOD", "500",
                                "PING-PERIOD", "400", "ASK-PERIOD", "100"})
                .error;
  });
}

Client Sentinels::sentinel_client(std::size_t i) const {
  Client plain(sentinels_[i]->port);
  if (!options_.sentinel_password.empty()) plain({"AUTH", options_.sentinel_password});
  return plain;
}

std::string Sentinels::url(std::string_view login, std::string_view rest) const {
  std::string text =
      (options_.tls ? "rediss+sentinel://" : "redis+sentinel://") + std::string(login);
  for (const auto& sentinel : sentinels_) {
    text += "127.0.0.1:" + std::to_string(options_.tls ? sentinel->tls_port : sentinel->port) + ",";
  }
  text.back() = '/';
  return text + kMaster + std::string(rest);
}

std::uint16_t Sentinels::port(const RedisServer& server) const {
  return options_.tls ? server.tls_port() : server.port();
}

std::size_t Sentinels::index_of(const std::string& port_text) const {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    if (std::to_string(port(*servers_[i])) == port_text) return i;
  }
  throw std::runtime_error("the sentinels watch a foreign server");
}

std::size_t Sentinels::master_of(std::size_t sentinel) const {
  return index_of(
      sentinel_client(sentinel)({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", kMaster}).list.at(1).text);
}

std::size_t Sentinels::master() const {
  for (std::size_t i = 0; i < sentinels_.size(); ++i) {
    if (sentinels_[i]->process.is_running()) return master_of(i);
  }
  throw std::runtime_error("no sentinel lives");
}

std::size_t Sentinels::wait_for_failover(std::size_t old) const {
  std::size_t now = old;
  wait_until("there is a new master", [&] {
    now = master();
    for (std::size_t i = 0; i < sentinels_.size(); ++i) {
      if (sentinels_[i]->process.is_running() && master_of(i) != now) return false;
    }
    if (now == old) return false;
    Client plain = servers_[now]->client();
    if (!options_.password.empty()) plain({"AUTH", options_.password});
    return plain({"ROLE"}).list.at(0).text == "master";
  });
  return now;
}

std::size_t Sentinels::failover() {
  const std::size_t old = master();
  wait_until("the failover begins", [&] {
    return !sentinel_client(0)({"SENTINEL", "FAILOVER", kMaster}).error;
  });
  return wait_for_failover(old);
}

}  // namespace saqiya::testing

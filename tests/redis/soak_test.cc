// C66: connections are killed, slots move, queues are closed and requests cancelled at random, on
// one server and on a cluster.
#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "tests/redis/cluster.h"
#include "tests/redis/fixture.h"
#include "tests/redis/proxy.h"
#include "tests/redis/soak_queue.h"

namespace saqiya::testing {
namespace {

// Every kind of request, about twenty subjects.
class Mixture : public SoakQueue {
 public:
  Mixture(const std::shared_ptr<Store>& store, std::uint32_t seed)
      : SoakQueue(store, seed),
        plain_(make_limiter(store, "5/s burst 50", "plain")),
        thirds_(make_limiter(store, "3/s burst 50", "thirds")),
        two_(make_limiter(store, "90/s; concurrency: 40 ttl 1min", "two")) {}

  int decided() const { return decided_; }

 private:
  void next() override {
    const std::string key = std::to_string(below(20));
    const std::string other = std::to_string(below(20));
    const Limiter& bucket = below(2) == 0 ? *plain_ : *thirds_;
    Request request = check(bucket, key, below(3), below(2) * 1000);
    const std::array<Item, 2> items{Item{&bucket, key}, Item{two_.get(), other}};
    switch (below(8)) {
      case 0:
        request = refund(bucket, key, ticket_);
        break;
      case 1:
        request.limiter = two_.get();
        request.max_wait = 0;
        break;
      case 2:
        request = reset(bucket, key);
        break;
      case 3:
        request = check(bucket, key);
        request.items = items;
        break;
      case 4:
        request = peek(bucket, key);
        request.items = items;
        break;
      default:
        break;
    }
    submit(request);
  }

  void completed(const Completion& completion) override {
    if (completion.decision.outcome == Outcome::kUnavailable) {
      // Else all the events would be over before the server is tried again.
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    } else {
      ++decided_;
    }
    if (completion.ticket.n != 0) ticket_ = completion.ticket;
  }

  const std::shared_ptr<Limiter> plain_;
  const std::shared_ptr<Limiter> thirds_;
  const std::shared_ptr<Limiter> two_;
  Ticket ticket_;
  int decided_ = 0;
};

class OnAServer : public Mixture {
 public:
  OnAServer(const RedisServer& server, Proxy* proxy)
      : Mixture(open(proxy->url(), patient()), 3), plain_(server.client()), proxy_(*proxy) {}

 private:
  void disturb() override {
    switch (below(16)) {
      case 0:
        return proxy_.cut_all();
      case 1:
        return proxy_.cut_next_after(1 + below(40'000), Proxy::kNoLimit);
      case 2:
        return proxy_.cut_next_after(Proxy::kNoLimit, 1 + below(20'000));
      case 3:
        plain_({"SCRIPT", "FLUSH"});
        return;
      default:
        return;
    }
  }

  Client plain_;
  Proxy& proxy_;
};

class OnACluster : public Mixture {
 public:
  explicit OnACluster(Cluster* cluster)
      : Mixture(open(cluster->url(), patient()), 7), cluster_(*cluster) {}

 private:
  void disturb() override {
    if (below(4) != 0) return;
    Client client = cluster_.node(below(3)).client();
    switch (below(4)) {
      case 0:
        client({"SCRIPT", "FLUSH"});
        return;
      case 1: {
        const int slot = cluster_.slot_of("{" + std::to_string(below(20)) + "}");
        cluster_.migrate(slot, (cluster_.master_of(slot) + 1) % 3);
        return;
      }
      default:
        client({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    }
  }

  Cluster& cluster_;
};

TEST(RedisSoak, RandomEvents) {
  RedisServer server;
  Proxy proxy(server.socket_path());
  OnAServer soak(server, &proxy);
  soak.run(100'000);
  EXPECT_GT(soak.decided(), 2'000);
  Client plain = server.client();
  for (const std::string& key : plain.keys()) EXPECT_NE(plain.number({"PTTL", key}), -1) << key;
}

TEST(RedisSoak, RandomEventsOnACluster) {
  Cluster cluster({.masters = 3, .replicas = 0});
  OnACluster soak(&cluster);
  soak.run(40'000);
  EXPECT_GT(soak.decided(), 2'000);
}

}  // namespace
}  // namespace saqiya::testing

// What no real cluster does on demand: nodes that are down for ever, and redirections that lead
// nowhere or round in circles. Each request ends in its time, with the reason that docs/redis.md
// tells.
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "core/redis/lua/script.lua.h"
#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr Micros kDeadline = 300'000;
constexpr std::size_t kNodes = 2;

std::string good() { return batch_reply(1'790'000'000'000'000, {-1'000'000}); }

// Two nodes. Either says that the first one has all slots.
class Circle {
 public:
  // What a node says to a batch; n: of how many before it, of both nodes.
  using Says = std::function<std::string(const Circle& circle, std::size_t node, int n)>;

  explicit Circle(Says says) : says_(std::move(says)) {
    for (std::size_t i = 0; i < kNodes; ++i) {
      nodes_[i] = std::make_unique<FakeServer>(
          [this, i](const Command&) {
            return say(is_well_ ? good() : says_(*this, i, batches_++));
          },
          [this](const Command& command) { return say(handshake(command)); });
      ports_[i] = nodes_[i]->port();
    }
  }

  std::string place(std::size_t i) const { return "127.0.0.1:" + std::to_string(ports_[i]); }
  std::string url() const { return "redis+cluster://" + place(0); }
  const FakeServer& node(std::size_t i) const { return *nodes_[i]; }
  int batches() const { return batches_; }
  // From now on it answers as it should.
  void get_well() { is_well_ = true; }

 private:
  std::string handshake(const Command& command) const {
    if (command[0] == "CLUSTER") {
      return "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:" + std::to_string(ports_[0]) +
             "\r\n";
    }
    if (command[0] == "EVALSHA") return batch_reply(1'000'000, {});
    if (command[0] == "SCRIPT") return "$40\r\n" + std::string(lua::kScriptSha1) + "\r\n";
    return "+OK\r\n";  // ASKING
  }

  const Says says_;
  std::array<std::atomic<std::uint16_t>, kNodes> ports_{};
  std::atomic<int> batches_{0};
  std::atomic<bool> is_well_{false};
  std::array<std::unique_ptr<FakeServer>, kNodes> nodes_;
};

struct Fault {
  std::string name;
  Circle::Says says;
  Reason reason;
};

const std::vector<Fault>& faults() {
  static const std::string nowhere = "127.0.0.1:" + std::to_string(free_port());
  using Which = const Circle&;
  static const std::vector<Fault> all = {
      {"CLUSTERDOWN",
       [](Which, std::size_t, int) { return "-CLUSTERDOWN The cluster is down\r\n"; },
       Reason::kRefused},
      {"TRYAGAIN", [](Which, std::size_t, int) { return "-TRYAGAIN Multiple keys request\r\n"; },
       Reason::kRefused},
      {"ASK the other",
       [](Which c, std::size_t i, int) { return "-ASK 1 " + c.place(1 - i) + "\r\n"; },
       Reason::kRefused},
      {"ASK itself", [](Which c, std::size_t i, int) { return "-ASK 1 " + c.place(i) + "\r\n"; },
       Reason::kRefused},
      {"MOVED to the other",
       [](Which c, std::size_t i, int) { return "-MOVED 1 " + c.place(1 - i) + "\r\n"; },
       Reason::kRefused},
      {"MOVED to itself",
       [](Which c, std::size_t i, int) { return "-MOVED 1 " + c.place(i) + "\r\n"; },
       Reason::kRefused},
      {"MOVED and ASK",
       [](Which c, std::size_t i, int n) {
         return (n % 2 == 0 ? "-MOVED 1 " : "-ASK 1 ") + c.place(1 - i) + "\r\n";
       },
       Reason::kRefused},
      {"MOVED to an unknown address", [](Which, std::size_t, int) { return "-MOVED 1 ?:0\r\n"; },
       Reason::kRefused},
      {"MOVED without an address", [](Which, std::size_t, int) { return "-MOVED\r\n"; },
       Reason::kRefused},
      {"ASK nobody", [](Which, std::size_t, int) { return "-ASK 1 " + nowhere + "\r\n"; },
       Reason::kConnect},
      {"MOVED to nobody", [](Which, std::size_t, int) { return "-MOVED 1 " + nowhere + "\r\n"; },
       Reason::kConnect},
  };
  return all;
}

// The same from a thread and from a queue.
Decision ask_by(bool queued, const Request& request) {
  if (!queued) return ask(request).decision;
  const std::shared_ptr<Store> store = request.limiter->shared_store();
  const auto queue = open_queue(store);
  queue->submit(request, 1);
  const auto all = collect(*queue, 1);
  return all.size() == 1 ? all[0].decision : Decision();
}

TEST(RedisClusterFault, EachEndsInItsTime) {
  for (const Fault& fault : faults()) {
    for (const bool queued : {false, true}) {
      SCOPED_TRACE(fault.name + (queued ? ", queued" : ""));
      Decision d;
      // The deadline may come just when it is being sent once more: then it ends as others do that
      // are late, and says nothing.
      for (int tries = 0; tries < 20 && d.reason != fault.reason; ++tries) {
        const Circle circle(fault.says);
        StoreOptions options;
        options.deadline = kDeadline;
        const auto limiter = make_limiter(open(circle.url(), options), "10/h");
        const Micros start = system_monotonic();
        d = ask_by(queued, check(*limiter, "u"));
        EXPECT_LT(system_monotonic() - start, 5 * kDeadline);
        EXPECT_EQ(d.outcome, Outcome::kUnavailable);
        EXPECT_THAT(d.reason, ::testing::AnyOf(fault.reason, Reason::kTimeout, Reason::kBusy));
        // At most some at once, and then a pause of 10 ms each time.
        EXPECT_LT(circle.batches(), 8 * (kDeadline / 10'000));
      }
      EXPECT_EQ(d.reason, fault.reason);
    }
  }
}

// That the cluster is down is worth no long wait: it ends far from the deadline, and those who come
// later do not wait at all.
TEST(RedisClusterFault, AClusterThatIsDownIsNotWaitedFor) {
  Circle circle([](const Circle&, std::size_t, int) { return "-CLUSTERDOWN Hash slot\r\n"; });
  const auto store = open(circle.url(), patient());
  const auto limiter = make_limiter(store, "10/h");
  const Micros start = system_monotonic();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(reason(check(*limiter, "u")), Reason::kRefused);
  EXPECT_LT(system_monotonic() - start, patient().deadline / 2);
  EXPECT_EQ(store->stats().degraded, 1U);
  Event event;
  ASSERT_TRUE(store->next_event(&event));
  EXPECT_EQ(event.kind, Event::Kind::kOutage);
  EXPECT_EQ(event.reason, Reason::kRefused);
  circle.get_well();
  EXPECT_EQ(ask_until_up(check(*limiter, "u")).outcome, Outcome::kAllowed);
  EXPECT_EQ(store->stats().degraded, 0U);
}

// What passes within the deadline costs nobody anything, and nothing is sent after it is answered.
TEST(RedisClusterFault, WhatPassesIsWaitedFor) {
  const std::vector<std::pair<std::string, int>> passing = {
      {"-CLUSTERDOWN The cluster is down\r\n", 3}, {"-TRYAGAIN Multiple keys request\r\n", 30}};
  for (const auto& [text, times] : passing) {
    for (const bool queued : {false, true}) {
      SCOPED_TRACE(text + (queued ? "queued" : ""));
      const Circle circle([line = text, most = times](const Circle&, std::size_t, int n) {
        return n < most ? line : good();
      });
      const auto store = open(circle.url(), patient());
      EXPECT_EQ(ask_by(queued, check(*make_limiter(store, "10/h"), "u")).outcome,
                Outcome::kAllowed);
      EXPECT_EQ(circle.batches(), times + 1);
      EXPECT_EQ(store->stats().failures, 0U);
    }
  }
}

// ASK is for one request only, and says so; the next one goes where the map says.
TEST(RedisClusterFault, AskIsForOneRequest) {
  const Circle circle([](const Circle& c, std::size_t node, int) {
    return node == 0 ? "-ASK 1 " + c.place(1) + "\r\n" : good();
  });
  const auto limiter = make_limiter(open(circle.url(), patient()), "10/h");
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
    EXPECT_EQ(circle.batches(), 2 * i);
  }
  std::vector<std::string> said;
  for (const Command& command : circle.node(1).commands()) {
    if (command[0] != "SCRIPT") said.push_back(command[0]);
  }
  EXPECT_THAT(
      said, ::testing::ElementsAre("ASKING", "EVALSHA", "ASKING", "EVALSHA", "ASKING", "EVALSHA"));
}

}  // namespace
}  // namespace saqiya::testing

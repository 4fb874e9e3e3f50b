// Real servers that are killed, paused, full, made replicas of, or cut off.
#include <atomic>
#include <thread>

#include "tests/redis/cluster.h"
#include "tests/redis/fixture.h"
#include "tests/redis/proxy.h"
#include "tests/redis/sentinels.h"

namespace saqiya::testing {
namespace {

// A master that becomes a replica while saqiya is connected, and a master again.
TEST(RedisServerFault, AMasterThatIsDemotedAndPromoted) {
  RedisServer server;
  const auto limiter = make_limiter(open(server.url(), patient()), "100/h");
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  Client plain = server.client();
  plain({"REPLICAOF", "127.0.0.1", std::to_string(free_port())});
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kReadOnly);
  plain({"REPLICAOF", "NO", "ONE"});
  const Decision d = ask_until_up(check(*limiter, "u"));
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 98);
}

// C71: what a replica has is the same state, and it goes on from there.
TEST(RedisServerFault, APromotedReplicaKnowsWhatWasSpent) {
  RedisServer master;
  RedisServer replica;
  replica.follow(master);
  const auto store = open(master.unix_url(), patient());
  const auto promoted = open(replica.unix_url(), patient());
  for (const char* policy :
       {"10/h", "fixed-window: 10/h", "sliding-window: 10/h", "sliding-log: 10/h",
        "concurrency: 10 ttl 1h", "10/h; fixed-window: 100/d"}) {
    const auto limiter = make_limiter(store, policy, "p");
    for (int i = 0; i < 7; ++i) ASSERT_EQ(outcome(check(*limiter, policy)), Outcome::kAllowed);
  }
  // Of this connection: WAIT is about its own writes.
  Client writer = master.client();
  writer({"SET", "last", "1"});
  ASSERT_EQ(writer.number({"WAIT", "1", "20000"}), 1);
  const std::vector<std::string> keys = master.client().keys();
  ASSERT_GE(keys.size(), 7U);
  for (const std::string& key : keys) {
    EXPECT_EQ(replica.client().text({"DUMP", key}), master.client().text({"DUMP", key})) << key;
    EXPECT_EQ(replica.client().number({"PEXPIRETIME", key}),
              master.client().number({"PEXPIRETIME", key}));
  }
  master.kill();
  replica.client()({"REPLICAOF", "NO", "ONE"});
  for (const char* policy :
       {"10/h", "fixed-window: 10/h", "sliding-window: 10/h", "sliding-log: 10/h",
        "concurrency: 10 ttl 1h", "10/h; fixed-window: 100/d"}) {
    const auto limiter = make_limiter(promoted, policy, "p");
    EXPECT_EQ(ask(peek(*limiter, policy)).decision.remaining, 3) << policy;
  }
}

// C73: a full server of each policy. Each decision is one of those that are defined, and what
// refuses says so.
TEST(RedisServerFault, FullServers) {
  for (const std::string policy : {"noeviction", "allkeys-lru", "volatile-lru"}) {
    SCOPED_TRACE(policy);
    RedisServer server({"--maxmemory", "8mb", "--maxmemory-policy", policy});
    const auto store = open(server.unix_url(), patient());
    const auto limiter = make_limiter(store, "1/h burst 5", "full");
    const auto queue = open_queue(store);
    std::size_t allowed = 0;
    std::size_t full = 0;
    constexpr int kKeys = 100'000;
    for (int done = 0; done < kKeys; done += 1000) {
      for (int i = 0; i < 1000; ++i) {
        const std::string key = "a-key-that-takes-some-room-" + std::to_string(done + i);
        ASSERT_EQ(queue->submit(check(*limiter, key), 0), SubmitResult::kOk);
      }
      const auto all = collect(*queue, 1000);
      ASSERT_EQ(all.size(), 1000U);
      for (const Completion& c : all) {
        allowed += c.decision.outcome == Outcome::kAllowed ? 1 : 0;
        if (c.decision.outcome != Outcome::kUnavailable) continue;
        ++full;
        EXPECT_EQ(c.decision.reason, Reason::kServerMemory);
      }
    }
    EXPECT_EQ(allowed + full, static_cast<std::size_t>(kKeys));
    EXPECT_EQ(store->stats().failures, full);
    if (policy == "noeviction") {
      EXPECT_GT(full, 0U);
      Event event;
      ASSERT_TRUE(store->next_event(&event));
      EXPECT_EQ(event.reason, Reason::kServerMemory);
    } else {
      // Evicted keys are full buckets, nothing worse.
      EXPECT_EQ(full, 0U);
      EXPECT_LT(server.client().number({"DBSIZE"}), kKeys);
      std::size_t forgotten = 0;
      for (int i = 0; i < 1000; ++i) {
        const std::string key = "a-key-that-takes-some-room-" + std::to_string(i);
        const std::int64_t remaining = ask(peek(*limiter, key)).decision.remaining;
        ASSERT_TRUE(remaining == 4 || remaining == 5) << remaining;
        forgotten += remaining == 5 ? 1 : 0;
      }
      EXPECT_GT(forgotten, 0U);
    }
  }
}

// Connections are killed every 100 ms under load from threads. What was allowed was charged; what
// was charged was allowed or is one of those that were lost.
TEST(RedisServerFault, KilledConnectionsChargeAtMostOnce) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "10/h burst 1000000", "kill");
  std::atomic<std::int64_t> allowed{0};
  std::atomic<std::int64_t> lost{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const Decision d = ask(check(*limiter, "u")).decision;
        if (d.outcome == Outcome::kAllowed) {
          ++allowed;
        } else {
          EXPECT_EQ(d.outcome, Outcome::kUnavailable);
          EXPECT_TRUE(d.reason == Reason::kLost || d.reason == Reason::kConnect)
              << static_cast<int>(d.reason);
          if (d.reason == Reason::kLost) ++lost;
        }
      }
    });
  }
  Client plain = server.client();
  std::int64_t killed = 0;
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    killed += plain.number({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(killed, 20);
  EXPECT_GT(allowed, 0);
  const std::int64_t charged = 1'000'000 - ask_until_up(peek(*limiter, "u")).remaining;
  EXPECT_GE(charged, allowed);
  EXPECT_LE(charged, allowed + lost);
}

// CLIENT PAUSE: requests end at their deadlines, later ones at once, and all is well afterwards.
TEST(RedisServerFault, PausedServers) {
  for (const char* mode : {"ALL", "WRITE"}) {
    SCOPED_TRACE(mode);
    RedisServer server;
    StoreOptions options;
    options.deadline = 150'000;
    const auto store = open(server.url(), options);
    const auto limiter = make_limiter(store, "1/h burst 100000", "pause");
    ASSERT_EQ(ask_until_up(check(*limiter, "u")).outcome, Outcome::kAllowed);
    server.client()({"CLIENT", "PAUSE", "1500", mode});
    EXPECT_EQ(reason(check(*limiter, "u")), Reason::kTimeout);
    // The breaker is open: these do not wait, or they would take longer than the pause.
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kUnavailable);
      EXPECT_EQ(store->stats().degraded, 1U);
    }
    EXPECT_EQ(ask_until_up(check(*limiter, "u")).outcome, Outcome::kAllowed);
    EXPECT_EQ(store->stats().degraded, 0U);
  }
}

// C60: a link that lost its middle: no RST, no FIN, no reply.
TEST(RedisServerFault, AHalfOpenLink) {
  RedisServer server;
  Proxy proxy(server.socket_path());
  StoreOptions options;
  options.deadline = 200'000;
  const auto store = open(proxy.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 1000", "half");
  ASSERT_EQ(ask_until_up(check(*limiter, "u")).outcome, Outcome::kAllowed);
  proxy.freeze(true);
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kTimeout);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kUnavailable);
  }
  proxy.freeze(false);
  EXPECT_EQ(ask_until_up(check(*limiter, "u")).outcome, Outcome::kAllowed);
  // The first charge, the one on the wire, and this one: whatever else was held back charged
  // nothing.
  EXPECT_GE(ask(peek(*limiter, "u")).decision.remaining, 997);
}

// C76: a plain URL to one node of a cluster, and to a sentinel.
TEST(RedisServerFault, APlainUrlToAClusterOrASentinelIsTold) {
  Cluster cluster({.replicas = 0});
  const auto store = open(cluster.node(0).url(), patient());
  const auto limiter = make_limiter(store, "1/h burst 1000", "c");
  std::size_t refused = 0;
  for (int i = 0; i < 100; ++i) {
    const Decision d = ask(check(*limiter, std::to_string(i))).decision;
    if (d.outcome == Outcome::kAllowed) continue;
    EXPECT_EQ(d.reason, Reason::kRefused);
    ++refused;
  }
  EXPECT_GT(refused, 0U);
  Event event;
  ASSERT_TRUE(store->next_event(&event));
  EXPECT_THAT(std::string(event.message.data()), ::testing::HasSubstr("cluster"));
  Sentinels sentinels({.replicas = 0, .sentinels = 1});
  const auto wrong =
      open("redis://127.0.0.1:" + std::to_string(sentinels.sentinel_port(0)), patient());
  const auto other = make_limiter(wrong, "9/h");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outcome(check(*other, "u")), Outcome::kUnavailable);
  ASSERT_TRUE(wrong->next_event(&event));
  EXPECT_EQ(event.kind, Event::Kind::kOutage);
  EXPECT_THAT(std::string(event.message.data()), ::testing::HasSubstr("redis+sentinel://"));
  const auto login =
      open("redis://:geheim@127.0.0.1:" + std::to_string(sentinels.sentinel_port(0)), patient());
  EXPECT_EQ(reason(check(*make_limiter(login, "9/h"), "u")), Reason::kAuth);
  ASSERT_TRUE(login->next_event(&event));
  EXPECT_THAT(std::string(event.message.data()), ::testing::Not(::testing::HasSubstr("geheim")));
}

TEST(RedisServerFault, APlainServerBehindAClusterUrlIsTold) {
  RedisServer server;
  const auto store = open("redis+cluster://127.0.0.1:" + std::to_string(server.port()), patient());
  const auto limiter = make_limiter(store, "9/h");
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kRefused);
  Event event;
  ASSERT_TRUE(store->next_event(&event));
  EXPECT_EQ(event.kind, Event::Kind::kRefused);
  EXPECT_THAT(std::string(event.message.data()), ::testing::HasSubstr("no cluster"));
}

}  // namespace
}  // namespace saqiya::testing

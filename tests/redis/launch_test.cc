// The launchers themselves: what other tests build upon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/redis/certificates.h"
#include "tests/redis/cluster.h"
#include "tests/redis/sentinels.h"
#include "tests/redis/server.h"

namespace saqiya::testing {
namespace {

TEST(RedisLaunch, AServerComesBackToItsPort) {
  RedisServer server;
  Client(server.port())({"SET", "k", "v"});
  server.kill();
  EXPECT_THROW(Client(server.port())({"PING"}), std::runtime_error);
  server.start();
  EXPECT_TRUE(Client(server.port())({"GET", "k"}).nil);
}

TEST(RedisLaunch, AclAndReplica) {
  RedisServer master;
  ServerOptions options;
  options.acl = {"user default on nopass ~* &* +@all", "user app on >secret ~sq:* +get"};
  RedisServer server(options);
  server.follow(master);
  Client writer = master.client();
  writer({"SET", "sq:a", "1"});
  EXPECT_EQ(writer.number({"WAIT", "1", "20000"}), 1);
  Client plain = server.client();
  EXPECT_FALSE(plain({"AUTH", "app", "secret"}).error);
  EXPECT_EQ(plain.text({"GET", "sq:a"}), "1");
  EXPECT_THAT(plain.text({"GET", "b"}), ::testing::StartsWith("NOPERM"));
}

TEST(RedisLaunch, Tls) {
  ServerOptions options;
  options.tls = true;
  options.tls_auth_clients = "yes";
  RedisServer server(options);
  const Certificates& files = certificates();
  const std::string at = "127.0.0.1:" + std::to_string(server.tls_port());
  const std::vector<std::string> words = {"openssl",  "s_client", "-verify_return_error",
                                          "-connect", at,         "-CAfile"};
  const auto speak = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    run(all);
  };
  EXPECT_NO_THROW(speak({files.ca, "-cert", files.client.certificate, "-key", files.client.key}));
  EXPECT_THROW(speak({files.other_ca}), std::runtime_error);
}

TEST(RedisLaunch, SentinelsFailOver) {
  Sentinels sentinels({.password = "p", .sentinel_password = "s"});
  EXPECT_EQ(sentinels.master(), 0U);
  sentinels.server(0).kill();
  EXPECT_EQ(sentinels.wait_for_failover(0), 1U);
  sentinels.server(0).start();
  // Sentinels close the connections of a server that they demote.
  wait_until("the old master is a replica", [&] {
    Client old = sentinels.server(0).client();
    old({"AUTH", "p"});
    return old({"ROLE"}).list.at(0).text == "slave";
  });
}

TEST(RedisLaunch, SentinelsFailOverAsPlanned) {
  Sentinels sentinels;
  EXPECT_EQ(sentinels.failover(), 1U);
}

TEST(RedisLaunch, AClusterMovesSlotsAndReplacesMasters) {
  Cluster cluster;
  const int slot = cluster.slot_of("k");
  const std::size_t from = cluster.master_of(slot);
  const std::size_t to = (from + 1) % 3;
  EXPECT_EQ(cluster.node(from).client().text({"SET", "k", "v"}), "OK");
  cluster.begin_migration(slot, to);
  EXPECT_EQ(cluster.node(from).client().text({"GET", "k"}), "v");
  EXPECT_EQ(cluster.migrate_keys(slot, to), 1U);
  EXPECT_THAT(cluster.node(from).client().text({"GET", "k"}), ::testing::StartsWith("ASK "));
  cluster.end_migration(slot, to);
  EXPECT_EQ(cluster.node(to).client().text({"GET", "k"}), "v");
  cluster.wait_until_ok();
  EXPECT_EQ(cluster.master_of(slot), to);
  const std::vector<std::size_t> replicas = cluster.replicas_of(to);
  ASSERT_EQ(replicas.size(), 1U);
  cluster.node(to).kill();
  cluster.wait_until_ok();
  EXPECT_EQ(cluster.master_of(slot), replicas[0]);
  EXPECT_EQ(cluster.node(replicas[0]).client().text({"GET", "k"}), "v");
  cluster.node(to).start();
  cluster.wait_until_ok();
  cluster.promote(to);
  EXPECT_EQ(cluster.master_of(slot), to);
}

TEST(RedisLaunch, AClusterWithTls) {
  Cluster cluster({.replicas = 0, .tls = true});
  EXPECT_THAT(cluster.url(), ::testing::StartsWith("rediss+cluster://127.0.0.1:"));
}

}  // namespace
}  // namespace saqiya::testing

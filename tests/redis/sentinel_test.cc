// Sentinel: finding the master, and finding the next one.
#include "tests/redis/sentinels.h"

#include <atomic>
#include <thread>

#include "tests/redis/certificates.h"
#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"
#include "tests/redis/reach.h"

namespace saqiya::testing {
namespace {

using ::testing::HasSubstr;

StoreOptions hasty() {
  StoreOptions options;
  options.deadline = 500'000;
  return options;
}

// The replica has all that the master has. (WAIT speaks of one client's own writes only.)
void wait_for_replica(const RedisServer& master, const RedisServer& replica) {
  wait_until("the replica has all", [&] {
    return replica.client().info("slave_repl_offset") == master.client().info("master_repl_offset");
  });
}

// On a busy machine the sentinels' elections fail again and again, each time for some seconds.
std::size_t wait_for_failover(const Sentinels& sentinels, std::size_t old) {
  for (int i = 0; i < 4; ++i) {
    try {
      return sentinels.wait_for_failover(old);
    } catch (const std::runtime_error&) {
    }
  }
  throw std::runtime_error("the sentinels elect no master");
}

TEST(RedisSentinel, TheMasterIsFound) {
  Sentinels sentinels;
  Reach reach(sentinels.url("", "/3?client_name=limits"));
  ASSERT_TRUE(reach.open()) << reach.connection().problem();
  EXPECT_EQ(reach.connection().server().port, sentinels.server(0).port());
  EXPECT_THAT(sentinels.server(0).client().text({"CLIENT", "LIST"}), HasSubstr("name=limits"));
  const auto store = open(sentinels.url(), patient());
  const auto limiter = make_limiter(store, "5/h");
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 4);
  auto queue = open_queue(store);
  queue->submit(check(*limiter, "u"), 1);
  EXPECT_EQ(collect(*queue, 1).at(0).decision.remaining, 3);
}

TEST(RedisSentinel, PasswordsOfBoth) {
  Sentinels sentinels({.replicas = 0, .password = "p", .sentinel_password = "hunter2"});
  EXPECT_EQ(Reach(sentinels.url(":p@", "?sentinel_password=hunter2")).problem(), "");
  Reach none(sentinels.url(":p@"));
  EXPECT_THAT(none.problem(), HasSubstr("a sentinel refuses to answer: NOAUTH"));
  EXPECT_EQ(none.failure(), Reason::kAuth);
  Reach wrong(sentinels.url(":p@", "?sentinel_user=u&sentinel_password=hunter3"));
  EXPECT_THAT(wrong.problem(), HasSubstr("a sentinel refuses the login: WRONGPASS"));
  EXPECT_EQ(wrong.connection().problem().find("hunter"), std::string::npos);
  EXPECT_THAT(Reach(sentinels.url(":q@", "?sentinel_password=hunter2")).problem(),
              HasSubstr("the server refuses the login"));
}

TEST(RedisSentinel, ANameThatTheSentinelsDoNotKnow) {
  Sentinels sentinels({.replicas = 0, .sentinels = 1});
  Reach reach("redis+sentinel://127.0.0.1:" + std::to_string(sentinels.sentinel_port(0)) + "/back");
  EXPECT_THAT(reach.problem(), HasSubstr("the sentinels know no master named back"));
  EXPECT_EQ(reach.failure(), Reason::kResolve);
}

// C58: each sentinel's machine is off in turn, refusing or silent; the others suffice, and the
// first answer is there long before a silent one could be given up.
TEST(RedisSentinel, AnySentinelMayBeAway) {
  Sentinels sentinels;
  for (std::size_t i = 0; i < 3; ++i) {
    sentinels.kill_sentinel(i);
    EXPECT_EQ(Reach(sentinels.url()).problem(), "") << i;
    EXPECT_EQ(outcome(check(*make_limiter(open(sentinels.url(), patient()), "5/h"), "u")),
              Outcome::kAllowed);
    sentinels.start_sentinel(i);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    sentinels.stop_sentinel(i);
    EXPECT_EQ(Reach(sentinels.url()).problem(), "") << i;
  }
}

TEST(RedisSentinel, AllSentinelsAway) {
  Sentinels sentinels({.replicas = 0, .sentinels = 2});
  Reach reach(sentinels.url());
  sentinels.stop_sentinel(0);
  sentinels.stop_sentinel(1);
  EXPECT_THAT(reach.problem(300'000), HasSubstr("answer"));
  EXPECT_EQ(reach.failure(), Reason::kConnect);
  sentinels.kill_sentinel(0);
  sentinels.kill_sentinel(1);
  EXPECT_THAT(reach.problem(), HasSubstr("a sentinel: cannot connect"));
  sentinels.start_sentinel(1);
  EXPECT_EQ(reach.problem(), "");
}

// One sentinel in the URL is enough to learn of the others.
TEST(RedisSentinel, TheOthersAreLearntOf) {
  Sentinels sentinels;
  Reach reach("redis+sentinel://127.0.0.1:" + std::to_string(sentinels.sentinel_port(1)) +
              "/front");
  ASSERT_TRUE(reach.open()) << reach.connection().problem();
  sentinels.kill_sentinel(1);
  reach.connection().close();
  EXPECT_EQ(reach.problem(), "");
  sentinels.kill_sentinel(0);
  reach.connection().close();
  EXPECT_EQ(reach.problem(), "");
}

TEST(RedisSentinel, AReplicaIsNotAMaster) {
  RedisServer master;
  RedisServer replica;
  replica.follow(master);
  const std::string port = std::to_string(replica.port());
  FakeServer sentinel([](const Command&) { return stay_silent(); },
                      [&](const Command& command) {
                        if (command[1] == "SENTINELS") return say("*0\r\n");
                        return say("*2\r\n$9\r\n127.0.0.1\r\n$" + std::to_string(port.size()) +
                                   "\r\n" + port + "\r\n");
                      });
  const std::string at = sentinel.url().substr(8);
  Reach reach("redis+sentinel://" + at + "/front");
  EXPECT_THAT(reach.problem(), HasSubstr("is not a master"));
  EXPECT_EQ(reach.failure(), Reason::kReadOnly);
  replica.client()({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(reach.problem(), "");
  // Whoever may not ask for its role takes it for what the sentinels say.
  replica.client()({"ACL", "SETUSER", "default", "-role"});
  EXPECT_EQ(reach.problem(), "");
}

// Asked again at most once a second; told of another master, the connection is to be left.
TEST(RedisSentinel, AMoveIsNoticedWhileConnected) {
  Sentinels sentinels;
  Reach reach(sentinels.url());
  ASSERT_TRUE(reach.open()) << reach.connection().problem();
  EXPECT_FALSE(reach.connection().moved_away(system_monotonic()));
  const std::size_t now = sentinels.failover();
  wait_until("it is noticed", [&] { return reach.connection().moved_away(system_monotonic()); });
  reach.connection().close();
  ASSERT_TRUE(reach.open()) << reach.connection().problem();
  EXPECT_EQ(reach.connection().server().port, sentinels.server(now).port());
}

// The master dies: within the failover's time decisions go on, and its counts are those that the
// replica had.
TEST(RedisSentinel, FailoverAfterADeath) {
  Sentinels sentinels;
  const auto store = open(sentinels.url(), hasty());
  const auto limiter = make_limiter(store, "1/h burst 20", "f");
  for (int i = 0; i < 12; ++i) EXPECT_EQ(ask_until_up(check(*limiter, "u")).remaining, 19 - i);
  wait_for_replica(sentinels.server(0), sentinels.server(1));
  sentinels.server(0).kill();
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kUnavailable);
  const std::size_t master = wait_for_failover(sentinels, 0);
  EXPECT_EQ(ask_until_up(check(*limiter, "u")).remaining, 7);
  int admitted = 13;
  for (int i = 0; i < 20; ++i) {
    admitted += ask_until_up(check(*limiter, "u")).outcome == Outcome::kAllowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 20);
  // The old one comes back: nobody counts on it again.
  sentinels.server(0).start();
  for (int i = 0; i < 200; ++i) {
    EXPECT_NE(ask_until_up(check(*limiter, "u")).outcome, Outcome::kAllowed);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(sentinels.master(), master);
}

}  // namespace
}  // namespace saqiya::testing

// Servers that forbid, that are full, that are replicas.
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

TEST(RedisServerRights, LeastRightsAreEnough) {
  RedisServer server;
  Client plain = server.client();
  ASSERT_FALSE(plain({"ACL", "SETUSER", "app", "on", ">p@ss:w/rd", "~sq:*", "-@all", "+evalsha",
                      "+script|load", "+time", "+get", "+set", "+del"})
                   .error);
  const auto store = open(server.url("app:p%40ss%3Aw%2Frd@"), patient());
  const auto limiter = make_limiter(store, "2/h");
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  EXPECT_EQ(outcome(reset(*limiter, "u")), Outcome::kAllowed);
  // Other keys are not open to it.
  StoreOptions options = patient();
  options.prefix = "other:";
  const auto outside = open(server.url("app:p%40ss%3Aw%2Frd@"), options);
  EXPECT_EQ(reason(check(*make_limiter(outside, "2/h"), "u")), Reason::kPermission);
}

TEST(RedisServerRights, WithoutScriptLoadTheScriptTravelsWithEval) {
  RedisServer server;
  Client plain = server.client();
  plain({"ACL", "SETUSER", "app", "on", ">p", "~sq:*", "-@all", "+evalsha", "+eval", "+time",
         "+get", "+set"});
  const auto store = open(server.url("app:p@"), patient());
  const auto limiter = make_limiter(store, "2/h");
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kDenied);
  EXPECT_THAT(plain.info("cmdstat_eval"), ::testing::StartsWith("calls=1,"));
  // With the handshake's probe, which found no script.
  EXPECT_THAT(plain.info("cmdstat_evalsha"), ::testing::StartsWith("calls=3,"));
}

TEST(RedisServerRights, WithoutEvalshaEveryBatchIsEval) {
  RedisServer server;
  Client plain = server.client();
  plain({"ACL", "SETUSER", "app", "on", ">p", "~sq:*", "-@all", "+eval", "+time", "+get", "+set"});
  const auto store = open(server.url("app:p@"), patient());
  const auto limiter = make_limiter(store, "3/h");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kDenied);
  EXPECT_EQ(store->stats().failures, 0U);
}

TEST(RedisServerRights, AMissingRightIsAReason) {
  for (const char* missing : {"+set", "+get", "+time", "+eval"}) {
    RedisServer server;
    Client plain = server.client();
    plain({"ACL", "SETUSER", "app", "on", ">p", "~sq:*", "-@all"});
    for (const char* right : {"+eval", "+time", "+get", "+set"}) {
      if (std::string_view(right) != missing) plain({"ACL", "SETUSER", "app", right});
    }
    const auto store = open(server.url("app:p@"), patient());
    EXPECT_EQ(reason(check(*make_limiter(store, "2/h"), "u")), Reason::kPermission) << missing;
  }
}

TEST(RedisServerRights, PasswordsAreCheckedAndNeverShown) {
  RedisServer server({"--requirepass", "geheim"});
  for (const char* login : {":geheim@", "default:geheim@"}) {
    const auto store = open(server.url(login), patient());
    EXPECT_EQ(outcome(check(*make_limiter(store, "9/h", "x"), "u")), Outcome::kAllowed);
  }
  for (const char* login : {":falsch@", "nobody:geheim@", "nobody:g%65heim@", ""}) {
    SCOPED_TRACE(login);
    const auto store = open(server.url(login), patient());
    EXPECT_EQ(reason(check(*make_limiter(store, "9/h", "x"), "u")), Reason::kAuth);
    Event event;
    ASSERT_TRUE(store->next_event(&event));
    EXPECT_EQ(event.reason, Reason::kAuth);
    const std::string shown = std::string(event.server.data()) + " " + event.message.data();
    EXPECT_THAT(shown, ::testing::HasSubstr("127.0.0.1"));
    for (const char* secret : {"geheim", "g%65heim", "falsch"}) {
      EXPECT_THAT(shown, ::testing::Not(::testing::HasSubstr(secret)));
    }
  }
  for (const char* rest : {"?no_such_option=1", "/no_number", "?ca=/nowhere"}) {
    OpenError error;
    EXPECT_EQ(open_store(server.url(":geheim@", rest), patient(), &error), nullptr);
    EXPECT_NE(error.message, "");
    EXPECT_THAT(error.message, ::testing::Not(::testing::HasSubstr("geheim")));
  }
}

TEST(RedisServerMemory, OutOfMemoryRefusesChargesButAnswersRefusals) {
  RedisServer server({"--maxmemory-policy", "noeviction"});
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "1/h");
  ASSERT_EQ(outcome(check(*limiter, "full")), Outcome::kAllowed);
  server.client()({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_EQ(reason(check(*limiter, "new")), Reason::kServerMemory);
  EXPECT_EQ(outcome(check(*limiter, "full")), Outcome::kDenied);
  EXPECT_EQ(outcome(peek(*limiter, "new")), Outcome::kAllowed);
  EXPECT_EQ(outcome(reset(*limiter, "full")), Outcome::kAllowed);
  server.client()({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(outcome(check(*limiter, "new")), Outcome::kAllowed);
}

TEST(RedisServerReplica, AReplicaIsReadOnly) {
  RedisServer server;
  server.client()({"REPLICAOF", "127.0.0.1", std::to_string(free_port())});
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "1/h");
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kReadOnly);
  server.client()({"REPLICAOF", "NO", "ONE"});
  // The connection was given up, and the next one waits for its turn, a second at the most.
  const Micros give_up = system_monotonic() + 20 * kMicrosPerSecond;
  Decision d;
  do {
    d = ask(check(*limiter, "u")).decision;
  } while (d.outcome == Outcome::kUnavailable && system_monotonic() < give_up);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
}

}  // namespace
}  // namespace saqiya::testing

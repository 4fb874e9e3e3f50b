// C74: the documented access rules are enough, and none of them is too many.
#include "tests/redis/least_rights.h"

#include <sstream>

#include "tests/redis/cluster.h"
#include "tests/redis/fixture.h"
#include "tests/redis/sentinels.h"

namespace saqiya::testing {
namespace {

// Does everything once; how many requests the server did not answer. rules_subject: who is asked
// about under a policy of several rules.
std::uint64_t failures_of_all(const std::string& url, std::string_view rules_subject = "u",
                              Micros deadline = patient().deadline) {
  StoreOptions options;
  options.deadline = deadline;
  const auto store = open(url, options);
  for (const char* policy :
       {"9/h", "fixed-window: 9/h", "sliding-log: 9/h", "9/h; 100/d", "concurrency: 9 ttl 1h"}) {
    const auto limiter = make_limiter(store, policy, "p");
    const std::string_view subject = limiter->rules().size() > 1 ? rules_subject : "u";
    const Answer charged = ask(check(*limiter, subject));
    ask(peek(*limiter, subject));
    if (charged.ticket.n != 0) ask(refund(*limiter, subject, charged.ticket));
    ask(reset(*limiter, subject));
  }
  // Many at once: their keys are read together.
  const auto limiter = make_limiter(store, "9/h", "p");
  const auto queue = open_queue(store);
  for (std::uint64_t i = 0; i < 64; ++i) queue->submit(check(*limiter, std::to_string(i)), i);
  EXPECT_EQ(collect(*queue, 64).size(), 64U);
  return store->stats().failures;
}

std::vector<std::string> commands_of(const std::string& user) {
  std::istringstream words(user);
  std::vector<std::string> commands;
  for (std::string word; words >> word;) {
    if (word[0] == '+') commands.push_back(word);
  }
  return commands;
}

TEST(RedisLeastRights, TheDocumentedOnesAreEnough) {
  ServerOptions options;
  options.acl = documented_acl(0);
  RedisServer server(options);
  EXPECT_EQ(failures_of_all(server.url(kDocumentedLogin)), 0U);
  server.client()({"SCRIPT", "FLUSH"});
  EXPECT_EQ(failures_of_all(server.unix_url(kDocumentedLogin)), 0U);
}

TEST(RedisLeastRights, NoneIsTooMany) {
  for (const std::string& command : commands_of(documented_user(0))) {
    // For speed only: without them saqiya sends EVAL, and reads one key at a time.
    const bool spare = command == "+evalsha" || command == "+mget" || command == "+exists";
    ServerOptions options;
    options.acl = documented_acl(0);
    options.acl[1] += " -" + command.substr(1);
    RedisServer server(options);
    EXPECT_EQ(failures_of_all(server.url(kDocumentedLogin)) == 0, spare) << command;
  }
}

// Makes the documentation's n-th user on a running server.
void make_user(Client plain, std::size_t n, std::string_view more = {}) {
  std::istringstream line(documented_user(n) + " " + std::string(more));
  std::vector<std::string> words = {"ACL", "SETUSER"};
  std::string word;
  line >> word;  // "user"
  while (line >> word) words.push_back(word);
  ASSERT_EQ(plain(words).text, "OK");
}

TEST(RedisLeastRights, OfSentinelsAndTheirServers) {
  Sentinels sentinels;
  for (std::size_t i = 0; i < sentinels.servers(); ++i) {
    make_user(sentinels.server(i).client(), 0, "+role");
  }
  for (std::size_t i = 0; i < sentinels.sentinels(); ++i) {
    make_user(sentinels.sentinel_client(i), 1);
    // Whoever comes without a name gets nothing.
    ASSERT_EQ(sentinels.sentinel_client(i).text({"ACL", "SETUSER", "default", "on", ">other"}),
              "OK");
  }
  EXPECT_EQ(failures_of_all(
                sentinels.url(kDocumentedLogin, "?sentinel_user=saqiya&sentinel_password=secret")),
            0U);
}

// A cluster of which the slot of {u} is on its way: what is not there yet is asked for at the new
// owner. That serves no more than one new key at a time until the move is over, so several rules
// are asked of a subject in a slot that stays.
class RedisLeastRightsOfACluster : public ::testing::Test {
 protected:
  RedisLeastRightsOfACluster() : cluster_({.masters = 2, .replicas = 0, .acl = documented_acl(2)}) {
    const int slot = cluster_.slot_of("{u}");
    to_ = 1 - cluster_.master_of(slot);
    cluster_.begin_migration(slot, to_);
  }

  std::uint64_t failures(Micros deadline = patient().deadline) const {
    return failures_of_all(cluster_.url(kDocumentedLogin), "stays", deadline);
  }

  Cluster cluster_;
  std::size_t to_ = 0;
};

TEST_F(RedisLeastRightsOfACluster, TheDocumentedOnesAreEnough) {
  EXPECT_EQ(failures(), 0U);
  EXPECT_THAT(cluster_.node(to_).client().info("cmdstat_asking"), ::testing::StartsWith("calls="));
  for (std::size_t i = 0; i < cluster_.nodes(); ++i) {
    cluster_.node(i).client()({"SCRIPT", "FLUSH"});
  }
  EXPECT_EQ(failures(), 0U);
}

TEST_F(RedisLeastRightsOfACluster, NoneIsTooMany) {
  for (const std::string& command : commands_of(documented_user(2))) {
    SCOPED_TRACE(command);
    const auto set = [&](const std::string& rule) {
      for (std::size_t i = 0; i < cluster_.nodes(); ++i) {
        ASSERT_EQ(cluster_.node(i).client().text({"ACL", "SETUSER", "saqiya", rule}), "OK");
      }
    };
    const bool spare = command == "+evalsha" || command == "+mget" || command == "+exists";
    set("-" + command.substr(1));
    // What only a slot that moves needs fails at its deadline.
    EXPECT_EQ(failures(spare ? patient().deadline : 300'000) == 0, spare);
    set(command);
  }
}

// What the map of slots and a slot on its way need is told as any other missing right.
TEST_F(RedisLeastRightsOfACluster, AMissingRightIsAReason) {
  for (const std::string right : {"cluster|slots", "asking", "get"}) {
    SCOPED_TRACE(right);
    for (std::size_t i = 0; i < cluster_.nodes(); ++i) {
      cluster_.node(i).client()({"ACL", "SETUSER", "saqiya", "-" + right});
    }
    const auto store = open(cluster_.url(kDocumentedLogin), patient());
    EXPECT_EQ(reason(check(*make_limiter(store, "9/h", "p"), "u")), Reason::kPermission);
    Event event;
    ASSERT_TRUE(store->next_event(&event));
    EXPECT_EQ(event.reason, Reason::kPermission);
    for (std::size_t i = 0; i < cluster_.nodes(); ++i) {
      cluster_.node(i).client()({"ACL", "SETUSER", "saqiya", "+" + right});
    }
  }
}

}  // namespace
}  // namespace saqiya::testing

// C130, C131: forks of a parent that is connected through sentinels or to a cluster, or that is
// asking for a name. Children find servers of their own; the parent's connections go on.
#include <thread>

#include "tests/redis/child.h"
#include "tests/redis/cluster.h"
#include "tests/redis/fixture.h"
#include "tests/redis/name_server.h"
#include "tests/redis/sentinels.h"

namespace saqiya::testing {
namespace {

constexpr int kBurst = 100'000;
constexpr int kChildren = 4;

// A thread's and a queue's checks of 100 subjects; the cost is a nonce that shows whose answer it
// is in what remains. 0, or which of them went wrong.
int ask_of_both(const Limiter& limiter, Queue& queue, int nonce) {
  for (int i = 1; i <= 100; ++i) {
    const std::string subject = std::to_string(nonce) + ":" + std::to_string(i);
    if (ask(check(limiter, subject, nonce)).decision.remaining != kBurst - nonce) return 1;
    queue.submit(check(limiter, subject, nonce), static_cast<std::uint64_t>(i));
    const auto all = collect(queue, 1);
    if (all.size() != 1 || all[0].user_data != static_cast<std::uint64_t>(i)) return 2;
    if (all[0].decision.remaining != kBurst - 2 * nonce) return 3;
  }
  return 0;
}

// Children and the parent at once, after the parent has connected to all there is.
void expect_children_of_their_own(const std::string& url) {
  const auto store = open(url, patient());
  const auto limiter = make_limiter(store, "1/h burst " + std::to_string(kBurst), "f");
  const auto queue = open_queue(store);
  ASSERT_EQ(ask_of_both(*limiter, *queue, 10), 0);
  const std::uint64_t connects = store->stats().connects;
  std::vector<pid_t> children;
  for (int i = 0; i < kChildren; ++i) {
    children.push_back(in_child([&] { return ask_of_both(*limiter, *queue, 20 + i); }));
  }
  EXPECT_EQ(ask_of_both(*limiter, *queue, 11), 0);
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
  EXPECT_EQ(ask_of_both(*limiter, *queue, 12), 0);
  EXPECT_EQ(store->stats().connects, connects) << "the parent's did not go on";
  EXPECT_EQ(store->stats().failures, 0U);
}

TEST(RedisForkTopology, ThroughSentinels) {
  Sentinels sentinels;
  expect_children_of_their_own(sentinels.url());
}

TEST(RedisForkTopology, OfACluster) {
  Cluster cluster({.masters = 3, .replicas = 0});
  expect_children_of_their_own(cluster.url());
}

// What the parent knows when it forks is out of date when the child asks.
TEST(RedisForkTopology, ChildrenFollowAFailover) {
  Sentinels sentinels;
  const auto store = open(sentinels.url(), patient());
  const auto limiter = make_limiter(store, "1/h burst 1000", "f");
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const pid_t child = in_child([&] {
    ::close(pipes[1]);
    char byte = 0;
    if (::read(pipes[0], &byte, 1) != 0) return 1;
    return ask_until_up(check(*limiter, "child")).remaining == 999 ? 0 : 2;
  });
  ::close(pipes[0]);
  const std::size_t master = sentinels.failover();
  EXPECT_NE(master, 0U);
  ::close(pipes[1]);
  EXPECT_EQ(exit_code(child), 0);
  EXPECT_THAT(sentinels.server(master).client().keys(),
              ::testing::Contains(::testing::HasSubstr("{child}")));
  EXPECT_EQ(ask_until_up(check(*limiter, "parent")).remaining, 999);
}

TEST(RedisForkTopology, AmidAQuestionForAName) {
  RedisServer server;
  NameServer names(true);
  const auto store = named_store(names, server.port(), patient().deadline);
  const auto limiter = make_limiter(store, "1/h burst 1000", "n");
  const auto queue = open_queue(store);
  queue->submit(check(*limiter, "parent"), 1);
  queue->process();
  std::thread waiting([&] { EXPECT_EQ(outcome(check(*limiter, "parent")), Outcome::kAllowed); });
  wait_until("both ask", [&] { return names.questions() >= 4; });  // for either kind of address
  std::vector<pid_t> children;
  for (int i = 0; i < kChildren; ++i) {
    children.push_back(in_child([&] {
      const std::string subject = "child" + std::to_string(i);
      if (ask(check(*limiter, subject)).decision.remaining != 999) return 1;
      queue->submit(check(*limiter, subject), 2);
      const auto all = collect(*queue, 1);
      if (all.size() != 1 || all[0].user_data != 2) return 2;
      return all[0].decision.remaining == 998 ? 0 : 3;
    }));
  }
  names.speak();
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
  waiting.join();
  const auto all = collect(*queue, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].user_data, 1U);
  EXPECT_EQ(all[0].decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(ask(peek(*limiter, "parent")).decision.remaining, 998);
  EXPECT_EQ(store->stats().connects, 2U);
}

}  // namespace
}  // namespace saqiya::testing

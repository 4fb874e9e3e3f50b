// A cluster's servers that stand still, their connections open.
#include <atomic>
#include <thread>

#include "tests/redis/cluster.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;

// C60, C61: one server stands still. Who needs it waits no longer than the deadline, at first, and
// then not at all; who does not is served.
TEST(RedisClusterSilence, ASilentMasterDelaysNobodyElse) {
  Cluster cluster({.masters = 3, .replicas = 0, .node_timeout = 60'000});
  StoreOptions options;
  options.deadline = 200'000;
  const auto store = open(cluster.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 100000", "silent");
  const std::vector<std::string> subjects = cluster.a_subject_of_each();
  for (const std::string& s : subjects) ASSERT_EQ(outcome(check(*limiter, s)), Outcome::kAllowed);
  cluster.node(1).stop();
  EXPECT_EQ(reason(check(*limiter, subjects[1])), Reason::kTimeout);
  const Micros start = system_monotonic();
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(outcome(check(*limiter, subjects[1])), Outcome::kUnavailable);
    EXPECT_EQ(outcome(check(*limiter, subjects[0])), Outcome::kAllowed);
    EXPECT_EQ(outcome(check(*limiter, subjects[2])), Outcome::kAllowed);
  }
  // Had they waited it would be 40 seconds.
  EXPECT_LT(system_monotonic() - start, 10 * kSecond);
  cluster.node(1).go_on();
  EXPECT_EQ(ask_until_up(check(*limiter, subjects[1])).outcome, Outcome::kAllowed);
}

// C61: six servers that stand still cost one deadline, not one each, whether they were known before
// or are asked for their slots.
TEST(RedisClusterSilence, SilentNodesCostOneDeadline) {
  Cluster cluster({.masters = 3, .replicas = 1, .node_timeout = 60'000});
  StoreOptions options;
  options.deadline = 200'000;
  const auto limiter = make_limiter(open(cluster.url(), options), "1/h burst 100000", "known");
  const auto other = make_limiter(open(cluster.url(), options), "1/h burst 100000", "unknown");
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(outcome(check(*limiter, "u" + std::to_string(i))), Outcome::kAllowed);
  }
  for (std::size_t i = 0; i < cluster.nodes(); ++i) {
    cluster.node(i).stop();
  }
  for (int i = 0; i < 100; ++i) {
    for (const Limiter* asked : {limiter.get(), other.get()}) {
      const Micros start = system_monotonic();
      EXPECT_EQ(outcome(check(*asked, "u" + std::to_string(i))), Outcome::kUnavailable);
      EXPECT_LT(system_monotonic() - start, kSecond);
    }
  }
  for (std::size_t i = 0; i < cluster.nodes(); ++i) {
    cluster.node(i).go_on();
  }
  EXPECT_EQ(ask_until_up(check(*limiter, "u0")).outcome, Outcome::kAllowed);
  EXPECT_EQ(ask_until_up(check(*other, "u0")).outcome, Outcome::kAllowed);
}

// C60: a master stands still and its replica takes over, under load. Who needs other slots is
// always served; who needs its slots is when there is a master for them, and when the old one goes
// on.
TEST(RedisClusterSilence, ASilentMasterIsReplaced) {
  Cluster cluster({.masters = 3, .replicas = 1});
  StoreOptions options;
  options.deadline = 200'000;
  const auto store = open(cluster.url(), options);
  const auto limiter = make_limiter(store, "100/h burst 1000000", "replaced");
  // On a busy machine 200 ms may pass for no reason.
  const auto calm = make_limiter(store, "100/h burst 1000000", "replaced", 10 * kSecond);
  const std::vector<std::string> subjects = cluster.a_subject_of_each();
  for (const std::string& s : subjects) ASSERT_EQ(outcome(check(*calm, s)), Outcome::kAllowed);
  std::atomic<bool> stop{false};
  std::atomic<int> served{0};
  std::atomic<int> refused{0};
  std::atomic<Micros> slowest{0};
  std::vector<std::thread> threads;
  for (const std::size_t master : {0U, 2U, 0U, 2U}) {
    threads.emplace_back([&, master] {
      while (!stop) {
        const Micros start = system_monotonic();
        ++(outcome(check(*calm, subjects[master])) == Outcome::kAllowed ? served : refused);
        const Micros took = system_monotonic() - start;
        if (took > slowest) slowest = took;
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
  }
  cluster.node(1).stop();
  EXPECT_EQ(outcome(check(*limiter, subjects[1])), Outcome::kUnavailable);
  const Micros give_up = system_monotonic() + 30 * kSecond;
  Decision d;
  do {
    const int before = served;
    d = ask(check(*limiter, subjects[1])).decision;
    wait_until("the others are served", [&] { return served > before + 4; });
  } while (d.outcome == Outcome::kUnavailable && system_monotonic() < give_up);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(outcome(check(*calm, subjects[1])), Outcome::kAllowed);
  }
  cluster.node(1).go_on();  // and learns that it is a replica
  cluster.wait_until_ok();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(outcome(check(*calm, subjects[1])), Outcome::kAllowed);
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(refused, 0);
  EXPECT_LT(slowest, 5 * kSecond) << "they waited for the silent one";
}

}  // namespace
}  // namespace saqiya::testing

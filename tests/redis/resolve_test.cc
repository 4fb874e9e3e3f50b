// Host names, by a name server of the test's own.
#include <poll.h>

#include "tests/redis/black_hole.h"
#include "tests/redis/fixture.h"
#include "tests/redis/name_server.h"

namespace saqiya::testing {
namespace {

TEST(RedisResolve, NamesAreAskedForWithoutWaiting) {
  RedisServer server;
  NameServer names(false);
  const auto store = named_store(names, server.port(), 20 * kMicrosPerSecond);
  const auto limiter = make_limiter(store, "9/h");
  EXPECT_EQ(names.questions(), 0);
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 8);
  EXPECT_GT(names.questions(), 0);
  // And through a queue, driven as an event loop does it.
  auto queue = open_queue(store);
  queue->submit(check(*limiter, "u"), 1);
  std::vector<Completion> done(1);
  const Micros give_up = system_monotonic() + 20 * kMicrosPerSecond;
  while (queue->drain(done) == 0 && system_monotonic() < give_up) {
    queue->process();
    const Micros due = queue->timeout();
    pollfd p{queue->fd(), POLLIN, 0};
    ::poll(&p, 1, due < 0 ? 1000 : static_cast<int>(due / 1000));
  }
  EXPECT_EQ(done[0].decision.remaining, 7);
}

// C62: a name server that never answers costs the deadline, and is asked again later.
TEST(RedisResolve, ASilentNameServerCostsTheDeadline) {
  RedisServer server;
  NameServer names(true);
  const auto store = named_store(names, server.port(), 50'000);
  const auto limiter = make_limiter(store, "9/h");
  const Micros start = system_monotonic();
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kResolve);
  EXPECT_GE(system_monotonic() - start, 50'000);
  EXPECT_LT(system_monotonic() - start, kMicrosPerSecond);  // c-ares asks for 2 s and longer
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kResolve);
  {
    auto queue = open_queue(store);
    queue->submit(check(*limiter, "u"), 1);
    queue->process();
    // Closing amid the question is safe.
  }
  names.speak();
  const Micros give_up = system_monotonic() + 30 * kMicrosPerSecond;
  Decision d;
  do {
    d = ask(check(*limiter, "u")).decision;
  } while (d.outcome == Outcome::kUnavailable && system_monotonic() < give_up);
  EXPECT_EQ(d.remaining, 8);
}

// C57: the master becomes a replica, and its name is given to another server: the connection is
// left, the name asked for anew.
TEST(RedisResolve, ANameThatWasRepointedIsFollowed) {
  RedisServer old;
  RedisServer fresh({"--port", std::to_string(old.port()), "--bind", "127.0.0.2"});
  NameServer names(false);
  const auto store = named_store(names, old.port(), 20 * kMicrosPerSecond);
  const auto limiter = make_limiter(store, "9/h");
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 8);
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 7);
  names.point_to(2);
  old.client()({"REPLICAOF", "127.0.0.2", std::to_string(old.port())});
  wait_until("the other server counts",
             [&] { return ask(check(*limiter, "u")).decision.remaining == 8; });
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 7);
  EXPECT_EQ(fresh.client().keys().size(), 1U);
}

// One refuses.
TEST(RedisResolve, ADeadAddressAmongGoodOnesIsPassedOver) {
  RedisServer server;  // on 127.0.0.1 only
  NameServer names(false);
  names.point_to({2, 3, 1});
  const auto store = named_store(names, server.port(), 20 * kMicrosPerSecond);
  EXPECT_EQ(outcome(check(*make_limiter(store, "2/h"), "u")), Outcome::kAllowed);
  EXPECT_EQ(store->stats().failures, 0U);
}

// One takes no connection, and does not say so: it costs its share of the time, and the next one is
// tried.
TEST(RedisResolve, ASilentAddressAmongGoodOnesIsPassedOver) {
  const BlackHole hole("127.0.0.2");
  RedisServer server({"--port", std::to_string(hole.port())});
  NameServer names(false);
  names.point_to({2, 1});
  constexpr Micros kDeadline = 2 * kMicrosPerSecond;
  const auto store = named_store(names, hole.port(), kDeadline);
  const auto limiter = make_limiter(store, "2/h");
  const Micros start = system_monotonic();
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  EXPECT_GE(system_monotonic() - start, kDeadline / 4) << "the silent one was not tried";
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  EXPECT_EQ(store->stats().failures, 0U);
  EXPECT_EQ(store->stats().connects, 1U);
}

}  // namespace
}  // namespace saqiya::testing

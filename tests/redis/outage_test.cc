// Servers that are down, restart, forget scripts, stand still or vanish.
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"
#include "tests/redis/proxy.h"

namespace saqiya::testing {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;

// Asks until the store answers; the last answer.
Decision ask_until_up(const Request& request) {
  const Micros give_up = system_monotonic() + 30 * kSecond;
  Decision d;
  do {
    d = ask(request).decision;
  } while (d.outcome == Outcome::kUnavailable && system_monotonic() < give_up);
  return d;
}

// C44: an app starts while its server is down, and limits as soon as it is there.
TEST(RedisOutage, TheServerMayStartLater) {
  RedisServer server({}, false);
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "2/h");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(reason(check(*limiter, "u")), Reason::kConnect);
  const auto local = make_limiter(open(server.unix_url(), patient()), "2/h");
  EXPECT_EQ(reason(check(*local, "u")), Reason::kConnect);
  server.start();
  EXPECT_EQ(ask_until_up(check(*limiter, "u")).remaining, 1);
  EXPECT_EQ(ask_until_up(check(*local, "u")).remaining, 0);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kDenied);
}

TEST(RedisOutage, UnresolvableNamesEndWithinTheDeadline) {
  StoreOptions options;
  options.deadline = 100'000;
  const auto store = open("redis://no-such-host.invalid", options);
  const auto limiter = make_limiter(store, "2/h");
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kResolve);
  auto queue = open_queue(store);
  queue->submit(check(*limiter, "u"), 1);
  const auto all = collect(*queue, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].decision.reason, Reason::kResolve);
}

// C55: restart.
TEST(RedisOutage, ARestartCostsOnlyWhatWasOnTheWire) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "9/h");
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  for (int i = 0; i < 3; ++i) {
    server.kill();
    server.start();
    // The first one finds the old connection closed before it writes, and takes a new one.
    EXPECT_EQ(ask(check(*limiter, "u")).decision.outcome, Outcome::kAllowed) << i;
  }
}

// C55: a script that is forgotten again and again costs round trips, no decision.
TEST(RedisOutage, ForgottenScriptsAreSentAgain) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "1/h burst 300000");
  std::atomic<bool> stop{false};
  std::thread flusher([&] {
    Client plain = server.client();
    while (!stop) {
      plain({"SCRIPT", "FLUSH"});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  auto queue = open_queue(store);
  std::size_t allowed = 0;
  for (int round = 0; round < 200; ++round) {
    for (std::uint64_t i = 0; i < 500; ++i) queue->submit(check(*limiter, "u"), i);
    for (const Completion& c : collect(*queue, 500)) {
      allowed += c.decision.outcome == Outcome::kAllowed ? 1 : 0;
    }
  }
  for (int i = 0; i < 200; ++i) {
    allowed += outcome(check(*limiter, "u")) == Outcome::kAllowed ? 1 : 0;
  }
  stop = true;
  flusher.join();
  EXPECT_EQ(allowed, 100'200U);
  EXPECT_EQ(ask(peek(*limiter, "u")).decision.remaining, 300'000 - 100'200);
  EXPECT_THAT(server.client().info("cmdstat_eval"), ::testing::StartsWith("calls="));
}

// C64: replies that come too late meet no request of theirs.
TEST(RedisOutage, LateRepliesAnswerNobody) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  StoreOptions impatient;
  impatient.deadline = 100'000;
  const auto hasty_store = open(server.url(), impatient);
  const auto limiter = make_limiter(hasty_store, "1/h burst 100000", "n");
  ASSERT_EQ(outcome(check(*limiter, "warm")), Outcome::kAllowed);
  std::thread sleeper([&] { server.client()({"DEBUG", "SLEEP", "1"}); });
  Decision d;
  const Micros give_up = system_monotonic() + 20 * kSecond;
  do {
    d = ask(check(*limiter, "warm")).decision;
  } while (d.outcome != Outcome::kUnavailable && system_monotonic() < give_up);
  EXPECT_EQ(d.reason, Reason::kTimeout);
  sleeper.join();
  // Each key is asked with a cost of its own, so that an answer tells whose it is.
  const auto calm = make_limiter(hasty_store, "1/h burst 100000", "n", 20 * kSecond);
  ask_until_up(check(*calm, "warm"));
  for (int i = 1; i <= 1000; ++i) {
    const Decision answer = ask(check(*calm, "key" + std::to_string(i), i)).decision;
    ASSERT_EQ(answer.outcome, Outcome::kAllowed);
    ASSERT_EQ(answer.remaining, 100'000 - i);
  }
}

TEST(RedisOutage, APausedServerIsATimeout) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto calm = make_limiter(store, "9/h", "p");
  ASSERT_EQ(outcome(check(*calm, "u")), Outcome::kAllowed);
  const auto hasty = make_limiter(store, "9/h", "p", 50'000);
  server.client()({"CLIENT", "PAUSE", "400"});
  const Micros start = system_monotonic();
  EXPECT_EQ(reason(check(*hasty, "u")), Reason::kTimeout);
  EXPECT_GE(system_monotonic() - start, 50'000);
  EXPECT_LE(ask_until_up(check(*calm, "u")).remaining, 7);
}

// C46: with every connection taken, a caller waits until its deadline and no longer.
TEST(RedisOutage, WaitingForAConnectionEndsAtTheDeadline) {
  FakeServer silent([](const Command&) { return stay_silent(); });
  StoreOptions options = patient();
  options.connections = 1;
  const auto store = open(silent.url(), options);
  const auto holder = make_limiter(store, "9/h", "", 2 * kSecond);
  const auto hasty = make_limiter(store, "9/h", "", 50'000);
  std::thread holding([&] { EXPECT_EQ(reason(check(*holder, "u")), Reason::kTimeout); });
  while (silent.commands().size() < 2) std::this_thread::yield();
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) {
    threads.emplace_back([&] {
      const Micros start = system_monotonic();
      EXPECT_EQ(reason(check(*hasty, "u")), Reason::kBusy);
      EXPECT_GE(system_monotonic() - start, 50'000);
    });
  }
  for (std::thread& t : threads) t.join();
  holding.join();
}

// C65: the host's signal handlers are its own, and SIGPIPE stays deadly.
TEST(RedisOutageDeathTest, AClosedSocketRaisesNoSignal) {
  RedisServer server;
  for (const std::string& url : {server.url(), server.unix_url()}) {
    Proxy proxy(server.socket_path());
    const auto store = open(url == server.url() ? proxy.url() : url, patient());
    const auto limiter = make_limiter(store, "1/h burst 100000");
    struct sigaction before {};
    ASSERT_EQ(sigaction(SIGPIPE, nullptr, &before), 0);
    ASSERT_EQ(before.sa_handler, SIG_DFL);
    auto queue = open_queue(store);
    for (int round = 0; round < 50; ++round) {
      for (std::uint64_t i = 0; i < 256; ++i) {
        queue->submit(check(*limiter, "u" + std::to_string(i)), i);
        if (i == 100) {
          proxy.cut_all();
          server.client()({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
        }
      }
      EXPECT_EQ(collect(*queue, queue->pending()).size(), 256U);
    }
    struct sigaction after {};
    ASSERT_EQ(sigaction(SIGPIPE, nullptr, &after), 0);
    EXPECT_EQ(after.sa_handler, SIG_DFL);
  }
}

// C66: connections are killed, queues closed and requests cancelled at random; every request that
// was not cancelled completes exactly once.
TEST(RedisOutage, SoakOfRandomEvents) {
  RedisServer server;
  Proxy proxy(server.socket_path());
  const auto store = open(proxy.url(), patient());
  const auto whole = make_limiter(store, "5/s burst 50");
  const auto thirds = make_limiter(store, "3/s burst 50");
  std::uint32_t x = 3;
  const auto random = [&x](std::uint32_t below) {
    x = x * 1664525 + 1013904223;
    return (x >> 8) % below;
  };
  QueueOptions options;
  options.capacity = 300;
  options.batch = 8;
  options.in_flight = 3;
  auto queue = open_queue(store, options);
  std::vector<int> state;  // of each request: 0 open, 1 done, 2 cancelled
  std::size_t open_count = 0;
  std::vector<Completion> some(32);
  Ticket ticket;
  Client plain = server.client();
  const auto take = [&] {
    const std::size_t got = queue->drain(some);
    for (std::size_t i = 0; i < got; ++i) {
      ASSERT_EQ(state[some[i].user_data], 0) << some[i].user_data;
      state[some[i].user_data] = 1;
      --open_count;
      if (some[i].ticket.n != 0) ticket = some[i].ticket;
    }
  };
  for (int event = 0; event < 100'000; ++event) {
    switch (random(40)) {
      case 0:
        proxy.cut_all();
        break;
      case 1:
        proxy.cut_next_after(1 + random(5000), Proxy::kNoLimit);
        break;
      case 2:
        proxy.cut_next_after(Proxy::kNoLimit, 1 + random(2000));
        break;
      case 3:
        if (random(10) == 0) plain({"SCRIPT", "FLUSH"});
        break;
      case 4:
        if (random(20) == 0) {
          queue->close();
          while (queue->pending() > 0) take();
          ASSERT_EQ(open_count, 0U);
          queue = open_queue(store, options);
        }
        break;
      case 5:
      case 6:
      case 7:
        if (!state.empty()) {
          const std::size_t which =
              state.size() - 1 -
              random(std::min<std::uint32_t>(50, static_cast<std::uint32_t>(state.size())));
          const bool was_open = state[which] == 0;
          // A completion that waits to be drained can no longer be cancelled.
          if (queue->cancel(which)) {
            ASSERT_TRUE(was_open);
            state[which] = 2;
            --open_count;
          }
        }
        break;
      case 8:
      case 9:
      case 10:
      case 11:
      case 12:
      case 13:
        queue->process();
        break;
      case 14:
      case 15:
      case 16:
        take();
        break;
      case 17:
        queue->wait(1000);
        break;
      default: {
        const Limiter& limiter = random(2) == 0 ? *whole : *thirds;
        const std::string key = std::to_string(random(20));
        Request request = check(limiter, key, random(3), random(2) * 1000);
        if (random(8) == 0) request = refund(limiter, key, ticket);
        if (random(20) == 0) request = reset(limiter, key);
        const SubmitResult result = queue->submit(request, state.size());
        if (result == SubmitResult::kOk) {
          state.push_back(0);
          ++open_count;
        } else {
          ASSERT_EQ(result, SubmitResult::kFull);
          queue->process();
          take();
        }
      }
    }
    ASSERT_EQ(queue->pending(), open_count);
  }
  const Micros give_up = system_monotonic() + 30 * kSecond;
  while (open_count > 0 && system_monotonic() < give_up) {
    queue->process();
    take();
    queue->wait(10'000);
  }
  EXPECT_EQ(open_count, 0U);
  EXPECT_EQ(queue->pending(), 0U);
  for (const std::string& key : plain.keys()) EXPECT_NE(plain.number({"PTTL", key}), -1) << key;
}

}  // namespace
}  // namespace saqiya::testing

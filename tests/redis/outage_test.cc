// Servers that are down, restart, forget scripts, stand still or vanish.
#include <poll.h>

#include <atomic>
#include <thread>

#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"
#include "tests/redis/proxy.h"

namespace saqiya::testing {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;

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

// C53: where requests are few the first that comes after its return finds it.
TEST(RedisOutage, TheFirstThatComesLaterIsServed) {
  RedisServer server({}, false);
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "9/h");
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kConnect);
  server.start();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the first pause is 10 ms at most
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
}

// C53: also when the attempt before was left half-way, since nobody came while it was under way.
TEST(RedisOutage, AnAttemptThatNobodySawToItsEndIsMadeAnew) {
  RedisServer server;
  StoreOptions options;
  options.deadline = 400'000;
  const auto store = open(server.url(), options);
  const auto limiter = make_limiter(store, "9/h");
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  server.stop();
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kTimeout);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kUnavailable);  // begins one
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  server.go_on();
  const auto calm = make_limiter(store, "9/h", "calm", patient().deadline);
  EXPECT_EQ(outcome(check(*calm, "u")), Outcome::kAllowed);
}

// Who begins an attempt waits for a part of the request's own deadline, not of the store's.
TEST(RedisOutage, ALimitersOwnDeadlineCountsForAttempts) {
  RedisServer server;
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "9/h", "own", 20'000);
  ask_until_up(check(*limiter, "u"));
  server.stop();
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kUnavailable);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const Micros start = system_monotonic();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kUnavailable);
  EXPECT_LT(system_monotonic() - start, 2 * kSecond);  // a quarter of the store's is five seconds
  server.go_on();
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

// The number of an INFO field that is a list of "name=number".
std::uint64_t count_in(const std::string& info, const std::string& name) {
  const std::size_t at = info.find(name + "=");
  return at == std::string::npos ? 0 : std::stoull(info.substr(at + name.size() + 1));
}

// C55: a script that is forgotten again and again costs no decision, and each time one round trip
// more: what was refused for want of the script is sent once again, with it.
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
  Client plain = server.client();
  const std::uint64_t forgotten = count_in(plain.info("errorstat_NOSCRIPT"), "count");
  const std::uint64_t with_script = count_in(plain.info("cmdstat_eval"), "calls");
  const std::uint64_t calls = with_script + count_in(plain.info("cmdstat_evalsha"), "calls");
  const StoreStats stats = store->stats();
  EXPECT_GT(with_script, 0U);
  // Each connection begins with a call that may find no script, and is not repeated.
  EXPECT_LE(with_script, forgotten);
  EXPECT_GE(with_script + stats.connects, forgotten);
  EXPECT_EQ(calls, stats.batches + stats.connects);
  EXPECT_LE(stats.requests, 2 * (100'200U + 1));
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
  const auto hasty = make_limiter(store, "9/h", "p", 150'000);
  server.client()({"CLIENT", "PAUSE", "1500"});
  const Micros start = system_monotonic();
  EXPECT_EQ(reason(check(*hasty, "u")), Reason::kTimeout);
  EXPECT_GE(system_monotonic() - start, 150'000);
  EXPECT_LT(system_monotonic() - start, 1'000'000);
  EXPECT_LE(ask_until_up(check(*calm, "u")).remaining, 7);
}

// C46: behind others on a connection that says nothing, a caller waits until its deadline and no
// longer. What is on the wire by then may have been done, the rest was not.
TEST(RedisOutage, WaitingBehindOthersEndsAtTheDeadline) {
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
      EXPECT_THAT(reason(check(*hasty, "u")), ::testing::AnyOf(Reason::kTimeout, Reason::kBusy));
      EXPECT_GE(system_monotonic() - start, 50'000);
      EXPECT_LT(system_monotonic() - start, kSecond) << "it waited for the one before it";
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
    ASSERT_TRUE(sigpipe_is_deadly());
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
    EXPECT_TRUE(sigpipe_is_deadly());
  }
}

}  // namespace
}  // namespace saqiya::testing

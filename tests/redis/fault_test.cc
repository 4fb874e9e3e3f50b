// Replies that are late, half, foreign or missing: each has a defined result, and no charge is ever
// sent twice.
#include <poll.h>

#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"
#include "tests/redis/proxy.h"

namespace saqiya::testing {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;
constexpr std::int64_t kNow = 1'700'000'000'000'000;

// "5/s" with one token taken: over = 200,000 - 1,000,000.
const std::string kGood = batch_reply(kNow, {-800'000});

Decision ask_once(const std::string& url, Micros deadline = 20 * kSecond) {
  StoreOptions options;
  options.deadline = deadline;
  return ask(check(*make_limiter(open(url, options), "5/s"), "u")).decision;
}

TEST(RedisFault, TheFakeServerIsUnderstood) {
  FakeServer server([](const Command&) { return say(kGood); });
  const Decision d = ask_once(server.url());
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 4);
  const auto commands = server.commands();
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_EQ(commands[0][0], "SCRIPT");
  // EVALSHA sha 1 key '' 1 c inc bound: the common case has no argument to spare.
  ASSERT_EQ(commands[1].size(), 9U);
  EXPECT_EQ(commands[1][0], "EVALSHA");
  EXPECT_EQ(commands[1][4], "");
  EXPECT_EQ(commands[1][5], "1");
  EXPECT_EQ(commands[1][6], "c");
  EXPECT_EQ(commands[1][7], "200000");
  EXPECT_EQ(commands[1][8], "1000000");
}

TEST(RedisFault, RepliesMayComeInPieces) {
  Act act;
  for (const char c : kGood) act.pieces.push_back(std::string(1, c));
  FakeServer server([&](const Command&) { return act; });
  EXPECT_EQ(ask_once(server.url()).remaining, 4);
}

TEST(RedisFault, ForeignRepliesAreAProtocolFaultAndCloseTheConnection) {
  for (const std::string& reply :
       {std::string("garbage\r\n"),
        std::string("*2\r\n:1\r\n:x\r\n"),
        std::string("+OK\r\n"),
        std::string(":5\r\n"),
        std::string("$3\r\nabc\r\n"),
        std::string("$-1\r\n"),
        std::string("*0\r\n"),
        std::string("*-1\r\n"),
        std::string("*1\r\n:5\r\n"),
        std::string("*2\r\n$1\r\n5\r\n:1\r\n"),
        std::string("*3\r\n:5\r\n:1\r\n:1\r\n"),
        std::string("*2\r\n:5\r\n*1\r\n:1\r\n"),
        std::string("*2\r\n:5\r\n$1\r\n1\r\n"),
        std::string("*2\r\n:-5\r\n:1\r\n"),
        std::string("*2\r\n:9223372036854775807\r\n:1\r\n"),
        std::string("*2\r\n:5\r\n:9223372036854775807\r\n"),
        std::string("*2\r\n:5\r\n:99999999999999999999999\r\n"),
        std::string("HTTP/1.1 400\r\n\r\n"),
        std::string("*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n*9\r\n"),
        std::string("%1\r\n:1\r\n:1\r\n"),
        std::string("\0\0\0\0\r\n", 6),
        std::string("*2\r\n:5\r\n_\r\n"),
        std::string("-") + std::string(5000, 'x') + "\r\n"}) {
    FakeServer server([&](const Command&) { return say(reply); });
    StoreOptions options = patient();
    const auto limiter = make_limiter(open(server.url(), options), "5/s");
    const Decision d = ask(check(*limiter, "u")).decision;
    EXPECT_EQ(d.outcome, Outcome::kUnavailable) << reply.substr(0, 40);
    EXPECT_EQ(d.reason, Reason::kProtocol) << reply.substr(0, 40);
    EXPECT_EQ(server.commands().size(), 2U) << "a charge was sent again: " << reply.substr(0, 40);
  }
}

TEST(RedisFault, AReplyTooManyClosesTheConnection) {
  FakeServer server([](const Command&) { return say(kGood + kGood); });
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "5/s");
  auto queue = open_queue(store);
  queue->submit(check(*limiter, "u"), 1);
  auto all = collect(*queue, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].decision.outcome, Outcome::kAllowed);
  // The second one must not answer the next request.
  queue->submit(check(*limiter, "u"), 2);
  all = collect(*queue, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(server.connections(), 2);
}

TEST(RedisFault, EndlessRepliesAreCutOff) {
  // Announces more than it could ever mean, and goes on and on.
  FakeServer server([](const Command&) {
    Act act;
    act.pieces.push_back("*100000000\r\n");
    std::string numbers;
    for (int i = 0; i < 10'000; ++i) numbers += ":1\r\n";
    for (int i = 0; i < 5; ++i) act.pieces.push_back(numbers);
    return act;
  });
  EXPECT_EQ(ask_once(server.url()).reason, Reason::kProtocol);
}

TEST(RedisFault, ErrorsOfAWholeBatchAreClassified) {
  const std::vector<std::pair<std::string, Reason>> table = {
      {"LOADING Redis is loading the dataset in memory", Reason::kRefused},
      {"BUSY Redis is busy running a script", Reason::kRefused},
      {"MASTERDOWN Link with MASTER is down", Reason::kRefused},
      {"CLUSTERDOWN The cluster is down", Reason::kRefused},
      {"MOVED 866 127.0.0.1:7001", Reason::kRefused},
      {"ASK 866 127.0.0.1:7001", Reason::kRefused},
      {"TRYAGAIN Multiple keys request", Reason::kRefused},
      {"NOREPLICAS Not enough good replicas to write.", Reason::kRefused},
      {"MISCONF Redis is configured to save RDB snapshots", Reason::kRefused},
      {"ERR max number of clients reached", Reason::kRefused},
      {"NOAUTH Authentication required.", Reason::kAuth},
      {"WRONGPASS invalid username-password pair", Reason::kAuth},
      {"READONLY You can't write against a read only replica.", Reason::kReadOnly},
      {"OOM command not allowed when used memory > 'maxmemory'.", Reason::kServerMemory},
      {"NOPERM this user has no permissions to run the 'eval' command", Reason::kPermission},
      {"ERR The user executing the script can't run this command or subcommand",
       Reason::kPermission},
      {"ERR ACL failure in script: User app has no permissions to run the 'set' command",
       Reason::kPermission},
      {"ERR unknown command", Reason::kProtocol},
      {"", Reason::kProtocol}};
  for (const auto& [text, reason] : table) {
    FakeServer server([&line = text](const Command&) { return say("-" + line + "\r\n"); });
    const Decision d = ask_once(server.url());
    EXPECT_EQ(d.outcome, Outcome::kUnavailable) << text;
    EXPECT_EQ(d.reason, reason) << text;
    EXPECT_EQ(d.limit, 0);
    EXPECT_EQ(server.commands().size(), 2U) << text;
  }
}

TEST(RedisFault, HandshakeErrorsAreClassified) {
  const std::vector<std::pair<std::string, Reason>> table = {
      {"-LOADING Redis is loading the dataset in memory\r\n", Reason::kRefused},
      {"-ERR max number of clients reached\r\n", Reason::kRefused},
      {"-NOAUTH Authentication required.\r\n", Reason::kAuth},
      {"HTTP/1.1 400 Bad Request\r\n\r\n", Reason::kProtocol}};
  for (const auto& [reply, reason] : table) {
    FakeServer server([](const Command&) { return say(kGood); },
                      [&bytes = reply](const Command&) { return say(bytes); });
    EXPECT_EQ(ask_once(server.url()).reason, reason) << reply;
  }
  // A refused database is a refusal, and no batch follows it into database 0.
  FakeServer server([](const Command&) { return say(kGood); },
                    [](const Command& command) {
                      return command[0] == "SELECT" ? say("-ERR DB index is out of range\r\n")
                                                    : say("+OK\r\n");
                    });
  EXPECT_EQ(ask_once(server.url("", "/7")).reason, Reason::kAuth);
  for (const Command& command : server.commands()) EXPECT_NE(command[0], "EVALSHA");
}

TEST(RedisFault, AHandshakeOverLongerThanTheDeadlineIsNoConnection) {
  FakeServer server([](const Command&) { return say(kGood); },
                    [](const Command&) { return stay_silent(); });
  const Decision d = ask_once(server.url(), 50'000);
  EXPECT_EQ(d.reason, Reason::kConnect);
  for (const Command& command : server.commands()) EXPECT_NE(command[0], "EVALSHA");
}

TEST(RedisFault, SilenceEndsAtTheDeadlineAndClosesTheConnection) {
  int batches = 0;
  FakeServer server([&](const Command&) { return ++batches == 2 ? stay_silent() : say(kGood); });
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "5/s");
  const auto hasty = make_limiter(store, "5/s", "", 150'000);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  const Micros start = system_monotonic();
  EXPECT_EQ(reason(check(*hasty, "u")), Reason::kTimeout);
  EXPECT_GE(system_monotonic() - start, 150'000);
  // The breaker is open until a new connection is answered, and nobody waits for that.
  const Micros give_up = system_monotonic() + 20 * kSecond;
  while (outcome(check(*limiter, "u")) != Outcome::kAllowed && system_monotonic() < give_up) {
  }
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  EXPECT_EQ(server.connections(), 2);
}

TEST(RedisFault, ALimitersOwnDeadlineCounts) {
  FakeServer server([](const Command&) { return stay_silent(); });
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "5/s", "", 200'000);
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kTimeout);
}

TEST(RedisFault, EachRequestEndsAtItsOwnDeadline) {
  FakeServer server([](const Command&) { return stay_silent(); });
  const auto store = open(server.url(), patient());
  const auto hasty = make_limiter(store, "5/s", "hasty", 150'000);
  const auto calm = make_limiter(store, "5/s", "calm", 600'000);
  auto queue = open_queue(store);
  const Micros start = system_monotonic();
  queue->submit(check(*calm, "u"), 1);
  queue->submit(check(*hasty, "u"), 2);
  const auto first = collect(*queue, 1);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].user_data, 2U);
  EXPECT_EQ(first[0].decision.reason, Reason::kTimeout);
  const auto second = collect(*queue, 1);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].user_data, 1U);
  EXPECT_EQ(second[0].decision.reason, Reason::kTimeout);
  EXPECT_GE(system_monotonic() - start, 600'000);
}

TEST(RedisFault, AHangUpLosesWhatWasWritten) {
  FakeServer server([](const Command&) { return hang_up(); });
  const auto store = open(server.url(), patient());
  EXPECT_EQ(reason(check(*make_limiter(store, "5/s"), "u")), Reason::kLost);
  EXPECT_EQ(server.commands().size(), 2U);
}

TEST(RedisFault, RepliesBeforeAHangUpCount) {
  FakeServer server([](const Command&) { return Act{{kGood}, true}; });
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "5/s");
  auto queue = open_queue(store);
  // Each connection serves one batch; the next goes over a new one, at once.
  for (int i = 0; i < 20; ++i) {
    queue->submit(check(*limiter, "u"), 0);
    const auto all = collect(*queue, 1);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].decision.outcome, Outcome::kAllowed) << i;
    pollfd p{queue->fd(), POLLIN, 0};
    ::poll(&p, 1, 20'000);  // until the hang-up has arrived, if it has not been seen already
  }
  EXPECT_EQ(server.connections(), 20);
}

TEST(RedisFault, HalfAReplyThenAHangUpIsLost) {
  for (std::size_t cut = 1; cut < kGood.size(); ++cut) {
    FakeServer server([&](const Command&) { return Act{{kGood.substr(0, cut)}, true}; });
    EXPECT_EQ(ask_once(server.url()).reason, Reason::kLost) << cut;
    EXPECT_EQ(server.commands().size(), 2U);
  }
}

TEST(RedisFault, NoscriptIsAnsweredWithOneEval) {
  FakeServer server([](const Command& command) {
    return command[0] == "EVAL" ? say(kGood) : say("-NOSCRIPT No matching script.\r\n");
  });
  EXPECT_EQ(ask_once(server.url()).outcome, Outcome::kAllowed);
  const auto commands = server.commands();
  ASSERT_EQ(commands.size(), 3U);
  EXPECT_EQ(commands[1][0], "EVALSHA");
  EXPECT_EQ(commands[2][0], "EVAL");
  EXPECT_EQ(Command(commands[1].begin() + 2, commands[1].end()),
            Command(commands[2].begin() + 2, commands[2].end()));
  // And not with another, should that fail as well.
  FakeServer stubborn([](const Command&) { return say("-NOSCRIPT No matching script.\r\n"); });
  EXPECT_EQ(ask_once(stubborn.url()).outcome, Outcome::kUnavailable);
  EXPECT_EQ(stubborn.commands().size(), 3U);
}

TEST(RedisFault, BackOffFailsAtOnceWithTheReason) {
  FakeServer server([](const Command&) { return say(kGood); },
                    [](const Command&) { return say("-NOAUTH Authentication required.\r\n"); });
  const auto limiter = make_limiter(open(server.url(), patient()), "5/s");
  int asked = 0;
  const Micros end = system_monotonic() + 300'000;
  while (system_monotonic() < end) {
    ASSERT_EQ(reason(check(*limiter, "u")), Reason::kAuth);
    ++asked;
  }
  // 5 to 10, 10 to 20, 20 to 40 ms ... between the tries.
  EXPECT_LE(server.connections(), 8);
  EXPECT_GT(asked, 20 * server.connections());
}

class RedisProxyTest : public ::testing::Test {
 protected:
  RedisServer server_;
  Proxy proxy_{server_.socket_path()};
};

// C56: executed, but the reply is lost: charged once, unavailable, not sent again.
TEST_F(RedisProxyTest, ALostReplyIsNotRetried) {
  const auto store = open(proxy_.url(), patient());
  const auto limiter = make_limiter(store, "10/h", "l");
  ASSERT_EQ(outcome(check(*limiter, "warm")), Outcome::kAllowed);
  proxy_.drop_replies(true);
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kLost);
  proxy_.drop_replies(false);
  EXPECT_EQ(ask(peek(*limiter, "u")).decision.remaining, 9);
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 8);
}

// C56: refused before anything was written: tried again, charged once.
TEST_F(RedisProxyTest, AnIdleConnectionThatClosedCostsNothing) {
  const auto store = open(proxy_.url(), patient());
  const auto limiter = make_limiter(store, "10/h", "l");
  auto queue = open_queue(store);
  queue->submit(check(*limiter, "u"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  for (int i = 1; i < 10; ++i) {
    proxy_.cut_all();
    // Until the close has arrived.
    pollfd p{queue->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&p, 1, 20'000), 1);
    queue->submit(check(*limiter, "u"), 0);
    const auto all = collect(*queue, 1);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].decision.outcome, Outcome::kAllowed);
    EXPECT_EQ(all[0].decision.remaining, 9 - i);
  }
}

TEST_F(RedisProxyTest, RefusedConnectionsAreNotCharged) {
  const auto store = open(proxy_.url(), patient());
  const auto limiter = make_limiter(store, "10/h", "l");
  proxy_.refuse(true);
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kConnect);
  proxy_.refuse(false);
  const Micros give_up = system_monotonic() + 20 * kSecond;
  Decision d;
  do {
    d = ask(check(*limiter, "u")).decision;
  } while (d.outcome == Outcome::kUnavailable && system_monotonic() < give_up);
  EXPECT_EQ(d.remaining, 9);
}

// C1: whatever is cut when, no key is left without an expiry, and nothing is admitted twice.
TEST_F(RedisProxyTest, CutsAtRandomBytesLeaveNoKeyWithoutExpiry) {
  const auto store = open(proxy_.url(), patient());
  const auto limiter = make_limiter(store, "1/h burst 100000", "c1");
  auto queue = open_queue(store);
  std::uint32_t x = 7;
  const auto random = [&x](std::uint32_t below) {
    x = x * 1664525 + 1013904223;
    return (x >> 8) % below;
  };
  std::size_t done = 0;
  std::size_t allowed = 0;
  std::size_t unavailable_count = 0;
  std::uint64_t submitted = 0;
  while (done < 10'000) {
    const bool upstream = random(2) == 0;
    const std::int64_t bytes = 1 + random(20'000);
    proxy_.cut_next_after(upstream ? bytes : Proxy::kNoLimit, upstream ? Proxy::kNoLimit : bytes);
    for (int i = 0; i < 100; ++i) {
      queue->submit(check(*limiter, "k" + std::to_string(random(500))), submitted++);
    }
    const std::size_t open_now = queue->pending();
    for (const Completion& c : collect(*queue, open_now)) {
      ++done;
      allowed += c.decision.outcome == Outcome::kAllowed ? 1 : 0;
      unavailable_count += c.decision.outcome == Outcome::kUnavailable ? 1 : 0;
    }
  }
  proxy_.cut_next_after(Proxy::kNoLimit, Proxy::kNoLimit);
  EXPECT_EQ(done, submitted);
  EXPECT_EQ(allowed + unavailable_count, done);
  EXPECT_GT(unavailable_count, 0U);
  EXPECT_GT(allowed, 0U);
  Client plain = server_.client();
  std::int64_t charged = 0;
  for (const std::string& key : plain.keys()) {
    EXPECT_GT(plain.number({"PTTL", key}), 0) << key;
    const std::size_t from = key.find('{') + 1;
    const std::string subject = key.substr(from, key.find('}') - from);
    Decision d;
    while ((d = ask(peek(*limiter, subject)).decision).outcome == Outcome::kUnavailable) {
      ASSERT_EQ(d.reason, Reason::kConnect);  // the back-off of the last cut
    }
    charged += 100'000 - d.remaining;
  }
  // Nothing was charged twice, and what was told as allowed was charged.
  EXPECT_LE(charged, static_cast<std::int64_t>(done));
  EXPECT_GE(charged, static_cast<std::int64_t>(allowed));
}

constexpr std::string_view kReadOnly = "-READONLY You can't write against a read only replica.\r\n";

// C57: a server that became a replica did nothing, and a new connection may lead to the master.
TEST(RedisFault, WhatAReplicaRefusedGoesElsewhereOnce) {
  for (const bool whole : {true, false}) {
    SCOPED_TRACE(whole);
    const std::string refusal =
        (whole ? "" : "*2\r\n:" + std::to_string(kNow) + "\r\n") + std::string(kReadOnly);
    FakeServer moved(Script{{say(kGood), say(refusal)}, {say(kGood)}});
    const auto limiter = make_limiter(open(moved.url(), patient()), "5/s");
    ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
    EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
    EXPECT_EQ(moved.connections(), 2);

    FakeServer replica(Script{{say(kGood), say(refusal)}, {say(refusal)}});
    const auto other = make_limiter(open(replica.url(), patient()), "5/s");
    ASSERT_EQ(outcome(check(*other, "u")), Outcome::kAllowed);
    EXPECT_EQ(reason(check(*other, "u")), Reason::kReadOnly);
    EXPECT_EQ(replica.connections(), 2);
  }
}

// C76: a sentinel, or a server whose EVALSHA was taken away.
TEST(RedisFault, AServerWithoutTheCommandIsToldAtOnce) {
  FakeServer server(
      [](const Command&) { return say(kGood); },
      [](const Command& command) {
        return say("-ERR unknown command '" + command[0] + "', with args beginning with: 'x' \r\n");
      });
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "5/s");
  EXPECT_EQ(reason(check(*limiter, "ann")), Reason::kRefused);
  Event event;
  ASSERT_TRUE(store->next_event(&event));
  EXPECT_EQ(event.kind, Event::Kind::kOutage);
  EXPECT_THAT(std::string(event.message.data()), ::testing::HasSubstr("redis+sentinel://"));
}

// C74: the right that only a cluster needs.
TEST(RedisFault, AMapThatMayNotBeAskedForIsTold) {
  FakeServer server([](const Command&) { return say(kGood); },
                    [](const Command& command) {
                      if (command[0] == "CLUSTER") {
                        return say(
                            "-NOPERM User web has no permissions to run the "
                            "'cluster|slots' command\r\n");
                      }
                      return say("+OK\r\n");
                    });
  const std::string url = "redis+cluster://127.0.0.1:" + std::to_string(server.port());
  const auto store = open(url, patient());
  const auto limiter = make_limiter(store, "5/s");
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kPermission);
  Event event;
  ASSERT_TRUE(store->next_event(&event));
  EXPECT_EQ(event.kind, Event::Kind::kRefused);
  EXPECT_THAT(std::string(event.message.data()), ::testing::HasSubstr("cluster|slots"));
}

}  // namespace
}  // namespace saqiya::testing

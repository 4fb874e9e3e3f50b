// Decisions over a real server: what is stored, for how long, and what is answered.
#include "core/redis/store.h"

#include <cstdint>

#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;
constexpr Micros kStart = 1'700'000'000 * kSecond;

class RedisStoreTest : public ::testing::Test {
 protected:
  RedisServer server_;
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>(kStart);
};

TEST_F(RedisStoreTest, TwentyPassThenTheRestIsRefused) {
  const auto store = open(server_.url(), timed(clock_));
  const auto limiter = make_limiter(store, "5/s burst 20");
  for (int i = 0; i < 20; ++i) {
    const Decision d = ask(check(*limiter, "user")).decision;
    ASSERT_EQ(d.outcome, Outcome::kAllowed);
    EXPECT_EQ(d.limit, 20);
    EXPECT_EQ(d.remaining, 19 - i);
    EXPECT_EQ(d.reset_after, (i + 1) * 200'000);
  }
  const Decision d = ask(check(*limiter, "user")).decision;
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.remaining, 0);
  EXPECT_EQ(d.retry_after, 200'000);
  clock_->advance(d.retry_after - 1);
  EXPECT_EQ(outcome(check(*limiter, "user")), Outcome::kDenied);
  clock_->advance(1);
  EXPECT_EQ(outcome(check(*limiter, "user")), Outcome::kAllowed);
}

TEST_F(RedisStoreTest, KeysAreNamedAsTheContractSays) {
  StoreOptions options = patient();
  const auto store = open(server_.url(), options);
  const auto named = make_limiter(store, "5/s", "log:in");
  for (const std::string& subject :
       {std::string("user:42"), std::string(), std::string("a{b}c%"), std::string("\x01\0z", 3),
        std::string(64, 'x'), std::string(65, 'x'), std::string("#a"), std::string("\xc3\xa9")}) {
    ASSERT_EQ(outcome(check(*named, subject)), Outcome::kAllowed);
  }
  options.prefix = "app:";
  options.hash_subjects = true;
  options.secret = "s";
  ASSERT_EQ(outcome(check(*make_limiter(open(server_.url(), options), "5/s", "x"), "user")),
            Outcome::kAllowed);
  EXPECT_THAT(server_.client().keys(),
              ::testing::UnorderedElementsAre(
                  "sq:{user%3A42}:log%3Ain:b", "sq:{%}:log%3Ain:b", "sq:{a%7Bb%7Dc%25}:log%3Ain:b",
                  "sq:{%01%00z}:log%3Ain:b", "sq:{" + std::string(64, 'x') + "}:log%3Ain:b",
                  // The first half of SHA-256, and of HMAC-SHA-256 under the secret.
                  "sq:{#9537c5fdf120482f7d58d25e9ed583f5}:log%3Ain:b",
                  "app:{#667e54b2c57fd4b76be70873bc924c5b}:x:b", "sq:{%23a}:log%3Ain:b",
                  "sq:{\xc3\xa9}:log%3Ain:b"));
}

TEST_F(RedisStoreTest, UnnamedPoliciesShareByText) {
  const auto store = open(server_.url(), patient());
  ASSERT_EQ(outcome(check(*make_limiter(store, "2/h"), "u")), Outcome::kAllowed);
  ASSERT_EQ(outcome(check(*make_limiter(store, "2 per hour"), "u")), Outcome::kAllowed);
  ASSERT_EQ(outcome(check(*make_limiter(store, "2/h"), "u")), Outcome::kDenied);
  ASSERT_EQ(outcome(check(*make_limiter(store, "3/h"), "u")), Outcome::kAllowed);
  EXPECT_EQ(server_.client().keys().size(), 2U);
}

TEST_F(RedisStoreTest, StateIsADecimalInstantWithItsExpiry) {
  const auto store = open(server_.url(), patient());
  Client plain = server_.client();
  const auto whole = make_limiter(store, "1/h burst 10", "w");
  const Micros before = plain.time();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(outcome(check(*whole, "u")), Outcome::kAllowed);
  const Micros after = plain.time();
  const std::int64_t value = std::stoll(plain.text({"GET", "sq:{u}:w:b"}));
  EXPECT_GE(value, before + 36000 * kSecond);
  EXPECT_LE(value, after + 36000 * kSecond);
  // Ten hours, where a fixed hour would forget nine tokens' worth of debt.
  const std::int64_t life = plain.number({"PTTL", "sq:{u}:w:b"});
  EXPECT_GT(life, 36'000'000 - 60'000);
  EXPECT_LE(life, 36'000'000 + 2);

  const auto thirds = make_limiter(store, "3/s", "t");
  ASSERT_EQ(outcome(check(*thirds, "u")), Outcome::kAllowed);
  EXPECT_THAT(plain.text({"GET", "sq:{u}:t:b"}), ::testing::MatchesRegex("[0-9]+ 1 3"));
}

TEST_F(RedisStoreTest, OneAnHourWithBurstTenRefillsTwoInTwoHours) {
  const auto store = open(server_.url(), timed(clock_));
  const auto limiter = make_limiter(store, "1/h burst 10");
  for (int i = 0; i < 10; ++i) ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  clock_->advance(7200 * kSecond);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kDenied);
}

// C2: a request at exactly the refill instant passes.
TEST_F(RedisStoreTest, ExactlyAtTheRefillInstantPasses) {
  const auto store = open(server_.url(), timed(clock_));
  const auto one = make_limiter(store, "1/s", "one");
  const auto ten = make_limiter(store, "10/s", "ten");
  const auto ten_single = make_limiter(store, "10/s burst 1", "single");
  auto queue = open_queue(store);
  int refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    queue->submit(check(*one, "u"), 0);
    if (i % 10 == 0) queue->submit(check(*ten, "u", 10), 0);
    queue->submit(check(*ten_single, std::to_string(i % 10)), 0);
    for (const Completion& c : collect(*queue, queue->pending())) {
      refused += c.decision.outcome != Outcome::kAllowed ? 1 : 0;
    }
    clock_->advance(kSecond);
  }
  EXPECT_EQ(refused, 0);
}

// C2, in real time: the caller waits until the server's clock says that the second is over.
TEST_F(RedisStoreTest, OneASecondInRealTimeIsNotRefused) {
  const auto store = open(server_.url(), patient());
  const auto limiter = make_limiter(store, "1/ms");
  Client plain = server_.client();
  Micros earliest = 0;
  for (int i = 0; i < 1000; ++i) {
    while (plain.time() < earliest) {
    }
    ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed) << i;
    earliest = plain.time() + 1000;
  }
}

// C3: a refund gives nothing that time has given back already, and creates no key.
TEST_F(RedisStoreTest, LateRefundsGiveNothing) {
  const auto store = open(server_.url(), timed(clock_));
  const auto limiter = make_limiter(store, "10/s", "r");
  clock_->advance(900'000);
  std::vector<Ticket> tickets;
  for (int i = 0; i < 10; ++i) tickets.push_back(ask(check(*limiter, "u")).ticket);
  clock_->advance(1'600'000);
  for (const Ticket& ticket : tickets) {
    EXPECT_EQ(outcome(refund(*limiter, "u", ticket)), Outcome::kDenied);
  }
  int admitted = 0;
  for (int i = 0; i < 20; ++i) admitted += outcome(check(*limiter, "u")) == Outcome::kAllowed;
  EXPECT_EQ(admitted, 10);
  EXPECT_GT(server_.client().number({"PTTL", "sq:{u}:r:b"}), 0);
  // No state, no refund.
  EXPECT_EQ(outcome(refund(*limiter, "other", tickets[0])), Outcome::kDenied);
  EXPECT_EQ(server_.client().keys().size(), 1U);
}

TEST_F(RedisStoreTest, RefundGivesBackWhatWasTaken) {
  const auto store = open(server_.url(), timed(clock_));
  for (const char* text : {"5/s burst 20", "3/s burst 20"}) {
    const auto limiter = make_limiter(store, text);
    const Ticket first = ask(check(*limiter, "u", 5)).ticket;
    const Ticket second = ask(check(*limiter, "u", 7)).ticket;
    const Decision d = ask(refund(*limiter, "u", first)).decision;
    EXPECT_EQ(d.outcome, Outcome::kAllowed);
    EXPECT_EQ(d.remaining, 13);
    EXPECT_EQ(ask(refund(*limiter, "u", second)).decision.remaining, 20);
    Ticket spent = first;
    spent.flags |= Ticket::kSpent;
    const Decision nothing = ask(refund(*limiter, "u", spent)).decision;
    EXPECT_EQ(nothing.outcome, Outcome::kDenied);
    EXPECT_EQ(nothing.remaining, 20);
    EXPECT_EQ(nothing.retry_after, 0);
    Ticket foreign = ask(check(*limiter, "u", 5)).ticket;
    foreign.epoch = 12345;
    EXPECT_EQ(outcome(refund(*limiter, "u", foreign)), Outcome::kDenied);
    EXPECT_EQ(ask(peek(*limiter, "u")).decision.remaining, 15);
  }
}

TEST_F(RedisStoreTest, AReservationIsGivenBackOnlyWhileItIsTheLast) {
  const auto store = open(server_.url(), timed(clock_));
  const auto limiter = make_limiter(store, "1/s", "q");
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  const Answer first = ask(check(*limiter, "u", 1, 10 * kSecond));
  const Answer second = ask(check(*limiter, "u", 1, 10 * kSecond));
  EXPECT_EQ(first.decision.delay, kSecond);
  EXPECT_EQ(second.decision.delay, 2 * kSecond);
  EXPECT_EQ(outcome(refund(*limiter, "u", first.ticket)), Outcome::kDenied);
  EXPECT_EQ(outcome(refund(*limiter, "u", second.ticket)), Outcome::kAllowed);
  EXPECT_EQ(ask(check(*limiter, "u", 1, 10 * kSecond)).decision.delay, 2 * kSecond);
}

// C4: a key that lost its expiry decays by its own instant, and heals at the next charge.
TEST_F(RedisStoreTest, AKeyThatLostItsExpiryHeals) {
  const auto store = open(server_.url(), timed(clock_));
  const auto limiter = make_limiter(store, "2/s", "p");
  Client plain = server_.client();
  ASSERT_EQ(outcome(check(*limiter, "u", 2)), Outcome::kAllowed);
  ASSERT_EQ(plain.number({"PERSIST", "sq:{u}:p:b"}), 1);
  clock_->advance(kSecond);
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  const std::int64_t life = plain.number({"PTTL", "sq:{u}:p:b"});
  EXPECT_GE(life, 1);
  EXPECT_LE(life, 3'600'000);
}

// C6, C7, C8: never is never, and refusals cost nothing and write nothing.
TEST_F(RedisStoreTest, RefusalsChargeNothing) {
  const auto store = open(server_.url(), timed(clock_));
  const auto limiter = make_limiter(store, "10/min");
  EXPECT_EQ(outcome(check(*limiter, "u", 100)), Outcome::kNever);
  EXPECT_TRUE(server_.client().keys().empty());
  EXPECT_EQ(ask(check(*limiter, "u", 8)).decision.remaining, 2);
  const Decision denied = ask(check(*limiter, "u", 5)).decision;
  EXPECT_EQ(denied.outcome, Outcome::kDenied);
  EXPECT_EQ(denied.remaining, 2);
  const Decision never = ask(check(*limiter, "u", 100)).decision;
  EXPECT_EQ(never.outcome, Outcome::kNever);
  EXPECT_EQ(never.remaining, 2);
  EXPECT_EQ(never.retry_after, kForever);
  EXPECT_EQ(ask(check(*limiter, "u", 1)).decision.remaining, 1);
  EXPECT_EQ(ask(peek(*limiter, "u", 1)).decision.remaining, 1);
  const Decision free = ask(check(*limiter, "u", 0)).decision;
  EXPECT_EQ(free.outcome, Outcome::kAllowed);
  EXPECT_EQ(free.remaining, 1);
  Client plain = server_.client();
  EXPECT_THAT(plain.info("cmdstat_set"), ::testing::StartsWith("calls=2,"));
}

// C25, C41: the server's clock decides, and waits are whole microseconds.
TEST_F(RedisStoreTest, RetryAfterIsTheServersTime) {
  const auto one = open(server_.url(), patient());
  const auto other = open(server_.url(), patient());
  const auto limiter = make_limiter(one, "100/s burst 1", "c");
  const auto same = make_limiter(other, "100/s burst 1", "c");
  Client plain = server_.client();
  const Micros start = plain.time();
  int admitted = 0;
  for (int i = 0; i < 2000; ++i) {
    const Decision d = ask(check(i % 2 == 0 ? *limiter : *same, "u")).decision;
    admitted += d.outcome == Outcome::kAllowed ? 1 : 0;
    if (d.outcome == Outcome::kDenied) {
      ASSERT_GT(d.retry_after, 0);
      ASSERT_LE(d.retry_after, 10'000);
    }
  }
  EXPECT_LE(admitted, 1 + (plain.time() - start) / 10'000 + 1);
  EXPECT_GE(admitted, 1);
}

// C34: every key lives as long as its bucket fills, on every path.
TEST_F(RedisStoreTest, NoKeyIsWithoutExpiry) {
  const auto store = open(server_.url(), patient());
  std::vector<std::shared_ptr<Limiter>> limiters = {
      make_limiter(store, "5/s burst 20"), make_limiter(store, "3/s burst 7"),
      make_limiter(store, "7/min"), make_limiter(store, "1/h burst 10")};
  const std::vector<std::int64_t> longest = {4001, 2335, 60'002, 36'000'002};
  auto queue = open_queue(store);
  std::uint32_t x = 1;
  const auto random = [&x](std::uint32_t below) {
    x = x * 1664525 + 1013904223;
    return (x >> 8) % below;
  };
  std::vector<Ticket> tickets(limiters.size());
  for (int round = 0; round < 300; ++round) {
    for (int i = 0; i < 40; ++i) {
      const std::uint32_t l = random(4);
      const std::string key = std::to_string(random(50));
      switch (random(5)) {
        case 0:
          queue->submit(refund(*limiters[l], key, tickets[l]), l);
          break;
        case 1:
          queue->submit(reset(*limiters[l], key), l);
          break;
        case 2:
          queue->submit(peek(*limiters[l], key, random(10)), l);
          break;
        default:
          queue->submit(check(*limiters[l], key, random(4), random(2) * 1000), l);
      }
    }
    for (const Completion& c : collect(*queue, queue->pending())) {
      ASSERT_NE(c.decision.outcome, Outcome::kUnavailable);
      if (c.ticket.n != 0) tickets[c.user_data] = c.ticket;
    }
  }
  Client plain = server_.client();
  for (std::size_t l = 0; l < limiters.size(); ++l) {
    for (const std::string& key : plain.keys()) {
      if (key.find(limiters[l]->identities()[0]) == std::string::npos) continue;
      const std::int64_t life = plain.number({"PTTL", key});
      if (life == -2) continue;  // gone meanwhile
      EXPECT_GE(life, 0) << key;
      EXPECT_LE(life, longest[l]) << key;
    }
  }
}

// C38.
TEST_F(RedisStoreTest, ResetForgetsTheKey) {
  const auto store = open(server_.url(), patient());
  const auto limiter = make_limiter(store, "3/h");
  ASSERT_EQ(outcome(check(*limiter, "u", 3)), Outcome::kAllowed);
  const Decision d = ask(reset(*limiter, "u")).decision;
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 3);
  EXPECT_EQ(d.reset_after, 0);
  EXPECT_TRUE(server_.client().keys().empty());
  EXPECT_EQ(outcome(check(*limiter, "u", 3)), Outcome::kAllowed);
}

TEST_F(RedisStoreTest, ForeignValuesAreReportedAndKept) {
  const auto store = open(server_.url(), patient());
  const auto whole = make_limiter(store, "2/s", "w");
  const auto thirds = make_limiter(store, "3/s", "t");
  Client plain = server_.client();
  for (const std::string& value :
       {std::string("abc"), std::string(), std::string(" 12"), std::string("12 "),
        std::string("0x10"), std::string("1e3"), std::string("-5"), std::string("1.5"),
        std::string("1 2"), std::string("1 3 3"), std::string("1 0 4294967296"),
        std::string("1 1 2 3"), std::string("6755399441055745"),
        std::string("99999999999999999999"), std::string("5\0", 2), std::string("1 1\0 3", 6),
        std::string("nan"), std::string("inf")}) {
    for (const auto& limiter : {whole, thirds}) {
      const std::string key = "sq:{u}:" + limiter->identities()[0];
      plain({"SET", key, value});
      EXPECT_EQ(reason(check(*limiter, "u")), Reason::kCorrupt) << value;
      EXPECT_EQ(reason(peek(*limiter, "u")), Reason::kCorrupt) << value;
      Ticket ticket;
      ticket.q = kStart * 2;
      ticket.n = limiter->bucket().tokens;
      ticket.cost = 1;
      EXPECT_EQ(reason(refund(*limiter, "u", ticket)), Reason::kCorrupt) << value;
      EXPECT_EQ(plain.text({"GET", key}), value);
      EXPECT_EQ(outcome(reset(*limiter, "u")), Outcome::kAllowed);
      EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
    }
  }
  for (const auto& limiter : {whole, thirds}) {
    const std::string key = "sq:{list}:" + limiter->identities()[0];
    plain({"RPUSH", key, "x"});
    EXPECT_EQ(reason(check(*limiter, "list")), Reason::kCorrupt);
    EXPECT_EQ(plain.number({"LLEN", key}), 1);
    EXPECT_EQ(outcome(reset(*limiter, "list")), Outcome::kAllowed);
  }
}

TEST_F(RedisStoreTest, AFaultOfOneKeyIsItsOwn) {
  const auto store = open(server_.url(), patient());
  const auto whole = make_limiter(store, "2/h", "w");
  const auto thirds = make_limiter(store, "3/h", "t");
  server_.client()({"SET", "sq:{bad}:w:b", "x"});
  server_.client()({"RPUSH", "sq:{bad}:t:b", "x"});
  std::vector<Request> requests;
  for (const char* key : {"a", "bad", "b", "bad", "a"}) {
    requests.push_back(check(*whole, key));
    requests.push_back(check(*thirds, key));
  }
  std::vector<Answer> answers(requests.size());
  store->execute_many(requests, answers);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Outcome expected = requests[i].key == "bad" ? Outcome::kUnavailable : Outcome::kAllowed;
    EXPECT_EQ(answers[i].decision.outcome, expected) << i;
  }
}

TEST_F(RedisStoreTest, ManyAreDecidedInOrderAlsoWhenAKeyRepeats) {
  const auto store = open(server_.url(), patient());
  const auto limiter = make_limiter(store, "100/h");
  std::vector<Request> requests(10'000, check(*limiter, "same"));
  std::vector<Answer> answers(requests.size());
  store->execute_many(requests, answers);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(answers[i].decision.outcome, i < 100 ? Outcome::kAllowed : Outcome::kDenied) << i;
    if (i < 100) {
      ASSERT_EQ(answers[i].decision.remaining, 99 - static_cast<std::int64_t>(i));
    }
  }
}

TEST_F(RedisStoreTest, AnotherRulesRemainderIsTakenAsOneMicrosecondLater) {
  const auto store = open(server_.url(), timed(clock_));
  ASSERT_EQ(outcome(check(*make_limiter(store, "3/s burst 6", "n"), "u")), Outcome::kAllowed);
  // 333,333 1/3 us ahead.
  const Decision d = ask(peek(*make_limiter(store, "1/s burst 2", "n"), "u")).decision;
  EXPECT_EQ(d.reset_after, 333'334);
  EXPECT_EQ(ask(peek(*make_limiter(store, "7/s burst 14", "n"), "u")).decision.reset_after,
            333'334);
  EXPECT_EQ(ask(peek(*make_limiter(store, "3/s burst 6", "n"), "u")).decision.reset_after, 333'334);
}

TEST_F(RedisStoreTest, UnixSocketAndDatabase) {
  const auto tcp = open(server_.url("", "/3"), patient());
  const auto local = open(server_.unix_url("", "?db=3"), patient());
  ASSERT_EQ(outcome(check(*make_limiter(tcp, "2/h"), "u")), Outcome::kAllowed);
  ASSERT_EQ(outcome(check(*make_limiter(local, "2/h"), "u")), Outcome::kAllowed);
  ASSERT_EQ(outcome(check(*make_limiter(local, "2/h"), "u")), Outcome::kDenied);
  Client plain = server_.client();
  EXPECT_EQ(plain.number({"DBSIZE"}), 0);
  plain({"SELECT", "3"});
  EXPECT_EQ(plain.number({"DBSIZE"}), 1);
}

TEST_F(RedisStoreTest, ADatabaseThatIsNotThereNeverBecomesDatabaseZero) {
  const auto store = open(server_.url("", "/99"), patient());
  EXPECT_EQ(reason(check(*make_limiter(store, "2/h"), "u")), Reason::kAuth);
  EXPECT_EQ(server_.client().number({"DBSIZE"}), 0);
}

TEST_F(RedisStoreTest, TestingKeepsKeysForAnHour) {
  const auto store = open(server_.url(), timed(clock_));
  ASSERT_EQ(outcome(check(*make_limiter(store, "5/s", "h"), "u")), Outcome::kAllowed);
  EXPECT_EQ(server_.client().text({"GET", "sq:{u}:h:b"}), std::to_string(kStart + 200'000));
  EXPECT_GT(server_.client().number({"PTTL", "sq:{u}:h:b"}), 3'590'000);
}

TEST_F(RedisStoreTest, StatsCountWhatWasSent) {
  const auto store = open(server_.url(), patient());
  const auto limiter = make_limiter(store, "2/h");
  EXPECT_EQ(store->stats().connects, 0U);
  std::vector<Request> requests(100, check(*limiter, "u"));
  std::vector<Answer> answers(requests.size());
  store->execute_many(requests, answers);
  const StoreStats stats = store->stats();
  EXPECT_EQ(stats.requests, 100U);
  EXPECT_EQ(stats.batches, 2U);
  EXPECT_EQ(stats.connects, 1U);
  EXPECT_EQ(stats.failures, 0U);
}

TEST_F(RedisStoreTest, EachPairOfPolicyAndKeyIsItsOwn) {
  const auto store = open(server_.url(), patient());
  const auto five = make_limiter(store, "5/5min");
  const auto hundred = make_limiter(store, "100/1min");
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(outcome(check(*five, "u")), Outcome::kAllowed);
    ASSERT_EQ(outcome(check(*hundred, "u")), Outcome::kAllowed);
  }
  EXPECT_EQ(outcome(check(*five, "u")), Outcome::kDenied);
  EXPECT_EQ(ask(check(*hundred, "u")).decision.remaining, 94);
}

}  // namespace
}  // namespace saqiya::testing

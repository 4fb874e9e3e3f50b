// Several rules, several limiters and all algorithms on a real server: what travels, what is
// written.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "core/group.h"
#include "core/timed_list.h"
#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr Micros kStart = 1'790'000'000'000'000;

// One policy of each algorithm, each of limit 3.
const char* const kPolicies[] = {"3/h",
                                 "leaky-bucket: 1/h burst 3 queue 1",
                                 "fixed-window: 3/h",
                                 "sliding-window: 3/h",
                                 "sliding-log: 3/h",
                                 "calendar: 3/day tz Africa/Cairo",
                                 "concurrency: 3 ttl 1h"};

class GroupTest : public ::testing::Test {
 protected:
  // All commands the server ran since, by its own count.
  std::int64_t ran(Client& plain, const std::string& command) {
    const std::string line = plain.info("cmdstat_" + command);  // "calls=3,usec=..."
    if (line.empty()) return 0;
    return std::stoll(line.substr(line.find('=') + 1));
  }

  Decision check_all(const std::vector<Item>& items, std::vector<Ticket>* tickets = nullptr,
                     Op op = Op::kCheck) {
    Request request;
    request.op = op;
    request.items = items;
    std::size_t rules = 0;
    for (const Item& item : items) rules += std::max<std::size_t>(1, item.limiter->rules().size());
    std::vector<Ticket> room(rules);
    request.tickets_out = room;
    if (op == Op::kRefund) request.tickets = *tickets;
    Answer answer;
    items[0].limiter->store().execute(request, &answer);
    if (tickets != nullptr && op == Op::kCheck) *tickets = room;
    return answer.decision;
  }

  RedisServer server_;
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>(kStart);
};

// C9, C149.
TEST_F(GroupTest, OneScriptCallForAllAndNoWriteWhenRefused) {
  const auto store = open(server_.url(), patient());
  const auto user = make_limiter(store, "1/h; fixed-window: 5/day", "user");
  const auto global = make_limiter(store, "100/h", "global");
  Client plain = server_.client();
  ASSERT_EQ(check_all({{user.get(), "u", 1}, {global.get(), "all", 1}}).outcome, Outcome::kAllowed);
  plain({"CONFIG", "RESETSTAT"});
  for (int i = 0; i < 19; ++i) {
    EXPECT_EQ(check_all({{user.get(), "u", 1}, {global.get(), "all", 1}}).outcome,
              Outcome::kDenied);
  }
  EXPECT_EQ(ran(plain, "evalsha"), 19);
  EXPECT_EQ(ran(plain, "eval") + ran(plain, "set") + ran(plain, "del"), 0);
  EXPECT_EQ(ran(plain, "get"), 19 * 3);
  EXPECT_EQ(ask(peek(*global, "all")).decision.remaining, 99);
}

// C8: state bytes stay as they are, in every algorithm.
TEST_F(GroupTest, ARefusalAPeekAndANeverLeaveEveryByteAndExpiry) {
  const auto store = open(server_.url(), timed(clock_));
  Client plain = server_.client();
  for (const char* text : kPolicies) {
    SCOPED_TRACE(text);
    plain({"FLUSHALL"});
    const auto limiter = make_limiter(store, text, "n");
    for (int i = 0; i < 3; ++i) ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
    while (outcome(check(*limiter, "u", 1)) == Outcome::kAllowed) {  // a queue's places, too
    }
    const std::vector<std::string> keys = plain.keys();
    ASSERT_EQ(keys.size(), 1U);
    const std::string before = plain.text({"GET", keys[0]});
    plain({"CONFIG", "RESETSTAT"});
    clock_->advance(1);
    EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kDenied);
    EXPECT_EQ(outcome(check(*limiter, "u", 4)), Outcome::kNever);
    EXPECT_EQ(outcome(check(*limiter, "u", 0)), Outcome::kAllowed);
    EXPECT_EQ(outcome(peek(*limiter, "u")), Outcome::kDenied);
    EXPECT_EQ(plain.text({"GET", keys[0]}), before);
    EXPECT_EQ(ran(plain, "set") + ran(plain, "del") + ran(plain, "pexpire"), 0);
    EXPECT_EQ(outcome(reset(*limiter, "u")), Outcome::kAllowed);
    EXPECT_TRUE(plain.keys().empty());  // C38
  }
}

// C34: with the server's own clock, every key has an expiry of its rule, and no more.
TEST_F(GroupTest, EveryKeyHasItsExpiry) {
  const auto store = open(server_.url(), patient());
  Client plain = server_.client();
  struct Row {
    const char* text;
    std::int64_t most_ms;
  };
  for (const Row& row :
       {Row{"6/min", 10'001}, Row{"fixed-window: 6/min", 60'001},
        Row{"sliding-window: 6/min", 120'001}, Row{"sliding-log: 6/min", 60'001},
        Row{"calendar: 6/day tz UTC", 86'400'001}, Row{"concurrency: 6 ttl 1min", 60'001}}) {
    SCOPED_TRACE(row.text);
    plain({"FLUSHALL"});
    ASSERT_EQ(outcome(check(*make_limiter(store, row.text), "u")), Outcome::kAllowed);
    const std::int64_t left = plain.number({"PTTL", plain.keys().at(0)});
    EXPECT_GT(left, 0);
    EXPECT_LE(left, row.most_ms);
  }
}

// C25: the server's clock, whatever this machine's shows; C2 in real time.
TEST_F(GroupTest, ExpiryInRealTime) {
  const auto store = open(server_.url(), patient());
  for (const char* text : {"1/50ms", "fixed-window: 1/50ms", "sliding-log: 1/50ms",
                           "concurrency: 1 ttl 50ms", "sliding-window: 1/50ms"}) {
    SCOPED_TRACE(text);
    const auto limiter = make_limiter(store, text);
    ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
    std::this_thread::sleep_for(std::chrono::milliseconds(110));
    EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  }
}

TEST_F(GroupTest, ForeignValuesAreReportedAndKept) {
  const auto store = open(server_.url(), patient());
  Client plain = server_.client();
  const std::vector<std::string> values = {"abc",
                                           "",
                                           "-1 2",
                                           "1 2 3 4",
                                           "99999999999999999999 1",
                                           std::string("L\0\0", 3),
                                           "L" + std::string(21, '\xff'),
                                           "N" + std::string(29, '\xff'),
                                           "L" + std::string(13, '\0'),
                                           "N" + std::string(13, '\0'),
                                           std::string(100, '\xff')};
  for (const char* text : kPolicies) {
    const auto limiter = make_limiter(store, text, "n");
    const std::string key = "sq:{u}:" + limiter->identities()[0];
    for (const std::string& value : values) {
      SCOPED_TRACE(std::string(text) + " " + value);
      plain({"SET", key, value});
      EXPECT_EQ(reason(check(*limiter, "u")), Reason::kCorrupt);
      EXPECT_EQ(plain.text({"GET", key}), value);
    }
    plain({"DEL", key});
    plain({"RPUSH", key, "x"});
    EXPECT_EQ(reason(check(*limiter, "u")), Reason::kCorrupt);
    EXPECT_EQ(outcome(reset(*limiter, "u")), Outcome::kAllowed);
    EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  }
}

TEST_F(GroupTest, ACorruptPartRefusesAllAndChargesNone) {
  const auto store = open(server_.url(), patient());
  const auto good = make_limiter(store, "fixed-window: 5/h", "good");
  const auto bad = make_limiter(store, "sliding-log: 5/h", "bad");
  server_.client()({"SET", "sq:{u}:bad:l", "x"});
  const Decision d = check_all({{good.get(), "u", 1}, {bad.get(), "u", 1}});
  EXPECT_EQ(d.outcome, Outcome::kUnavailable);
  EXPECT_EQ(d.reason, Reason::kCorrupt);
  EXPECT_EQ(ask(peek(*good, "u")).decision.remaining, 5);
}

// Calendar windows are chosen by the server's clock. Where this machine's is years away (here: the
// server of a test, which is given another time) the request is sent once more, with the right
// ones.
TEST_F(GroupTest, CalendarWindowsAreTheServers) {
  const auto store = open(server_.url(), patient());
  const auto limiter = make_limiter(store, "calendar: 2/day tz UTC");
  const Decision d = ask(check(*limiter, "u")).decision;
  ASSERT_EQ(d.outcome, Outcome::kAllowed);
  const Micros server_now = server_.client().time();
  EXPECT_NEAR(static_cast<double>(d.reset_after),
              static_cast<double>(86'400'000'000 - server_now % 86'400'000'000), 5e6);
}

TEST_F(GroupTest, CancelledInFlightIsGivenBackAndWritesNowhere) {
  const auto store = open(server_.url(), patient());
  const auto a = make_limiter(store, "5/h; fixed-window: 7/day", "a");
  const auto b = make_limiter(store, "concurrency: 3 ttl 1h", "b");
  const std::unique_ptr<Queue> queue = open_queue(store);
  {
    std::vector<Decision> each(3);
    std::vector<Ticket> tickets(3);
    const std::vector<Item> items = {{a.get(), "u", 2}, {b.get(), "u", 1}};
    Request request;
    request.items = items;
    request.each = each;
    request.tickets_out = tickets;
    ASSERT_EQ(queue->submit(request, 7), SubmitResult::kOk);
    for (int i = 0; i < 200 && store->stats().batches == 0; ++i) {
      queue->process();
      if (store->stats().batches == 0) queue->wait(10'000);
    }
    ASSERT_EQ(store->stats().batches, 1U);
    ASSERT_TRUE(queue->cancel(7));
  }  // each and tickets are gone before the answer comes
  queue->submit(peek(*a, "u"), 8);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  // The refund follows the answer; the next round trip is behind it.
  queue->submit(peek(*a, "u"), 9);
  EXPECT_EQ(collect(*queue, 1)[0].decision.remaining, 5);
  EXPECT_EQ(ask(peek(*b, "u")).decision.remaining, 3);
}

TEST_F(GroupTest, ManyGroupsTravelTogether) {
  const auto store = open(server_.url(), patient());
  const auto a = make_limiter(store, "100/h; fixed-window: 90/h; sliding-log: 80/h", "a");
  const std::unique_ptr<Queue> queue = open_queue(store);
  queue->submit(check(*a, "warm"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  const std::uint64_t before = store->stats().batches;
  std::vector<std::string> keys;
  for (std::uint64_t i = 0; i < 64; ++i) keys.push_back("k" + std::to_string(i % 50));
  for (std::uint64_t i = 0; i < 64; ++i) queue->submit(check(*a, keys[i]), i);
  const std::vector<Completion> done = collect(*queue, 64);
  EXPECT_LE(store->stats().batches - before, 4U);
  for (std::uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(done[i].decision.outcome, Outcome::kAllowed);
    EXPECT_EQ(done[i].decision.remaining, i < 50 ? 79 : 78);
    EXPECT_EQ(done[i].decision.rule, 2);
  }
}

// 64 concurrent callers over 3 shared rules: none broken, nothing charged on refusal.
TEST_F(GroupTest, ConcurrentCallersNeverBreakARule) {
  const auto store = open(server_.url(), patient());
  const auto user = make_limiter(store, "concurrency: 40 ttl 1h", "user");
  const auto host = make_limiter(store, "fixed-window: 60/day", "host");
  const auto all = make_limiter(store, "500/d burst 100", "all");
  std::atomic<int> allowed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 64; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = t % 2 == 0 ? "even" : "odd";
      for (int i = 0; i < 10; ++i) {
        const Decision d =
            check_all({{user.get(), name, 1}, {host.get(), "h", 1}, {all.get(), "a", 1}});
        if (d.outcome == Outcome::kAllowed) ++allowed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allowed, 60);  // the fixed window binds
  EXPECT_EQ(ask(peek(*host, "h")).decision.remaining, 0);
  EXPECT_EQ(ask(peek(*all, "a")).decision.remaining, 40);
  const std::int64_t left =
      ask(peek(*user, "even")).decision.remaining + ask(peek(*user, "odd")).decision.remaining;
  EXPECT_EQ(left, 80 - 60);
}

// Sizes on the server: 128 bytes and the key for all but lists; a log of 100 entries 1,100 bytes.
TEST_F(GroupTest, ValuesAreSmall) {
  const auto store = open(server_.url(), timed(clock_));
  Client plain = server_.client();
  for (const char* text : {"7/min", "fixed-window: 100000/min", "sliding-window: 100000/min",
                           "calendar: 1000000/month tz UTC"}) {
    SCOPED_TRACE(text);
    plain({"FLUSHALL"});
    const auto limiter = make_limiter(store, text, "n");
    for (int i = 0; i < 2000; ++i) {
      static_cast<void>(outcome(check(*limiter, "u")));
      clock_->advance(50'000);
    }
    const std::string key = plain.keys().at(0);
    EXPECT_LE(plain.number({"MEMORY", "USAGE", key}), 128 + static_cast<std::int64_t>(key.size()));
  }
  plain({"FLUSHALL"});
  const auto log = make_limiter(store, "sliding-log: 100/min", "n");
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(outcome(check(*log, "u")), Outcome::kAllowed);  // C30
    clock_->advance(600'000);
  }
  ASSERT_EQ(ask(peek(*log, "u")).decision.remaining, 1);
  EXPECT_LE(plain.number({"MEMORY", "USAGE", plain.keys().at(0)}), 1100);
}

}  // namespace
}  // namespace saqiya::testing

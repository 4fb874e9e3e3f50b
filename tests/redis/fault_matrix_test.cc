// C50, C72: every fault, met by every operation, from blocking callers and from a queue. Each has a
// defined result, nothing is thrown, and what may have run is never sent again.
#include <algorithm>
#include <array>

#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr Micros kCalm = 20 * kMicrosPerSecond;
constexpr std::size_t kOperations = 11;

struct Fault {
  std::string name;
  Act act;
  Reason reason;
  std::size_t batches = 1;  // until it is told

  // Only what is never answered is not waited for.
  Micros deadline() const { return reason == Reason::kTimeout ? 300'000 : kCalm; }
};

// Answers the limiter "warm", so that the connection stands before the fault comes.
FakeServer::Handler warm_then(const Act& act) {
  return [act](const Command& command) {
    const bool warm = std::any_of(command.begin(), command.end(), [](const std::string& word) {
      return word.find(":warm:") != std::string::npos;
    });
    return warm ? say(batch_reply(1'700'000'000'000'000, {-3'600'000'000})) : act;
  };
}

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {"silence", stay_silent(), Reason::kTimeout},
      {"late reply", say_late(600, batch_reply(1, {1})), Reason::kTimeout},
      {"hang-up", hang_up(), Reason::kLost},
      {"half a reply", {.pieces = {"*2\r\n:17000"}, .close = true}, Reason::kLost},
      {"garbage", say("garbage\r\n"), Reason::kProtocol},
      {"zero bytes", say(std::string("\0\0\0\r\n", 5)), Reason::kProtocol},
      {"unknown error", say("-ERR something\r\n"), Reason::kProtocol},
      {"NOAUTH", say("-NOAUTH Authentication required.\r\n"), Reason::kAuth},
      {"LOADING", say("-LOADING Redis is loading the dataset in memory\r\n"), Reason::kRefused},
      {"BUSY", say("-BUSY Redis is busy running a script.\r\n"), Reason::kRefused},
      {"MASTERDOWN", say("-MASTERDOWN Link with MASTER is down.\r\n"), Reason::kRefused},
      {"CLUSTERDOWN", say("-CLUSTERDOWN The cluster is down\r\n"), Reason::kRefused},
      {"NOREPLICAS", say("-NOREPLICAS Not enough good replicas to write.\r\n"), Reason::kRefused},
      {"MISCONF", say("-MISCONF Errors writing to disk.\r\n"), Reason::kRefused},
      // A new connection might lead to the master.
      {"READONLY", say("-READONLY You can't write against a read only replica.\r\n"),
       Reason::kReadOnly, 2},
      {"OOM", say("-OOM command not allowed when used memory > 'maxmemory'.\r\n"),
       Reason::kServerMemory},
      {"NOPERM", say("-NOPERM No permissions to access a key\r\n"), Reason::kPermission},
      {"WRONGTYPE", say("-WRONGTYPE Operation against a wrong kind\r\n"), Reason::kCorrupt},
  };
  return all;
}

// One request of each operation.
class Operations {
 public:
  Operations(const std::shared_ptr<Store>& store, Micros deadline)
      : bucket_(make_limiter(store, "9/h", "bucket", deadline)),
        lease_(make_limiter(store, "concurrency: 3 ttl 30s", "lease", deadline)) {
    charge_.n = 1;
    charge_.q = 1'700'000'000'000'000;
    charge_.cost = 2;
    held_ = charge_;
    held_.lease = 7;
    held_.algorithm = static_cast<std::uint32_t>(lease_->rules()[0].algorithm);
  }

  std::vector<std::pair<std::string, Request>> all() const {
    Request settle = refund(*bucket_, "u", charge_);
    settle.op = Op::kSettle;
    Request renew = refund(*lease_, "u", held_);
    renew.op = Op::kRenew;
    Request check_all;
    check_all.items = items_;
    Request peek_all = check_all;
    peek_all.op = Op::kPeek;
    return {{"check", check(*bucket_, "u")},
            {"waiting check", check(*bucket_, "u", 1, 1000)},
            {"lease", check(*lease_, "u")},
            {"peek", peek(*bucket_, "u")},
            {"refund", refund(*bucket_, "u", charge_)},
            {"release", refund(*lease_, "u", held_)},
            {"reset", reset(*bucket_, "u")},
            {"settle", settle},
            {"renew", renew},
            {"check_all", check_all},
            {"peek_all", peek_all}};
  }

 private:
  std::shared_ptr<Limiter> bucket_;
  std::shared_ptr<Limiter> lease_;
  Ticket charge_;
  Ticket held_;
  std::array<Item, 2> items_{Item{bucket_.get(), "u", 1}, Item{lease_.get(), "v", 1}};
};

std::size_t batches(const FakeServer& server) {
  std::size_t count = 0;
  for (const Command& command : server.commands()) {
    count += command[0] == "EVALSHA" || command[0] == "EVAL" ? 1 : 0;
  }
  return count;
}

void expect_unavailable(const Decision& d, Reason reason) {
  EXPECT_EQ(d.outcome, Outcome::kUnavailable);
  EXPECT_EQ(d.reason, reason);
  EXPECT_EQ(d.source, Source::kStore);
  EXPECT_EQ(d.limit, 0);
  EXPECT_EQ(d.remaining, 0);
  EXPECT_EQ(d.retry_after, 0);
}

TEST(RedisFaultMatrix, BlockingCallers) {
  for (const Fault& fault : faults()) {
    FakeServer server(warm_then(fault.act));
    for (std::size_t i = 0; i < kOperations; ++i) {
      // A store of its own: no operation sees what another has found out.
      const auto store = open(server.url(), patient());
      const Operations operations(store, fault.deadline());
      const auto warm = make_limiter(store, "9/h", "warm");
      const auto [name, request] = operations.all()[i];
      SCOPED_TRACE(fault.name + ", " + name);
      ASSERT_EQ(outcome(check(*warm, "u")), Outcome::kAllowed);
      const std::size_t before = batches(server);
      Answer answer;
      store->execute(request, &answer);
      expect_unavailable(answer.decision, fault.reason);
      EXPECT_EQ(batches(server), before + fault.batches);
      EXPECT_EQ(store->stats().failures, 1U);
    }
  }
}

TEST(RedisFaultMatrix, Queues) {
  for (const Fault& fault : faults()) {
    FakeServer server(warm_then(fault.act));
    for (std::size_t i = 0; i < kOperations; ++i) {
      const auto store = open(server.url(), patient());
      const Operations operations(store, fault.deadline());
      const auto warm = make_limiter(store, "9/h", "warm");
      const auto [name, request] = operations.all()[i];
      SCOPED_TRACE(fault.name + ", " + name);
      const auto queue = open_queue(store);
      queue->submit(check(*warm, "u"), 1);
      ASSERT_EQ(collect(*queue, 1).size(), 1U);
      const std::size_t before = batches(server);
      ASSERT_EQ(queue->submit(request, 5), SubmitResult::kOk);
      const auto done = collect(*queue, 1);
      ASSERT_EQ(done.size(), 1U);
      EXPECT_EQ(done[0].user_data, 5U);
      expect_unavailable(done[0].decision, fault.reason);
      EXPECT_EQ(batches(server), before + fault.batches);
      EXPECT_EQ(queue->pending(), 0U);
    }
  }
}

TEST(RedisFaultMatrix, NobodyListens) {
  const auto store = open("redis://127.0.0.1:" + std::to_string(free_port()), patient());
  const Operations operations(store, kCalm);
  ASSERT_EQ(operations.all().size(), kOperations);
  for (const auto& [name, request] : operations.all()) {
    SCOPED_TRACE(name);
    Answer answer;
    store->execute(request, &answer);
    expect_unavailable(answer.decision, Reason::kConnect);
  }
}

// C64: a connection whose reply is late is not used again, so the reply meets nobody.
TEST(RedisFaultMatrix, ALateReplyMeetsNobody) {
  const std::string first = batch_reply(1'700'000'000'000'000, {-3'600'000'000});
  const std::string second = batch_reply(1'700'000'000'000'000, {-2'800'000'000});
  FakeServer server(Script{{say_late(600, first)}, {say(second)}});
  const auto store = open(server.url(), patient());
  const auto hasty = make_limiter(store, "9/h", "", 200'000);
  const auto calm = make_limiter(store, "9/h", "", 20 * kMicrosPerSecond);
  EXPECT_EQ(reason(check(*hasty, "u")), Reason::kTimeout);
  // Until it has long come.
  std::size_t answered = 0;
  const Micros end = system_monotonic() + 1'000'000;
  while (system_monotonic() < end || answered == 0) {
    const Decision d = ask(check(*calm, "u")).decision;
    if (d.outcome == Outcome::kUnavailable) continue;
    ++answered;
    ASSERT_EQ(d.outcome, Outcome::kAllowed);
    ASSERT_EQ(d.remaining, 7);
  }
  EXPECT_EQ(server.connections(), 2);
}

// C76: a URL of one server that leads to something else.
TEST(RedisFaultMatrix, AClusterBehindAPlainUrlIsRefusedEachTime) {
  FakeServer server([](const Command&) { return say("-MOVED 866 127.0.0.1:7001\r\n"); });
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "9/h");
  for (int i = 0; i < 5; ++i) EXPECT_EQ(reason(check(*limiter, "u")), Reason::kRefused);
  Event event;
  ASSERT_TRUE(store->next_event(&event));
  EXPECT_EQ(event.kind, Event::Kind::kRefused);
  EXPECT_THAT(std::string(event.message.data()), ::testing::HasSubstr("cluster"));
  EXPECT_FALSE(store->next_event(&event));
}

// C75: however many threads ask, one attempt at a time, with longer and longer pauses.
TEST(RedisFaultMatrix, ManyThreadsMakeFewAttempts) {
  FakeServer server([](const Command&) { return hang_up(); },
                    [](const Command&) { return hang_up(); });
  const auto store = open(server.url());
  const auto limiter = make_limiter(store, "9/h");
  const Micros start = system_monotonic();
  const Micros end = start + 2 * kMicrosPerSecond;
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) {
    threads.emplace_back([&] {
      while (system_monotonic() < end) {
        EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kUnavailable);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The connections of the pool may each fail once before the breaker is open. Then the pauses are
  // at most 10, 20, 40 ... ms, any part of it: far from one attempt per call.
  EXPECT_GE(server.connections(), 2);
  EXPECT_LE(server.connections(), 20);
}

}  // namespace
}  // namespace saqiya::testing

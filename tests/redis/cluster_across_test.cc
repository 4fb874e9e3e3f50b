// Requests across slots, and the map of slots, while servers are down or silent.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/redis/lua/script.lua.h"
#include "core/redis/slots.h"
#include "tests/redis/cluster.h"
#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;

class RedisClusterAcross : public ::testing::Test {
 protected:
  std::int64_t remaining(const std::string& name, std::size_t master) const {
    const auto limiter = make_limiter(observer_, "10/h", name);
    return ask(peek(*limiter, subjects_[master])).decision.remaining;
  }

  // The others stay in charge of what they have: nobody takes a dead or silent one's place.
  Cluster cluster_{{.masters = 3, .replicas = 0, .node_timeout = 60'000}};
  const std::vector<std::string> subjects_ =
      cluster_.a_subject_of_each();  // by the master that decides them
  const std::shared_ptr<Store> observer_ = open(cluster_.url(), patient());
};

Request request_of(Op op, std::span<const Item> items) {
  Request request;
  request.op = op;
  request.limiter = items[0].limiter;  // for the sake of ask()
  request.items = items;
  return request;
}

TEST_F(RedisClusterAcross, CountsAsOneCheck) {
  const auto store = open(cluster_.url(), patient());
  const auto ten = make_limiter(store, "10/h", "counted");
  const auto two = make_limiter(store, "2/h", "counted-two");
  const std::vector<Item> items = {{ten.get(), subjects_[0]}, {two.get(), subjects_[1]}};
  for (int i = 0; i < 5; ++i) ask(request_of(Op::kCheck, items));
  ask(request_of(Op::kPeek, items));
  EXPECT_EQ(store->stats().allowed, 2U);
  EXPECT_EQ(store->stats().denied, 3U);
  EXPECT_EQ(store->stats().failures, 0U);
}

// The third server refuses when the second one, which was charged, has just died. What the first
// one charged is given back all the same.
TEST_F(RedisClusterAcross, ChargesAreGivenBackPastADeadServer) {
  const auto store = open(cluster_.url(), patient());
  const auto ten = make_limiter(store, "10/h", "ten");
  const auto one = make_limiter(store, "1/h", "one");
  auto queue = open_queue(store);
  queue->submit(check(*ten, subjects_[0]), 1);
  queue->submit(check(*ten, subjects_[1]), 2);
  queue->submit(check(*one, subjects_[2]), 3);
  for (const Completion& c : collect(*queue, 3)) {
    ASSERT_EQ(c.decision.outcome, Outcome::kAllowed);
  }
  ASSERT_EQ(remaining("ten", 1), 9);
  const std::vector<Item> items = {
      {ten.get(), subjects_[0]}, {ten.get(), subjects_[1]}, {one.get(), subjects_[2]}};
  cluster_.node(2).stop();
  queue->submit(request_of(Op::kCheck, items), 4);
  wait_until("the second one is charged", [&] {
    queue->process();
    return remaining("ten", 1) == 8;
  });
  EXPECT_EQ(remaining("ten", 0), 8);
  for (int i = 0; i < 20; ++i) {  // and has said so, and the third one is asked
    queue->process();
    queue->wait(5'000);
  }
  cluster_.node(1).kill();
  queue->submit(check(*ten, subjects_[1]), 5);
  std::vector<Completion> all;
  ASSERT_NO_THROW(all = collect(*queue, 1));
  ASSERT_EQ(all.size(), 1U);
  ASSERT_EQ(all[0].user_data, 5U);
  ASSERT_EQ(all[0].decision.outcome, Outcome::kUnavailable);
  cluster_.node(2).go_on();
  ASSERT_NO_THROW(all = collect(*queue, 1));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].user_data, 4U);
  EXPECT_EQ(all[0].decision.outcome, Outcome::kDenied);
  EXPECT_EQ(all[0].decision.item, 2);
  EXPECT_EQ(queue->pending(), 0U);
  queue->submit(check(*ten, subjects_[0]), 6);
  all = collect(*queue, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].decision.remaining, 8);
}

// A refund that reached one of two servers is not one that may be made again.
TEST_F(RedisClusterAcross, ARefundMadeInPartDoesNotLookUndone) {
  const auto store = open(cluster_.url(), patient());
  struct Taken {
    std::shared_ptr<Limiter> limiter;
    std::vector<Item> items;
    std::vector<Ticket> tickets;
  };
  std::vector<Taken> all;
  for (const std::size_t first : {0U, 1U}) {
    Taken one{make_limiter(store, "10/h", "first" + std::to_string(first)), {}, {}};
    one.items = {{one.limiter.get(), subjects_[first]}, {one.limiter.get(), subjects_[1 - first]}};
    one.tickets.resize(2);
    Request taken = request_of(Op::kCheck, one.items);
    taken.tickets_out = one.tickets;
    ASSERT_EQ(outcome(taken), Outcome::kAllowed);
    ASSERT_EQ(outcome(check(*one.limiter, subjects_[0], 4)), Outcome::kAllowed);
    ASSERT_EQ(remaining(one.limiter->name(), 0), 5);
    all.push_back(std::move(one));
  }
  cluster_.node(1).kill();
  for (const Taken& one : all) {
    SCOPED_TRACE(one.limiter->name());
    Request back = request_of(Op::kRefund, one.items);
    back.tickets = one.tickets;
    const Decision d = ask(back).decision;
    EXPECT_EQ(d.outcome, Outcome::kUnavailable);
    EXPECT_EQ(remaining(one.limiter->name(), 0), 6);
    EXPECT_FALSE(is_certainly_undone(d.reason)) << static_cast<int>(d.reason);
  }
}

// One that reached nobody is.
TEST_F(RedisClusterAcross, ARefundThatReachedNobodyLooksUndone) {
  const auto store = open(cluster_.url(), patient());
  const auto limiter = make_limiter(store, "10/h", "nobody");
  const std::vector<Item> items = {{limiter.get(), subjects_[0]}, {limiter.get(), subjects_[1]}};
  std::vector<Ticket> tickets(2);
  Request taken = request_of(Op::kCheck, items);
  taken.tickets_out = tickets;
  ASSERT_EQ(outcome(taken), Outcome::kAllowed);
  for (const std::size_t i : {0U, 1U}) cluster_.node(i).kill();
  // Those that find the connections broken cannot tell.
  for (const std::size_t i : {0U, 1U}) ask(check(*limiter, subjects_[i]));
  Request back = request_of(Op::kRefund, items);
  back.tickets = tickets;
  const Decision d = ask(back).decision;
  EXPECT_EQ(d.outcome, Outcome::kUnavailable);
  EXPECT_TRUE(is_certainly_undone(d.reason)) << static_cast<int>(d.reason);
}

// A node of a cluster that knows an owner for the lower half of the slots only, then is silent,
// then knows all.
class Half {
 public:
  enum class Mood { kHalf, kSilent, kWhole };

  void set(Mood mood) { mood_ = mood; }
  std::string url() const { return "redis+cluster://127.0.0.1:" + std::to_string(server_.port()); }
  int map_questions() const { return questions_; }

 private:
  Act answer(const Command& command) {
    const bool asks_for_map = command[0] == "CLUSTER";
    if (asks_for_map) ++questions_;
    if (mood_ == Mood::kSilent) return stay_silent();
    if (asks_for_map) {
      const std::string last = mood_ == Mood::kWhole ? "16383" : "8191";
      return say("*1\r\n*3\r\n:0\r\n:" + last +
                 "\r\n*2\r\n$0\r\n\r\n:" + std::to_string(server_.port()) + "\r\n");
    }
    if (command[0] == "EVALSHA" && command[2] != "0") return say(batch_reply(kNow, {-1'000'000}));
    if (command[0] == "EVALSHA") return say(batch_reply(kNow, {}));
    if (command[0] != "SCRIPT") return say("+OK\r\n");
    return say("$40\r\n" + std::string(lua::kScriptSha1) + "\r\n");
  }

  static constexpr std::int64_t kNow = 1'790'000'000'000'000;
  std::atomic<Mood> mood_{Mood::kHalf};
  std::atomic<int> questions_{0};
  FakeServer server_{[this](const Command& command) { return answer(command); },
                     [this](const Command& command) { return answer(command); }};
};

// The last thread leaves while its request and a question for the map are on the wire, and both are
// given up: the next one asks for the map again.
TEST(RedisClusterMap, IsAskedForAgainAfterAQuestionThatWasGivenUp) {
  Half cluster;
  const auto store = open(cluster.url(), patient());
  const auto calm = make_limiter(store, "10/h", "calm");
  const auto limiter = make_limiter(store, "10/h", "hasty", 150'000);
  const std::string here = "b";   // slot 3300
  const std::string there = "a";  // slot 15495
  ASSERT_EQ(redis::slot_of("{" + here + "}"), 3300);
  ASSERT_EQ(redis::slot_of("{" + there + "}"), 15495);
  ASSERT_EQ(outcome(check(*calm, here)), Outcome::kAllowed);
  const int before = cluster.map_questions();
  cluster.set(Half::Mood::kSilent);
  wait_until("the map is asked for", [&] {
    EXPECT_EQ(outcome(check(*limiter, there)), Outcome::kUnavailable);
    return cluster.map_questions() > before;
  });
  EXPECT_EQ(reason(check(*limiter, here)), Reason::kTimeout);
  cluster.set(Half::Mood::kWhole);
  const Micros give_up = system_monotonic() + 10 * kSecond;
  Decision d;
  do {
    d = ask(check(*limiter, there)).decision;
  } while (d.outcome == Outcome::kUnavailable && system_monotonic() < give_up);
  EXPECT_EQ(d.outcome, Outcome::kAllowed) << static_cast<int>(d.reason);
}

}  // namespace
}  // namespace saqiya::testing

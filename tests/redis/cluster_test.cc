// A real cluster: all that works on one server works here, and goes on working while slots move and
// servers die.
#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "tests/redis/cluster.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;

// One for all tests that leave it as it was.
Cluster& calm_cluster() {
  static Cluster cluster({.masters = 3, .replicas = 0});
  return cluster;
}

Request check_all(std::span<const Item> items) {
  Request request;
  request.limiter = items[0].limiter;  // for the sake of ask()
  request.items = items;
  return request;
}

Request peek_all(std::span<const Item> items) {
  Request request = check_all(items);
  request.op = Op::kPeek;
  return request;
}

std::int64_t remaining(const Limiter& limiter, std::string_view key) {
  return ask(peek(limiter, key)).decision.remaining;
}

// C68: whatever bytes a subject has, it is decided, in its slot.
TEST(RedisCluster, EverySubjectIsDecidedWhereItBelongs) {
  const auto store = open(calm_cluster().url(), patient());
  const auto limiter = make_limiter(store, "3/h", "subjects");
  const std::vector<std::string> subjects = {"",
                                             "{",
                                             "}",
                                             "{}",
                                             "}{",
                                             "{a}",
                                             "a{b}c",
                                             "{}{x}",
                                             "user:1",
                                             "%7B",
                                             std::string(1, '\0'),
                                             std::string(300, 'x')};
  for (const std::string& subject : subjects) {
    for (int left = 2; left >= 0; --left) {
      ASSERT_EQ(ask(check(*limiter, subject)).decision.remaining, left) << subject;
    }
    EXPECT_EQ(outcome(check(*limiter, subject)), Outcome::kDenied) << subject;
  }
}

TEST(RedisCluster, ManySubjectsAreSpreadOverAllMasters) {
  const auto store = open(calm_cluster().url(), patient());
  const auto limiter = make_limiter(store, "2/h", "spread");
  auto queue = open_queue(store);
  for (std::uint64_t i = 0; i < 3000; ++i) {
    ASSERT_EQ(queue->submit(check(*limiter, "u" + std::to_string(i / 3)), i), SubmitResult::kOk);
  }
  std::vector<int> allowed(1000);
  for (const Completion& c : collect(*queue, 3000)) {
    ASSERT_NE(c.decision.outcome, Outcome::kUnavailable);
    allowed[c.user_data / 3] += c.decision.outcome == Outcome::kAllowed ? 1 : 0;
  }
  for (const int count : allowed) ASSERT_EQ(count, 2);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_GT(calm_cluster().node(i).client().keys().size(), 200U);
  }
}

// A key that everybody asks for shares its calls, as on one server.
TEST(RedisCluster, AHotKeySharesItsCalls) {
  const auto store = open(calm_cluster().url(), patient());
  const auto limiter = make_limiter(store, "1/h burst 10000", "hot");
  ASSERT_EQ(outcome(check(*limiter, "warm")), Outcome::kAllowed);
  auto queue = open_queue(store);
  const std::uint64_t before = store->stats().batches;
  for (std::uint64_t i = 0; i < 3200; ++i) queue->submit(check(*limiter, "hot"), i);
  EXPECT_EQ(collect(*queue, 3200).size(), 3200U);
  EXPECT_LT(store->stats().batches - before, 400U);
  EXPECT_EQ(remaining(*limiter, "hot"), 10'000 - 3200);
}

// C149: four limits of one subject are one call.
TEST(RedisCluster, LimitsOfOneSubjectAreOneCall) {
  const auto store = open(calm_cluster().url(), patient());
  std::vector<std::shared_ptr<Limiter>> limiters;
  std::vector<Item> items;
  for (int i = 0; i < 4; ++i) {
    limiters.push_back(make_limiter(store, "9/h", "four" + std::to_string(i)));
    items.push_back({limiters.back().get(), "{one} subject"});
  }
  ASSERT_EQ(outcome(check_all(items)), Outcome::kAllowed);
  const std::uint64_t before = store->stats().batches;
  ASSERT_EQ(outcome(check_all(items)), Outcome::kAllowed);
  EXPECT_EQ(store->stats().batches - before, 1U);
  for (const auto& limiter : limiters) EXPECT_EQ(remaining(*limiter, "{one} subject"), 7);
}

class RedisClusterItems : public ::testing::Test {
 protected:
  // Subjects whose keys no two masters share.
  RedisClusterItems() {
    std::set<std::size_t> masters;
    for (int i = 0; subjects_.size() < 3; ++i) {
      std::string subject = "s" + std::to_string(i);
      const std::string key = "{" + subject + "}";
      if (masters.insert(calm_cluster().master_of(calm_cluster().slot_of(key))).second) {
        subjects_.push_back(std::move(subject));
      }
    }
  }

  std::vector<Item> items(const std::vector<std::shared_ptr<Limiter>>& limiters) const {
    std::vector<Item> items;
    for (std::size_t i = 0; i < limiters.size(); ++i) {
      items.push_back({limiters[i].get(), subjects_[i % subjects_.size()]});
    }
    return items;
  }

  const std::shared_ptr<Store> store_ = open(calm_cluster().url(), patient());
  std::vector<std::string> subjects_;
};

TEST_F(RedisClusterItems, AcrossServersAllOrNothing) {
  const auto a = make_limiter(store_, "5/h", "all-a");
  const auto b = make_limiter(store_, "5/h", "all-b");
  const auto c = make_limiter(store_, "2/h", "all-c");
  const std::vector<Item> all = items({a, b, c});
  std::vector<Decision> each(3);
  std::vector<Ticket> tickets(3);
  Request request = check_all(all);
  request.each = each;
  request.tickets_out = tickets;
  EXPECT_EQ(ask(request).decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(each[0].remaining, 4);
  EXPECT_EQ(each[2].remaining, 1);
  EXPECT_EQ(outcome(check_all(all)), Outcome::kAllowed);
  const Decision refused = ask(request).decision;
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.item, 2);
  EXPECT_GT(refused.retry_after, 0);
  EXPECT_EQ(each[0].remaining, 3);
  EXPECT_EQ(remaining(*a, subjects_[0]), 3);
  EXPECT_EQ(remaining(*b, subjects_[1]), 3);
  EXPECT_EQ(remaining(*c, subjects_[2]), 0);
  EXPECT_EQ(ask(peek_all(all)).decision.outcome, Outcome::kDenied);
}

TEST_F(RedisClusterItems, AcrossServersTicketsGiveBack) {
  const auto a = make_limiter(store_, "5/h", "back-a");
  const auto b = make_limiter(store_, "fixed-window: 5/h", "back-b");
  const std::vector<Item> all = items({a, b});
  std::vector<Ticket> tickets(2);
  Request request = check_all(all);
  request.tickets_out = tickets;
  ASSERT_EQ(ask(request).decision.outcome, Outcome::kAllowed);
  ASSERT_EQ(ask(request).decision.outcome, Outcome::kAllowed);
  Request refund = check_all(all);
  refund.op = Op::kRefund;
  refund.tickets = tickets;
  EXPECT_EQ(ask(refund).decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(remaining(*a, subjects_[0]), 4);
  EXPECT_EQ(remaining(*b, subjects_[1]), 4);
  Request reset = check_all(all);
  reset.op = Op::kReset;
  EXPECT_EQ(ask(reset).decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(remaining(*a, subjects_[0]), 5);
  EXPECT_EQ(remaining(*b, subjects_[1]), 5);
}

TEST_F(RedisClusterItems, WhatCanNeverPassChargesNobody) {
  const auto a = make_limiter(store_, "5/h", "never-a");
  const auto b = make_limiter(store_, "5/h", "never-b");
  std::vector<Item> all = items({a, b});
  all[1].cost = 6;
  EXPECT_EQ(outcome(check_all(all)), Outcome::kNever);
  EXPECT_EQ(remaining(*a, subjects_[0]), 5);
}

// Four threads and a queue contend; what one limiter has granted all have been charged.
TEST_F(RedisClusterItems, AcrossServersExactUnderContention) {
  const auto a = make_limiter(store_, "1/h burst 100", "race-a");
  const auto b = make_limiter(store_, "1/h burst 80", "race-b");
  const auto c = make_limiter(store_, "1/h burst 60", "race-c");
  const std::vector<Item> forward = items({a, b, c});
  std::atomic<int> allowed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Outcome o = outcome(check_all(forward));
        ASSERT_NE(o, Outcome::kUnavailable);
        allowed += o == Outcome::kAllowed ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_LE(allowed, 60);
  EXPECT_EQ(remaining(*a, subjects_[0]), 100 - allowed);
  EXPECT_EQ(remaining(*b, subjects_[1]), 80 - allowed);
  EXPECT_EQ(remaining(*c, subjects_[2]), 60 - allowed);
}

TEST_F(RedisClusterItems, CancelledAcrossServersIsGivenBack) {
  const auto a = make_limiter(store_, "9/h", "cancel-a");
  const auto b = make_limiter(store_, "9/h", "cancel-b");
  const std::vector<Item> all = items({a, b});
  ASSERT_EQ(outcome(check_all(all)), Outcome::kAllowed);
  auto queue = open_queue(store_);
  queue->submit(check_all(all), 1);
  EXPECT_EQ(collect(*queue, 1).size(), 1U);
  int left = 7;
  for (int turns = 0; turns < 4; ++turns) {
    queue->submit(check_all(all), 2);
    for (int i = 0; i < turns; ++i) queue->process();
    const bool cancelled = queue->cancel(2);
    // On a busy machine the answers may be here after so many turns: then it has been charged.
    EXPECT_TRUE(cancelled || turns > 0);
    if (!cancelled) --left;
    queue->submit(peek(*a, subjects_[0]), 3);
    queue->submit(peek(*b, subjects_[1]), 4);
    EXPECT_EQ(collect(*queue, cancelled ? 2 : 3).size(), cancelled ? 2U : 3U);
  }
  const Micros give_up = system_monotonic() + 20 * kSecond;
  while ((remaining(*a, subjects_[0]) != left || remaining(*b, subjects_[1]) != left) &&
         system_monotonic() < give_up) {
    queue->process();
    queue->wait(1000);
  }
  EXPECT_EQ(remaining(*a, subjects_[0]), left);
  EXPECT_EQ(remaining(*b, subjects_[1]), left);
}

// C76: the same address, taken for a server of its own.
TEST(RedisCluster, WithoutTheSchemeAClusterIsRefused) {
  const auto store = open(calm_cluster().node(0).url(), patient());
  const auto limiter = make_limiter(store, "9/h", "single");
  std::set<Reason> reasons;
  for (int i = 0; i < 20; ++i) reasons.insert(reason(check(*limiter, "u" + std::to_string(i))));
  EXPECT_EQ(reasons.count(Reason::kRefused), 1U);
}

TEST(RedisCluster, ASeedThatIsDownIsPassedOver) {
  const std::string url = "redis+cluster://127.0.0.1:" + std::to_string(free_port()) +
                          ",127.0.0.1:" + std::to_string(calm_cluster().node(1).port());
  const auto limiter = make_limiter(open(url, patient()), "9/h", "seeds");
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
}

TEST(RedisCluster, WithNobodyThereItIsNoConnection) {
  const std::string url = "redis+cluster://127.0.0.1:" + std::to_string(free_port());
  const auto limiter = make_limiter(open(url, patient()), "9/h", "nobody");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(reason(check(*limiter, "u")), Reason::kConnect);
}

// C68, C55: a slot moves under load, key by key, to a server that has never seen the script.
TEST(RedisClusterChanges, ReshardingLosesNoCountAndNoRequest) {
  Cluster cluster({.masters = 3, .replicas = 0});
  const auto store = open(cluster.url(), patient());
  const auto limiter = make_limiter(store, "100/h burst 1000000", "moving");
  const auto two = make_limiter(store, "100/h burst 1000000; fixed-window: 900000/day", "moving2");
  const int slot = cluster.slot_of("{u}");
  std::atomic<bool> stop{false};
  std::atomic<int> allowed{0};
  std::atomic<int> allowed_two{0};
  std::atomic<int> others{0};
  std::atomic<Reason> why{Reason::kNone};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) {
        const Limiter& asked = t == 2 ? *two : *limiter;
        const Decision d = ask(check(asked, "u")).decision;
        const bool ok = d.outcome == Outcome::kAllowed;
        if (!ok) why = d.reason;
        ++(ok ? (t == 2 ? allowed_two : allowed) : others);
      }
    });
  }
  std::size_t at = cluster.master_of(slot);
  for (int round = 0; round < 6; ++round) {
    const std::size_t to = (at + 1) % 3;
    cluster.node(to).client()({"SCRIPT", "FLUSH"});
    cluster.begin_migration(slot, to);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cluster.migrate_keys(slot, to, 1);  // one of the three: two rules are now TRYAGAIN, perhaps
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    cluster.migrate_keys(slot, to);
    cluster.end_migration(slot, to);
    at = to;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(1'000'000 - remaining(*limiter, "u"), allowed);
  EXPECT_EQ(900'000 - remaining(*two, "u"), allowed_two);
  EXPECT_EQ(others, 0) << static_cast<int>(why.load());
  EXPECT_GT(allowed, 100);
}

// A master is killed; its replica takes over. The slots of others never notice.
TEST(RedisClusterChanges, FailoverOfAMaster) {
  Cluster cluster({.masters = 3, .replicas = 1});
  StoreOptions options;
  options.deadline = 200'000;
  const auto store = open(cluster.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 100000", "failover", 5 * kSecond);
  const std::vector<std::string> subjects = cluster.a_subject_of_each();
  for (const std::string& s : subjects) ASSERT_EQ(outcome(check(*limiter, s)), Outcome::kAllowed);
  cluster.node(0).client()({"WAIT", "1", "2000"});
  cluster.node(0).kill();
  bool up = false;
  const Micros give_up = system_monotonic() + 30 * kSecond;
  while (!up && system_monotonic() < give_up) {
    const Decision d = ask(check(*limiter, subjects[0])).decision;
    up = d.outcome == Outcome::kAllowed;
    ASSERT_EQ(d.outcome, up ? Outcome::kAllowed : Outcome::kUnavailable);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(up);
  for (const std::string& s : subjects) {
    EXPECT_EQ(ask_until_up(check(*limiter, s)).outcome, Outcome::kAllowed);
  }
  EXPECT_LE(remaining(*limiter, subjects[0]), 100'000 - 3);
}

// What an engine knew of a dead master is not left behind when the engine goes.
TEST(RedisClusterChanges, AMasterThatWasReplacedIsNoOutage) {
  Cluster cluster({.masters = 3, .replicas = 1});
  StoreOptions options;
  options.deadline = 200'000;
  const auto store = open(cluster.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 100000", "gone");
  const std::string subject = cluster.a_subject_of_each()[0];
  auto queue = open_queue(store);
  const auto ask_queue = [&] {
    queue->submit(check(*limiter, subject), 1);
    return collect(*queue, 1).at(0).decision.outcome;
  };
  ASSERT_EQ(ask_queue(), Outcome::kAllowed);
  cluster.node(0).kill();
  while (!store->stats().degraded) ask_queue();
  queue.reset();
  cluster.wait_until_ok();
  queue = open_queue(store);
  const Micros give_up = system_monotonic() + 30 * kSecond;
  while (ask_queue() != Outcome::kAllowed && system_monotonic() < give_up) {
  }
  EXPECT_EQ(ask_queue(), Outcome::kAllowed);
  EXPECT_FALSE(store->stats().degraded);
}

}  // namespace
}  // namespace saqiya::testing

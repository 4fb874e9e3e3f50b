// Forks: of forks, under load, and at moments when other threads hold locks.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "core/fork.h"
#include "core/redis/breaker.h"
#include "tests/redis/child.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

// The server's numbers of the connections that are not its tests'.
std::set<std::string> connection_ids(Client& client) {
  std::set<std::string> ids;
  const std::string all = client.text({"CLIENT", "LIST"});
  const std::string own = std::to_string(client.number({"CLIENT", "ID"}));
  for (std::size_t at = 0; at < all.size(); at = all.find('\n', at) + 1) {
    const std::string id = all.substr(at + 3, all.find(' ', at) - at - 3);
    if (id != own) ids.insert(id);
  }
  return ids;
}

// Each generation forks the next, and all of them ask at once; the cost is a nonce that shows whose
// answer it is in what remains.
int ask_and_fork(const std::shared_ptr<Limiter>& limiter, Queue& queue, int depth) {
  pid_t child = 0;
  const int cost = 10 + depth;
  for (int i = 1; i <= 200; ++i) {
    if (i == 20 && depth < 4) {
      child = in_child([&] { return ask_and_fork(limiter, queue, depth + 1); });
    }
    const std::string key = std::to_string(depth) + ":" + std::to_string(i);
    if (ask(check(*limiter, key, cost)).decision.remaining != 100'000 - cost) return 1;
    queue.submit(check(*limiter, key, cost), static_cast<std::uint64_t>(i));
    const auto all = collect(queue, 1);
    if (all.size() != 1 || all[0].user_data != static_cast<std::uint64_t>(i)) return 2;
    if (all[0].decision.remaining != 100'000 - 2 * cost) return 3;
  }
  return child == 0 ? 0 : exit_code(child);
}

TEST(RedisForks, GrandchildrenHaveConnectionsOfTheirOwn) {
  RedisServer server;
  Client plain = server.client();
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "1/h burst 100000", "g");
  const auto queue = open_queue(store);
  ASSERT_EQ(outcome(check(*limiter, "warm")), Outcome::kAllowed);
  queue->submit(check(*limiter, "warm"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  const std::set<std::string> before = connection_ids(plain);
  ASSERT_EQ(before.size(), 2U);
  EXPECT_EQ(ask_and_fork(limiter, *queue, 0), 0);
  const std::set<std::string> after = connection_ids(plain);
  for (const std::string& id : before) EXPECT_TRUE(after.count(id)) << "the parent's is gone";
  EXPECT_EQ(store->stats().connects, 2U);
}

// A clock that can be made to stand in the midst of being read: then its reader holds the locks
// under which batches are made.
class Latch final : public Clock {
 public:
  Micros monotonic() const override { return system_monotonic(); }
  Micros wall() const override {
    std::unique_lock lock(mutex_);
    if (closed_) ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
    return system_wall();
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    waiting_ = 0;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    closed_ = false;
    changed_.notify_all();
  }
  void await_readers(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= count; });
  }
  // In a child: nobody else is there any more.
  static Latch* fresh(Latch* old) { return new (old) Latch; }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int waiting_ = 0;
  bool closed_ = false;
};

// C131: a thread of the parent holds the lock of a connection at the moment of the fork, others
// wait for it, and one sleeps until it is answered.
TEST(RedisForks, AChildNeedsNoLockThatWasHeld) {
  RedisServer server;
  const auto clock = std::make_shared<Latch>();
  StoreOptions options = timed(clock);
  options.connections = 1;
  const auto store = open(server.url(), options);
  const auto limiter = make_limiter(store, "1/h burst 1000", "l");
  ASSERT_EQ(outcome(check(*limiter, "warm")), Outcome::kAllowed);
  auto queue = open_queue(store);
  clock->close();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] { EXPECT_EQ(outcome(check(*limiter, "held")), Outcome::kAllowed); });
  }
  clock->await_readers(1);
  // Nor may a thread be within malloc there (child.h): the others go to sleep first.
  if (test::kAddressSanitized) std::this_thread::sleep_for(std::chrono::seconds(1));
  for (int i = 0; i < 20; ++i) {
    const pid_t child = in_child([&] {
      Latch::fresh(clock.get());
      if (ask(check(*limiter, "child")).decision.remaining != 1000 - i - 1) return 1;
      queue->submit(check(*limiter, "queue"), 1);
      return collect(*queue, 1).size() == 1 ? 0 : 2;
    });
    EXPECT_EQ(exit_code(child), 0);
  }
  clock->open();
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ask(peek(*limiter, "held")).decision.remaining, 1000 - 4);
}

// A child that has closed all descriptors has others under the same numbers: a store's first use in
// the child closes none of them, nor does it read or write there.
TEST(RedisForks, AChildKeepsWhatItOpenedUnderTheSameNumbers) {
  RedisServer server;
  const auto store =
      open("redis://localhost:" + std::to_string(server.port()), patient());  // asks for a name
  const auto limiter = make_limiter(store, "1/h burst 1000", "d");
  auto queue = open_queue(store);
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  queue->submit(check(*limiter, "u"), 1);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  EXPECT_EQ(exit_code(in_child([&] {
              constexpr int kFirst = 3;
              constexpr int kEnd = 128;
              for (int fd = kFirst; fd < kEnd; ++fd) ::close(fd);
              for (int fd = kFirst; fd < kEnd; ++fd) {
                if (::open("/dev/null", O_RDWR) != fd) return 1;
              }
              std::array<int, 2> ends{};
              const int kind = SOCK_STREAM | SOCK_NONBLOCK;
              if (::socketpair(AF_UNIX, kind, 0, ends.data()) != 0) return 2;
              for (int fd = kFirst; fd < kEnd; ++fd) ::dup2(ends[0], fd);
              struct stat all {};
              if (::fstat(ends[0], &all) != 0) return 3;
              if (ask(check(*limiter, "u")).decision.remaining != 1000 - 3) return 4;
              queue->submit(check(*limiter, "u"), 2);
              if (collect(*queue, 1).size() != 1) return 5;
              for (int fd = kFirst; fd < kEnd; ++fd) {
                struct stat one {};
                if (::fstat(fd, &one) != 0) return 6;
                if (one.st_dev != all.st_dev || one.st_ino != all.st_ino) return 7;
              }
              char byte = 0;
              return ::read(ends[1], &byte, 1) < 0 ? 0 : 8;  // nothing was written there
            })),
            0);
  EXPECT_EQ(ask(peek(*limiter, "u")).decision.remaining, 1000 - 4);
}

// A child knows nothing of the parent's outage. Nor, in one of its own, does it wait for an attempt
// to connect that the parent had begun.
TEST(RedisForks, AClaimOfTheParentsIsNoneInTheChild) {
  ASSERT_TRUE(watch_forks());
  redis::Breaker breaker;
  const Micros now = system_monotonic();
  breaker.failed(Reason::kConnect, now);
  const Micros later = now + 2 * kMicrosPerSecond;
  ASSERT_TRUE(breaker.try_claim(later));
  EXPECT_FALSE(breaker.try_claim(later));
  EXPECT_EQ(exit_code(in_child([&] {
              if (breaker.is_open()) return 1;
              breaker.failed(Reason::kConnect, now);
              if (!breaker.try_claim(later)) return 2;
              return breaker.try_claim(later) ? 3 : 0;
            })),
            0);
  EXPECT_FALSE(breaker.try_claim(later));
}

// C131: forks while threads are inside the store: looking up a name, hashing subjects with a
// secret, finding calendar windows, waiting for each other.
TEST(RedisForks, UnderLoadOfEveryKindNoneHangs) {
  RedisServer server;
  StoreOptions options = patient();
  options.connections = 2;
  options.hash_subjects = true;
  options.secret = "pepper";
  const auto store = open("redis://localhost:" + std::to_string(server.port()), options);
  const auto bucket = make_limiter(store, "1/h burst 300000", "b");
  const auto rules = make_limiter(
      store, "1/h burst 300000; calendar: 300000/day tz Europe/Berlin; sliding-log: 3000000/s",
      "r");
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreadsBesideForks; ++t) {
    threads.emplace_back([&, t] {
      const std::string key = std::to_string(t);
      while (!stop) {
        const Limiter& limiter = t % 2 == 0 ? *bucket : *rules;
        failed += outcome(check(limiter, key)) == Outcome::kUnavailable ? 1 : 0;
      }
    });
  }
  int bad = 0;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = in_child([&] {
      return outcome(check(i % 2 == 0 ? *bucket : *rules, "child")) == Outcome::kUnavailable ? 1
                                                                                             : 0;
    });
    bad += exit_code(child) == 0 ? 0 : 1;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace saqiya::testing

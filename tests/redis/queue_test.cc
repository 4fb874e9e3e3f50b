// The queue's contract, on a real server.
#include <poll.h>

#include <future>
#include <map>
#include <set>

#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

class RedisQueueTest : public ::testing::Test {
 protected:
  RedisServer server_;
  std::shared_ptr<Store> store_ = open(server_.url(), patient());
  std::shared_ptr<Limiter> limiter_ = make_limiter(store_, "5/h", "q");
};

TEST_F(RedisQueueTest, EverySubmitCompletesOnceInOrder) {
  auto queue = open_queue(store_);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(queue->submit(check(*limiter_, std::to_string(i % 100)), i), SubmitResult::kOk);
  }
  EXPECT_EQ(queue->pending(), 1000U);
  const auto all = collect(*queue, 1000);
  ASSERT_EQ(all.size(), 1000U);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(all[i].user_data, i);
    EXPECT_EQ(all[i].decision.outcome, i < 500 ? Outcome::kAllowed : Outcome::kDenied);
  }
  EXPECT_EQ(queue->pending(), 0U);
  EXPECT_EQ(queue->timeout(), -1);
  EXPECT_TRUE(collect(*queue, 0).empty());
}

TEST_F(RedisQueueTest, CapacityCountsWhatIsNotDrained) {
  QueueOptions options;
  options.capacity = 10;
  auto queue = open_queue(store_, options);
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(queue->submit(check(*limiter_, "u"), i), SubmitResult::kOk);
  }
  EXPECT_EQ(queue->submit(check(*limiter_, "u"), 10), SubmitResult::kFull);
  while (queue->timeout() != 0 || queue->pending() != 10) queue->process();
  Completion one;
  std::size_t got = 0;
  while ((got = queue->drain({&one, 1})) == 0) {
    queue->process();
    queue->wait(kMicrosPerSecond);
  }
  EXPECT_EQ(queue->pending(), 9U);
  EXPECT_EQ(queue->submit(check(*limiter_, "u"), 10), SubmitResult::kOk);
  EXPECT_EQ(queue->submit(check(*limiter_, "u"), 11), SubmitResult::kFull);
  EXPECT_EQ(collect(*queue, 10).size(), 10U);
}

TEST_F(RedisQueueTest, TheDescriptorTellsWhenRepliesAreThere) {
  auto queue = open_queue(store_);
  const int fd = queue->fd();
  queue->submit(check(*limiter_, "u"), 7);
  EXPECT_EQ(queue->timeout(), 0);
  std::vector<Completion> done(4);
  std::size_t got = 0;
  // A loop as an event loop does it: waits for the descriptor or the timeout, nothing else.
  for (int turns = 0; turns < 1000 && got == 0; ++turns) {
    queue->process();
    got = queue->drain(done);
    if (got > 0) break;
    pollfd p{fd, POLLIN, 0};
    const Micros due = queue->timeout();
    ASSERT_NE(due, -1);
    ::poll(&p, 1, static_cast<int>(due / 1000 + 1));
    EXPECT_EQ(queue->fd(), fd);
  }
  ASSERT_EQ(got, 1U);
  EXPECT_EQ(done[0].user_data, 7U);
  pollfd p{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
}

TEST_F(RedisQueueTest, FullBatchesLeaveWithinSubmit) {
  QueueOptions options;
  options.batch = 8;
  options.in_flight = 2;
  auto queue = open_queue(store_, options);
  queue->submit(check(*limiter_, "first"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  const std::uint64_t before = store_->stats().requests;
  for (std::uint64_t i = 0; i < 7; ++i) queue->submit(check(*limiter_, "u"), i);
  EXPECT_EQ(store_->stats().requests, before);
  queue->submit(check(*limiter_, "u"), 7);
  EXPECT_EQ(store_->stats().requests, before + 8);
  // At most two batches are on the wire; the rest waits for replies.
  for (std::uint64_t i = 8; i < 40; ++i) queue->submit(check(*limiter_, "u"), i);
  EXPECT_LE(store_->stats().requests, before + 40);
  EXPECT_EQ(collect(*queue, 40).size(), 40U);
  EXPECT_EQ(store_->stats().requests, before + 40);
}

TEST_F(RedisQueueTest, CancelBeforeSendingDropsTheNewest) {
  auto queue = open_queue(store_);
  queue->submit(check(*limiter_, "a"), 1);
  queue->submit(check(*limiter_, "b"), 2);
  queue->submit(check(*limiter_, "c"), 1);
  EXPECT_TRUE(queue->cancel(1));
  EXPECT_EQ(queue->pending(), 2U);
  EXPECT_FALSE(queue->cancel(3));
  const auto all = collect(*queue, 2);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].user_data, 1U);
  EXPECT_EQ(all[1].user_data, 2U);
  EXPECT_FALSE(queue->cancel(1));
  EXPECT_THAT(server_.client().keys(), ::testing::UnorderedElementsAre("sq:{a}:q:b", "sq:{b}:q:b"));
}

TEST_F(RedisQueueTest, CancelAfterSendingGivesTheChargeBack) {
  auto queue = open_queue(store_);
  queue->submit(check(*limiter_, "warm"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  Request quiet = check(*limiter_, "u", 3);
  quiet.want_ticket = false;
  queue->submit(quiet, 1);
  queue->submit(check(*limiter_, "u", 1), 2);
  const std::uint64_t before = store_->stats().requests;
  queue->process();
  ASSERT_EQ(store_->stats().requests, before + 2);
  EXPECT_TRUE(queue->cancel(1));
  EXPECT_EQ(queue->pending(), 1U);
  const auto all = collect(*queue, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].user_data, 2U);
  EXPECT_EQ(all[0].decision.remaining, 1);
  // The refund travels by itself; a peek behind it sees the bucket without the cancelled charge.
  queue->submit(peek(*limiter_, "u"), 3);
  const auto after = collect(*queue, 1);
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].user_data, 3U);
  EXPECT_EQ(after[0].decision.remaining, 4);
  EXPECT_EQ(store_->stats().requests, before + 4);
}

// A batch that begins with requests which were cancelled before it left: their slots are used anew
// while it is on the wire.
TEST(RedisQueue, CancelledRequestsAtTheHeadOfABatchAreNobodyElses) {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  int batches = 0;
  FakeServer server([&](const Command& command) {
    if (++batches == 3) opened.wait();
    const int count = std::stoi(command[2]);
    std::string reply = "*" + std::to_string(count + 1) + "\r\n:1000\r\n";
    for (int i = 0; i < count; ++i) reply += ":-100\r\n";
    return say(reply);
  });
  const auto store = open(server.url(), patient());
  const auto limiter = make_limiter(store, "5/s");
  QueueOptions options;
  options.batch = 8;
  options.in_flight = 16;
  auto queue = open_queue(store, options);
  std::uint64_t next = 0;
  const auto submit = [&](int count) {
    for (int i = 0; i < count; ++i) queue->submit(check(*limiter, "u"), next++);
  };
  submit(1);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  submit(8);  // the second batch
  submit(3);
  EXPECT_TRUE(queue->cancel(9));
  EXPECT_TRUE(queue->cancel(10));
  submit(7);  // with the one left these make the third batch
  ASSERT_EQ(collect(*queue, 8).size(), 8U);
  submit(56);  // the ring's 64 slots are all in use, those of 9 and 10 by others
  gate.set_value();
  const auto all = collect(*queue, 64);
  ASSERT_EQ(all.size(), 64U);
  for (const Completion& c : all) EXPECT_EQ(c.decision.outcome, Outcome::kAllowed) << c.user_data;
  EXPECT_EQ(queue->pending(), 0U);
}

TEST_F(RedisQueueTest, ALateRequestCostsTheOthersNothing) {
  const auto hasty = make_limiter(store_, "5/h", "hasty", 150'000);
  auto queue = open_queue(store_);
  queue->submit(check(*limiter_, "warm"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  server_.client()({"CLIENT", "PAUSE", "800", "ALL"});
  for (std::uint64_t i = 1; i <= 20; ++i) queue->submit(check(*limiter_, std::to_string(i)), i);
  queue->submit(check(*hasty, "u"), 99);
  const auto all = collect(*queue, 21);
  ASSERT_EQ(all.size(), 21U);
  EXPECT_EQ(all[0].user_data, 99U);
  EXPECT_EQ(all[0].decision.reason, Reason::kTimeout);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    EXPECT_EQ(all[i].user_data, i);
    EXPECT_EQ(all[i].decision.outcome, Outcome::kAllowed);
  }
  EXPECT_EQ(store_->stats().connects, 1U);
}

TEST_F(RedisQueueTest, CloseEndsEverything) {
  auto queue = open_queue(store_);
  queue->submit(check(*limiter_, "warm"), 0);
  ASSERT_EQ(collect(*queue, 1).size(), 1U);
  queue->submit(check(*limiter_, "sent"), 1);
  queue->process();
  queue->submit(check(*limiter_, "waiting"), 2);
  queue->close();
  EXPECT_EQ(queue->submit(check(*limiter_, "late"), 3), SubmitResult::kClosed);
  const auto all = collect(*queue, 2);
  ASSERT_EQ(all.size(), 2U);
  for (const Completion& c : all) {
    EXPECT_EQ(c.decision.outcome, Outcome::kUnavailable);
    EXPECT_EQ(c.decision.reason, Reason::kCancelled);
  }
  EXPECT_EQ(queue->pending(), 0U);
  EXPECT_EQ(queue->timeout(), -1);
  queue->close();
  queue->process();
}

TEST_F(RedisQueueTest, LimitersLiveUntilTheirRequestsAreDone) {
  auto queue = open_queue(store_);
  std::weak_ptr<Limiter> watched;
  {
    const auto short_lived = make_limiter(store_, "9/h", "short");
    watched = short_lived;
    queue->submit(check(*short_lived, "u"), 1);
  }
  EXPECT_FALSE(watched.expired());
  const auto all = collect(*queue, 1);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].decision.remaining, 8);
  // At most one idle limiter stays with the queue: the one used last.
  queue->submit(check(*limiter_, "u"), 2);
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(collect(*queue, 1).size(), 1U);
}

TEST_F(RedisQueueTest, ManyLimitersShareBatches) {
  std::vector<std::shared_ptr<Limiter>> limiters;
  for (int i = 0; i < 50; ++i) {
    limiters.push_back(make_limiter(store_, std::to_string(i + 1) + (i % 3 == 0 ? "/h" : "/7s")));
  }
  auto queue = open_queue(store_);
  std::map<std::uint64_t, int> expected;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    queue->submit(check(*limiters[i % 50], "u" + std::to_string(i / 50)), i);
  }
  const auto all = collect(*queue, 2000);
  ASSERT_EQ(all.size(), 2000U);
  for (const Completion& c : all) {
    EXPECT_EQ(c.decision.outcome, Outcome::kAllowed);
    EXPECT_EQ(c.decision.limit, static_cast<std::int64_t>(c.user_data % 50) + 1);
    EXPECT_EQ(c.decision.remaining, c.decision.limit - 1);
  }
}

TEST_F(RedisQueueTest, LongAndBinaryKeysTravel) {
  auto queue = open_queue(store_);
  std::string binary;
  for (int i = 0; i < 256; ++i) binary.push_back(static_cast<char>(i));
  const std::vector<std::string> keys = {
      "", binary.substr(0, 60), binary, std::string(kMaxKey, 'k'), "\r\n", "$5\r\nhello"};
  for (std::uint64_t round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < keys.size(); ++i) queue->submit(check(*limiter_, keys[i]), i);
  }
  const auto all = collect(*queue, 2 * keys.size());
  ASSERT_EQ(all.size(), 2 * keys.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].decision.remaining, i < keys.size() ? 4 : 3);
  }
}

TEST_F(RedisQueueTest, QueuesOutliveTheirStoreHandle) {
  auto queue = open_queue(store_);
  auto limiter = make_limiter(store_, "9/h", "last");
  queue->submit(check(*limiter, "u"), 1);
  limiter.reset();
  limiter_.reset();
  store_.reset();
  EXPECT_EQ(collect(*queue, 1).size(), 1U);
}

TEST_F(RedisQueueTest, CancelledSlotsAreBounded) {
  QueueOptions options;
  options.capacity = 16;
  auto queue = open_queue(store_, options);
  queue->submit(check(*limiter_, "stays"), 0);
  bool full = false;
  for (std::uint64_t i = 1; i < 1'000'000 && !full; ++i) {
    full = queue->submit(check(*limiter_, "u"), i) == SubmitResult::kFull;
    if (!full) {
      EXPECT_TRUE(queue->cancel(i));
    }
  }
  // Those at the end are taken back at once: nothing piles up.
  EXPECT_FALSE(full);
  EXPECT_EQ(collect(*queue, 1).size(), 1U);
}

}  // namespace
}  // namespace saqiya::testing

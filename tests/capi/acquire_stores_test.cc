// Waiting on both kinds of store, in real time; and a store that is gone.
#include <atomic>
#include <thread>

#include "tests/capi/stores.h"

namespace saqiya::test {
namespace {

class AcquireOnStores : public Stores {};

TEST_P(AcquireOnStores, AcquireGetsASlotThatIsReleased) {
  const StoreHandle store = open(nullptr);
  const LimiterHandle limiter = make(store, "concurrency: 1 ttl 600s");
  const saqiya_item slot = item(limiter, "k");
  saqiya_decision d;
  saqiya_ticket held;
  ASSERT_EQ(saqiya_limiter_acquire(limiter.get(), "k", 1, 1, 0, &d, &held), SAQIYA_OK);
  ASSERT_EQ(d.outcome, SAQIYA_ALLOWED);
  std::atomic<bool> waits{false};
  saqiya_decision got{};
  std::thread waiter([&] {
    waits = true;
    saqiya_acquire_all(&slot, 1, 500 * kSecond, &got, nullptr, nullptr);
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(saqiya_limiter_refund(limiter.get(), "k", 1, &held, &d), SAQIYA_OK);
  waiter.join();
  EXPECT_EQ(got.outcome, SAQIYA_ALLOWED);
}

TEST_P(AcquireOnStores, AcquireWaitsForEveryAlgorithm) {
  const StoreHandle store = open(nullptr);
  const LimiterHandle a = make(store, "leaky-bucket: 50/s queue 5; sliding-log: 2/50ms");
  const LimiterHandle b = make(store, "fixed-window: 1/20ms; sliding-window: 3/60ms");
  const LimiterHandle c = make(store, "concurrency: 2 ttl 30ms");
  const saqiya_item items[] = {item(a, "k"), item(b, "k"), item(c, "k")};
  saqiya_decision d;
  std::vector<saqiya_decision> each(5);
  std::vector<saqiya_ticket> tickets(5);
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(saqiya_acquire_all(items, 3, 600 * kSecond, &d, each.data(), tickets.data()),
              SAQIYA_OK);
    ASSERT_EQ(d.outcome, SAQIYA_ALLOWED) << saqiya_reason_name(d.reason);
    ASSERT_TRUE(std::all_of(tickets.begin(), tickets.end(),
                            [](const saqiya_ticket& t) { return t.n != 0; }));
  }
  const LimiterHandle day = make(store, "sliding-log: 1/d");
  ASSERT_EQ(saqiya_limiter_acquire(day.get(), "k", 1, 1, 0, &d, nullptr), SAQIYA_OK);
  ASSERT_EQ(saqiya_limiter_acquire(day.get(), "k", 1, 1, kSecond, &d, nullptr), SAQIYA_OK);
  EXPECT_EQ(d.outcome, SAQIYA_DENIED) << "not in time, so at once";
}

// A queue that is longer than the caller's patience, in a policy that cannot reserve: what was
// charged is given back.
TEST_P(AcquireOnStores, AcquireGivesBackWhatIsTooLate) {
  const StoreHandle store = open(nullptr);
  const LimiterHandle limiter = make(store, "leaky-bucket: 1/h queue 5; sliding-log: 10/d");
  saqiya_decision d;
  ASSERT_EQ(saqiya_limiter_acquire(limiter.get(), "k", 1, 1, kSecond, &d, nullptr), SAQIYA_OK);
  ASSERT_EQ(d.outcome, SAQIYA_ALLOWED);
  for (int i = 0; i < 3; ++i) {
    saqiya_ticket tickets[2];
    ASSERT_EQ(saqiya_limiter_acquire(limiter.get(), "k", 1, 1, kSecond, &d, tickets), SAQIYA_OK);
    EXPECT_EQ(d.outcome, SAQIYA_DENIED);
    EXPECT_GT(d.retry_after_us, kSecond);
    EXPECT_EQ(tickets[0].n, 0U);
  }
  saqiya_decision each[2];
  const saqiya_item on = item(limiter, "k");
  ASSERT_EQ(saqiya_peek_all(&on, 1, &d, each), SAQIYA_OK);
  EXPECT_EQ(each[1].remaining, 9);
  EXPECT_LE(each[0].reset_after_us, kHour);
}

TEST_P(AcquireOnStores, AnswersOfAStoreThatIsGone) {
  if (!GetParam().on_redis) {
    EXPECT_EQ(saqiya_store_is_local(store_.get()), 1);  // it cannot go
    return;
  }
  const LimiterHandle a = make("10/h; concurrency: 2 ttl 1h", nullptr, SAQIYA_FAILURE_ERROR);
  const LimiterHandle b = make("fixed-window: 3/h", nullptr, SAQIYA_FAILURE_ERROR);
  const std::vector<saqiya_item> items = {item(a, "k"), item(b, "k")};
  Result before = check(items);
  ASSERT_EQ(before.decision.outcome, SAQIYA_ALLOWED);
  server_->kill();
  const Result r = check(items);
  EXPECT_EQ(r.decision.outcome, SAQIYA_UNAVAILABLE);
  EXPECT_NE(r.decision.reason, SAQIYA_REASON_NONE);
  for (const saqiya_decision& d : r.each) EXPECT_EQ(d.outcome, SAQIYA_UNAVAILABLE);
  for (const saqiya_ticket& t : r.tickets) EXPECT_EQ(t.n, 0U);
  EXPECT_EQ(check({item(a, "k"), item(b, "k", 4)}).decision.outcome, SAQIYA_NEVER);
  EXPECT_EQ(refund(items, &before.tickets).outcome, SAQIYA_UNAVAILABLE);
  // Nothing was done; but a queue has to mark them when it takes them.
  EXPECT_EQ(before.tickets[0].flags & 1, GetParam().queued ? 1U : 0U);
  saqiya_decision d;
  ASSERT_EQ(saqiya_acquire_all(items.data(), 2, 100 * kSecond, &d, nullptr, nullptr), SAQIYA_OK);
  EXPECT_EQ(d.outcome, SAQIYA_UNAVAILABLE) << "at once";
}

INSTANTIATE_TEST_SUITE_P(Both, AcquireOnStores, kEveryWay, name_of);

}  // namespace
}  // namespace saqiya::test

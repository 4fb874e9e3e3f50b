// What every store owes, whatever it keeps its state in: a parameterised suite over a store
// factory. A test program includes this once and instantiates StoreConformance:
//
//     INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance, ::testing::Values(StoreFactory{...}));
//
// The factory gives a fresh, empty store on a manual clock (over Redis: the testing option).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/bucket_harness.h"
#include "tests/support/limited.h"

namespace saqiya::test {

struct StoreUnderTest {
  std::shared_ptr<Store> store;
  std::shared_ptr<ManualClock> clock;
  std::shared_ptr<void> keep_alive;  // a server, perhaps
};

struct StoreFactory {
  std::string name;
  std::function<StoreUnderTest()> make;
  // Names in failure messages.
  friend std::ostream& operator<<(std::ostream& out, const StoreFactory& f) {
    return out << f.name;
  }
};

class StoreConformance : public ::testing::TestWithParam<StoreFactory> {
 protected:
  static constexpr Micros kSecond = 1'000'000;

  void SetUp() override { ASSERT_NE(at_.store, nullptr); }

  Limited limited(std::string_view policy, std::string name = {}) const {
    return Limited(at_.store, policy, std::move(name));
  }

  void sleep(Micros time) const { ASSERT_TRUE(at_.clock->advance(time)); }

  std::unique_ptr<Queue> open_queue(const QueueOptions& options = {}) const {
    std::unique_ptr<Queue> queue = at_.store->open_queue(at_.store, options);
    EXPECT_NE(queue, nullptr);
    return queue;
  }

  // Processes and drains until so many completions came, or nothing comes any more.
  static std::vector<Completion> drain(Queue& queue, std::size_t count) {
    std::vector<Completion> out;
    for (int i = 0; i < 1'000 && out.size() < count; ++i) {
      queue.process();
      Completion buffer[3];  // fewer than there are, as a rule
      const std::size_t got = queue.drain(buffer);
      out.insert(out.end(), buffer, buffer + got);
      if (got == 0) queue.wait(10'000);
    }
    EXPECT_EQ(out.size(), count);
    return out;
  }

  const StoreUnderTest at_ = GetParam().make();
};

TEST_P(StoreConformance, CountsDownThenRefusesThenRefills) {
  const Limited rate = limited("5/s burst 3");
  for (const std::int64_t remaining : {2, 1, 0}) {
    const Decision d = rate.check("k");
    EXPECT_EQ(d.outcome, Outcome::kAllowed);
    EXPECT_EQ(d.limit, 3);
    EXPECT_EQ(d.remaining, remaining);
    EXPECT_EQ(d.reset_after, (3 - remaining) * 200'000);
  }
  const Decision refused = rate.check("k");
  EXPECT_EQ(refused.outcome, Outcome::kDenied);
  EXPECT_EQ(refused.retry_after, 200'000);
  sleep(200'000 - 1);
  EXPECT_FALSE(rate.admits("k"));
  sleep(1);
  EXPECT_TRUE(rate.admits("k"));
  EXPECT_FALSE(rate.admits("k"));
  EXPECT_EQ(rate.check("another").remaining, 2);
}

TEST_P(StoreConformance, KeysMayHoldAnyByteAndAreTakenWhole) {  // C170
  const std::string zero("a\0b", 3);
  const std::vector<std::string> keys = {"",
                                         " ",
                                         "a",
                                         zero,
                                         "a",
                                         "a:b",
                                         "{a}",
                                         "a}",
                                         "%",
                                         "%25",
                                         "#",
                                         "\xff\xfe",
                                         "\r\n",
                                         "user:42",
                                         std::string(64, 'x'),
                                         std::string(65, 'x'),
                                         std::string(kMaxKey, 'x'),
                                         std::string(kMaxKey - 1, 'x')};
  const Limited rate = limited("1/h burst 1");
  std::map<std::string, int> admitted;
  for (const std::string& key : keys) admitted[key] += rate.admits(key) ? 1 : 0;
  for (const auto& [key, count] : admitted) EXPECT_EQ(count, 1) << key.substr(0, 70);
}

TEST_P(StoreConformance, PoliciesDoNotShareStateUnlessTheyShareAName) {  // C35, C159
  const Limited first = limited("10/h", "first");
  const Limited second = limited("10/h", "second");
  const Limited unnamed = limited("10/h");
  const Limited same_text = limited("10 per hour");
  EXPECT_EQ(first.check("k", 4).remaining, 6);
  EXPECT_EQ(second.peek("k").remaining, 10);
  EXPECT_EQ(unnamed.check("k", 3).remaining, 7);
  EXPECT_EQ(same_text.peek("k").remaining, 7);
  EXPECT_EQ(limited("20/h", "first").peek("k").remaining, 12);  // the used share stays
}

TEST_P(StoreConformance, NeverForCostsAboveTheCapacityWithTheTrueRemaining) {  // C6, C7
  const Limited rate = limited("10/h");
  for (const std::int64_t remaining : {10, 5}) {
    for (const Decision& d : {rate.check("k", 11), rate.check("k", kMaxCount, kMaxSpan)}) {
      EXPECT_EQ(d.outcome, Outcome::kNever);
      EXPECT_EQ(d.retry_after, kForever);
      EXPECT_EQ(d.remaining, remaining);
    }
    EXPECT_TRUE(rate.admits("k", 5));
  }
}

TEST_P(StoreConformance, LimitZeroRefusesEverything) {  // C21
  const Limited closed = limited("0/s");
  EXPECT_EQ(closed.check("k").outcome, Outcome::kNever);
  EXPECT_EQ(closed.check("k", 0).outcome, Outcome::kNever);
  EXPECT_EQ(closed.peek("k").outcome, Outcome::kNever);
}

TEST_P(StoreConformance, PeekAndCostZeroChangeNothing) {
  const Limited rate = limited("10/h");
  EXPECT_EQ(rate.check("k", 4).remaining, 6);
  for (int i = 0; i < 3; ++i) {
    const Decision peeked = rate.peek("k", 7);
    EXPECT_EQ(peeked.outcome, Outcome::kDenied);
    EXPECT_EQ(peeked.remaining, 6);
    EXPECT_EQ(rate.peek("k").remaining, 6);
    EXPECT_EQ(rate.check("k", 0).remaining, 6);
  }
}

TEST_P(StoreConformance, WaitsReserveInOrder) {
  const Limited rate = limited("2/s burst 1");
  for (const Micros delay : {0, 500'000, 1'000'000, 1'500'000}) {
    const Decision d = rate.check("k", 1, 1'500'000);
    EXPECT_EQ(d.outcome, Outcome::kAllowed);
    EXPECT_EQ(d.delay, delay);
  }
  const Decision d = rate.check("k", 1, 1'500'000);
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.retry_after, 500'000);
}

TEST_P(StoreConformance, RefundsGiveBackOnce) {  // C3
  const Limited rate = limited("10/s");
  Ticket ticket;
  rate.check("k", 6, 0, &ticket);
  Ticket spent = ticket;
  const Decision given = rate.refund("k", &ticket);
  EXPECT_EQ(given.outcome, Outcome::kAllowed);
  EXPECT_EQ(given.remaining, 10);
  EXPECT_EQ(rate.refund("k", &ticket).outcome, Outcome::kDenied);
  // Late: time has given everything back.
  rate.check("k", 6, 0, &spent);
  sleep(kSecond);
  EXPECT_EQ(rate.refund("k", &spent).outcome, Outcome::kDenied);
  // A refusal gives no ticket to give back.
  rate.check("k", 10);
  Ticket none;
  EXPECT_EQ(rate.check("k", 1, 0, &none).outcome, Outcome::kDenied);
  EXPECT_EQ(none.n, 0U);
  EXPECT_EQ(rate.refund("k", &none).outcome, Outcome::kDenied);
  EXPECT_EQ(rate.peek("k").remaining, 0);
}

TEST_P(StoreConformance, AReservationIsGivenBackOnlyWhileItIsTheLast) {
  const Limited rate = limited("1/s burst 1");
  Ticket first;
  Ticket last;
  rate.check("k");
  EXPECT_EQ(rate.check("k", 1, 9 * kSecond, &first).delay, kSecond);
  EXPECT_EQ(rate.check("k", 1, 9 * kSecond, &last).delay, 2 * kSecond);
  EXPECT_EQ(rate.refund("k", &first).outcome, Outcome::kDenied);
  EXPECT_EQ(rate.refund("k", &last).outcome, Outcome::kAllowed);
  EXPECT_EQ(rate.check("k", 1, 9 * kSecond).delay, 2 * kSecond);
}

TEST_P(StoreConformance, ResetForgets) {  // C38
  const Limited rate = limited("10/h");
  EXPECT_EQ(rate.admitted("k", 20), 10);
  const Decision d = rate.reset("k");
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 10);
  EXPECT_EQ(d.reset_after, 0);
  EXPECT_EQ(rate.admitted("k", 20), 10);
  EXPECT_EQ(rate.reset("never seen").outcome, Outcome::kAllowed);
}

TEST_P(StoreConformance, ManyAreDecidedInOrderEachOnItsOwn) {
  const Limited rate = limited("2/h");
  std::vector<Request> requests;
  for (const std::string_view key : {"a", "b", "a", "a", "b", "c"}) {
    requests.push_back(rate.request(Op::kCheck, key));
  }
  std::vector<Answer> answers(requests.size());
  at_.store->execute_many(requests, answers);
  const std::int64_t remaining[] = {1, 1, 0, 0, 0, 1};
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].decision.remaining, remaining[i]) << i;
    EXPECT_EQ(answers[i].decision.outcome, i == 3 ? Outcome::kDenied : Outcome::kAllowed) << i;
    EXPECT_EQ(answers[i].ticket.n != 0, i != 3) << i;
  }
}

TEST_P(StoreConformance, AClockThatGoesBackGivesNothing) {  // C23
  const Limited rate = limited("10/s");
  EXPECT_EQ(rate.admitted("k", 20), 10);
  sleep(-11 * kSecond);
  EXPECT_EQ(rate.admitted("k", 20), 0);
  EXPECT_EQ(rate.peek("k", 10).retry_after, 12 * kSecond);
  sleep(12 * kSecond);
  EXPECT_EQ(rate.admitted("k", 20), 10);
}

TEST_P(StoreConformance, AQueueCompletesEveryRequestOnceInOrder) {
  const Limited rate = limited("3/h");
  const std::unique_ptr<Queue> queue = open_queue();
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_EQ(queue->submit(rate.request(Op::kCheck, "k"), 100 + i), SubmitResult::kOk);
  }
  EXPECT_EQ(queue->pending(), 5U);
  const std::vector<Completion> done = drain(*queue, 5);
  ASSERT_EQ(done.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(done[i].user_data, 100 + i);
    EXPECT_EQ(done[i].decision.outcome, i < 3 ? Outcome::kAllowed : Outcome::kDenied);
    EXPECT_EQ(done[i].ticket.n != 0, i < 3);
  }
  EXPECT_EQ(queue->pending(), 0U);
  Completion more[1];
  EXPECT_EQ(queue->drain(more), 0U);
}

TEST_P(StoreConformance, AQueueTakesEveryOperation) {
  const Limited rate = limited("10/h");
  const std::unique_ptr<Queue> queue = open_queue();
  {
    const std::string key = "copied";  // and gone before the queue is processed
    queue->submit(rate.request(Op::kCheck, key, 4), 1);
    queue->submit(rate.request(Op::kPeek, key, 7), 2);
  }
  std::vector<Completion> done = drain(*queue, 2);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].decision.remaining, 6);
  EXPECT_EQ(done[1].decision.outcome, Outcome::kDenied);
  Request refund = rate.request(Op::kRefund, "copied", 0);
  refund.tickets = {&done[0].ticket, 1};
  queue->submit(refund, 3);
  queue->submit(rate.request(Op::kCheck, "copied", 8), 4);
  queue->submit(rate.request(Op::kReset, "copied", 0), 5);
  done = drain(*queue, 3);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(done[0].decision.remaining, 10);
  EXPECT_EQ(done[1].decision.remaining, 2);
  EXPECT_EQ(done[2].decision.remaining, 10);
  EXPECT_EQ(rate.peek("copied").remaining, 10);
}

TEST_P(StoreConformance, AQueueAnswersUnlimitedItself) {  // C21
  const Limited open = limited("unlimited");
  const std::unique_ptr<Queue> queue = open_queue();
  EXPECT_EQ(queue->submit(open.request(Op::kCheck, "k", kMaxCount), 1), SubmitResult::kOk);
  EXPECT_EQ(queue->submit(open.request(Op::kRefund, "k", 0), 2), SubmitResult::kOk);
  EXPECT_EQ(queue->timeout(), 0);
  const std::vector<Completion> done = drain(*queue, 2);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(done[0].decision.remaining, kMaxCount);
  EXPECT_EQ(done[0].ticket.n, 0U);
  EXPECT_EQ(done[1].decision.outcome, Outcome::kDenied);
  EXPECT_EQ(at_.store->stats().requests, 0U);
  EXPECT_EQ(at_.store->stats().keys, 0U);
}

TEST_P(StoreConformance, AQueueIsBoundedAndCloses) {
  const Limited rate = limited("10/h");
  QueueOptions options;
  options.capacity = 3;
  const std::unique_ptr<Queue> queue = open_queue(options);
  const Request check = rate.request(Op::kCheck, "k");
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(queue->submit(check, i), SubmitResult::kOk);
  EXPECT_EQ(queue->submit(check, 3), SubmitResult::kFull);
  EXPECT_EQ(drain(*queue, 3).size(), 3U);
  EXPECT_EQ(queue->submit(check, 4), SubmitResult::kOk);
  queue->close();
  EXPECT_EQ(queue->submit(check, 5), SubmitResult::kClosed);
  const std::vector<Completion> left = drain(*queue, 1);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].user_data, 4U);
  EXPECT_FALSE(queue->cancel(99));
}

TEST_P(StoreConformance, ARandomTraceGetsTheReferencesAnswers) {  // C26
  Random random(26);
  const std::string_view texts[] = {"5/s burst 20", "3/s", "7/min burst 4", "11/13ms burst 30"};
  struct Subject {
    ReferenceBucket bucket;
    Ticket ticket;
    ReferenceTicket wanted;
  };
  std::map<std::string, Subject> subjects;
  Policy policy = policy_of(texts[0]);
  Limited rate(at_.store, policy, "random");
  for (int i = 0; i < 2'000; ++i) {
    SCOPED_TRACE(::testing::Message() << "event " << i);
    if (random() % 50 == 0) {
      policy = policy_of(texts[random() % 4]);
      rate = Limited(at_.store, policy, "random");
    }
    sleep(static_cast<Micros>(random() % 120'000) - (random() % 40 == 0 ? 300'000 : 0));
    const Micros now = at_.clock->monotonic();
    const ReferenceRule rule = as_reference(policy.rules[0].bucket);
    const std::string key(1, static_cast<char>('a' + random() % 5));
    Subject& s = subjects[key];
    const auto cost = static_cast<std::int64_t>(random() % 6);
    switch (random() % 8) {
      case 0:
        expect_same(rate.peek(key, cost), s.bucket.peek(rule, cost, now, 0));
        break;
      case 1:
        expect_same(rate.refund(key, &s.ticket), s.bucket.refund(rule, now, &s.wanted));
        break;
      default: {
        const Micros wait = random() % 3 == 0 ? static_cast<Micros>(random() % 900'000) : 0;
        s.wanted = {};
        expect_same(rate.check(key, cost, wait, &s.ticket),
                    s.bucket.check(rule, cost, now, wait, &s.wanted));
      }
    }
    if (HasFatalFailure()) return;
  }
}

}  // namespace saqiya::test

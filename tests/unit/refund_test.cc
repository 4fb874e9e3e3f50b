// Tickets and refunds by example.
#include <gtest/gtest.h>

#include "core/token_bucket.h"
#include "tests/support/bucket_harness.h"

namespace saqiya {
namespace {

using test::CoreBucket;
using test::make_rule;

constexpr Micros kSecond = 1'000'000;
constexpr Micros kStart = 1'790'000'000 * kSecond;

TEST(Refund, GivesBackWhatTheCheckTook) {
  const TokenBucket rule = make_rule(4, 7, 60 * kSecond);
  CoreBucket bucket;
  bucket.check(rule, 1, kStart, 0, nullptr);
  const BucketState before = bucket.state;
  Ticket ticket;
  bucket.check(rule, 2, kStart, 0, &ticket);
  EXPECT_EQ(ticket.n, 7U);
  EXPECT_EQ(ticket.cost, 2);
  EXPECT_EQ(ticket.epoch, CoreBucket::kEpoch);
  EXPECT_EQ(ticket.flags, 0U);
  const Decision d = bucket.give_back(rule, kStart, &ticket);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 3);
  EXPECT_EQ(bucket.state, before);
}

TEST(Refund, GivesOnlyOnce) {
  const TokenBucket rule = make_rule(10, 10, kSecond);
  CoreBucket bucket;
  bucket.check(rule, 5, kStart, 0, nullptr);
  Ticket ticket;
  bucket.check(rule, 3, kStart, 0, &ticket);
  EXPECT_EQ(bucket.give_back(rule, kStart, &ticket).outcome, Outcome::kAllowed);
  const Decision again = bucket.give_back(rule, kStart, &ticket);
  EXPECT_EQ(again.outcome, Outcome::kDenied);
  EXPECT_EQ(again.remaining, 5);
}

TEST(Refund, GivesNoMoreThanTimeHasLeft) {  // C3
  const TokenBucket rule = make_rule(10, 10, kSecond);
  CoreBucket bucket;
  Ticket ticket;
  bucket.check(rule, 10, kStart, 0, &ticket);
  // 0.9 s later nine tokens are back; one is left to give.
  const Decision d = bucket.give_back(rule, kStart + 900'000, &ticket);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.remaining, 10);
  EXPECT_EQ(d.reset_after, 0);
}

TEST(Refund, TooLateGivesNothing) {  // C3
  const TokenBucket rule = make_rule(10, 10, kSecond);
  CoreBucket bucket;
  Ticket ticket;
  bucket.check(rule, 10, kStart, 0, &ticket);
  Ticket copy = ticket;
  EXPECT_EQ(bucket.give_back(rule, kStart + kSecond, &ticket).outcome, Outcome::kDenied);
  // Others took what came meanwhile: it is theirs.
  EXPECT_EQ(bucket.check(rule, 10, kStart + 1'600'000, 0, nullptr).outcome, Outcome::kAllowed);
  const Decision d = bucket.give_back(rule, kStart + 1'600'000, &copy);
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.remaining, 0);
}

TEST(Refund, NeverCreatesAState) {
  const TokenBucket rule = make_rule(10, 10, kSecond);
  CoreBucket bucket;
  Ticket ticket;
  bucket.check(rule, 10, kStart, 0, &ticket);
  CoreBucket empty;
  EXPECT_EQ(empty.give_back(rule, kStart, &ticket).outcome, Outcome::kDenied);
  EXPECT_EQ(empty.state, BucketState{});
}

TEST(Refund, OfAReservationOnlyWhileItIsTheLast) {
  const TokenBucket rule = make_rule(1, 1, kSecond);
  CoreBucket bucket;
  bucket.check(rule, 1, kStart, 0, nullptr);
  Ticket second;
  Ticket third;
  EXPECT_EQ(bucket.check(rule, 1, kStart, 5 * kSecond, &second).delay, kSecond);
  EXPECT_EQ(bucket.check(rule, 1, kStart, 5 * kSecond, &third).delay, 2 * kSecond);
  EXPECT_EQ(second.flags, Ticket::kReservation);
  Ticket too_early = second;
  EXPECT_EQ(bucket.give_back(rule, kStart, &too_early).outcome, Outcome::kDenied);
  EXPECT_EQ(bucket.give_back(rule, kStart, &third).outcome, Outcome::kAllowed);
  EXPECT_EQ(bucket.give_back(rule, kStart, &second).outcome, Outcome::kAllowed);
  EXPECT_EQ(bucket.check(rule, 1, kStart, 5 * kSecond, nullptr).delay, kSecond);
}

TEST(Refund, UnderAChangedRuleGivesTheCostInItsTime) {
  const TokenBucket slow = make_rule(10, 1, kSecond);
  const TokenBucket fast = make_rule(10, 2, kSecond);
  CoreBucket bucket;
  Ticket ticket;
  bucket.check(slow, 6, kStart, 0, nullptr);
  bucket.check(slow, 4, kStart, 0, &ticket);  // full again at 10 s
  bucket.give_back(fast, kStart, &ticket);    // four tokens are 2 s now
  EXPECT_EQ(bucket.state.q, kStart + 8 * kSecond);
}

TEST(Refund, OfMoreThanTodaysCapacity) {
  const TokenBucket wide = make_rule(100, 1, kSecond);
  const TokenBucket narrow = make_rule(10, 1, kSecond);
  CoreBucket bucket;
  Ticket ticket;
  bucket.check(wide, 40, kStart, 0, nullptr);
  bucket.check(wide, 50, kStart, 0, &ticket);
  const Decision d = bucket.give_back(narrow, kStart, &ticket);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.reset_after, 40 * kSecond);
}

TEST(Refund, TicketsThatWereTamperedWithGiveNothing) {
  const TokenBucket rule = make_rule(10, 3, kSecond);
  CoreBucket bucket;
  Ticket good;
  bucket.check(rule, 4, kStart, 0, &good);
  const BucketState before = bucket.state;
  Ticket bad[6] = {good, good, good, good, good, good};
  bad[0].cost = 0;
  bad[1].cost = -1;
  bad[2].q = -1;
  bad[3].r = good.n;
  bad[4].n = 0;
  bad[5].q = kForever;
  for (Ticket& ticket : bad) {
    EXPECT_EQ(bucket.give_back(rule, kStart, &ticket).outcome, Outcome::kDenied);
    EXPECT_EQ(bucket.state, before);
  }
}

}  // namespace
}  // namespace saqiya

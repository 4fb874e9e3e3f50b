// What is decided for one limiter when its store does not answer: by each failure policy, and what
// becomes of tickets.
#include "core/failure.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/group.h"
#include "core/http/headers.h"
#include "core/key.h"
#include "tests/unit/failure_harness.h"

namespace saqiya {
namespace {

TEST_F(FailureTest, OpenAllowsWithoutNumbers) {
  const auto limiter = process_.with(FailureMode::kOpen, "1/h");
  for (int i = 0; i < 5; ++i) {
    Ticket ticket;
    const Decision d = process_.check(*limiter, "k", 1, 0, &ticket);
    Decision expected;
    expected.outcome = Outcome::kAllowed;
    expect_same_numbers(d, expected);
    EXPECT_EQ(d.source, Source::kOpen);
    EXPECT_EQ(d.reason, Reason::kTimeout);
    EXPECT_EQ(ticket.n, 0U);
  }
  EXPECT_EQ(process_.count(&Failover::Counters::opened), 5U);
  EXPECT_EQ(process_.count(&Failover::Counters::failures), 5U);
}

TEST_F(FailureTest, ClosedDeniesForASecond) {
  const auto limiter = process_.with(FailureMode::kClosed, "100/s");
  const Decision d = process_.check(*limiter, "k");
  Decision expected;
  expected.outcome = Outcome::kDenied;
  expected.retry_after = kPause;
  expect_same_numbers(d, expected);
  EXPECT_EQ(d.source, Source::kClosed);
  EXPECT_EQ(d.reason, Reason::kTimeout);
  EXPECT_EQ(process_.count(&Failover::Counters::closed), 1U);
}

TEST_F(FailureTest, ErrorIsUnavailable) {
  const auto limiter = process_.with(FailureMode::kError, "100/s");
  const Decision d = process_.check(*limiter, "k");
  EXPECT_EQ(d.outcome, Outcome::kUnavailable);
  EXPECT_EQ(d.source, Source::kStore);
  EXPECT_EQ(d.reason, Reason::kTimeout);
  EXPECT_EQ(process_.count(&Failover::Counters::failures), 1U);
}

TEST_F(FailureTest, NeverStaysNeverAndCancelledCancelled) {
  for (const FailureMode mode :
       {FailureMode::kLocal, FailureMode::kOpen, FailureMode::kClosed, FailureMode::kError}) {
    for (const char* policy : {"10/s", "10/s; 100/h", "fixed-window: 10/s"}) {
      const auto limiter = process_.with(mode, policy);
      const Decision never = process_.check(*limiter, "k", 11);
      EXPECT_EQ(never.outcome, Outcome::kNever);
      EXPECT_EQ(never.retry_after, kForever);
      EXPECT_EQ(never.source, Source::kStore);
      Request request;
      request.limiter = limiter.get();
      const Decision cancelled = process_.ask(request, Reason::kCancelled).decision;
      EXPECT_EQ(cancelled.outcome, Outcome::kUnavailable);
      EXPECT_EQ(cancelled.reason, Reason::kCancelled);
    }
  }
}

// What fits the limit, but not this process's share of it, may pass when the server is back.
TEST_F(FailureTest, WhatTheShareCannotHoldIsDeniedNotNever) {
  for (const char* policy : {"100/min", "100/min; fixed-window: 1000/h"}) {
    const auto limiter = process_.local(policy, 250'000);
    std::vector<Decision> each(limiter->rules().size());
    Request request;
    request.limiter = limiter.get();
    request.cost = 26;
    request.each = each;
    const Decision d = process_.ask(request).decision;
    EXPECT_EQ(d.outcome, Outcome::kDenied);
    EXPECT_EQ(d.retry_after, kPause);
    EXPECT_EQ(d.source, Source::kLocal);
    EXPECT_EQ(each[0].outcome, Outcome::kDenied);
    EXPECT_EQ(process_.check(*limiter, "k", 25).outcome, Outcome::kAllowed);
  }
}

// DESIGN 6: at most processes * share * (C + rate * T) in an outage of T, and all of that for those
// who ask often enough.
TEST_F(FailureTest, TheBoundOfAnOutageHolds) {
  std::deque<Process> processes;
  std::vector<std::shared_ptr<Limiter>> limiters;
  for (int i = 0; i < 4; ++i) {
    limiters.push_back(processes.emplace_back(clock_).local("100/min", 250'000));
  }
  constexpr int kSeconds = 90;
  std::int64_t admitted = 0;
  for (int tick = 0; tick <= kSeconds * 10; ++tick) {
    for (std::size_t p = 0; p < processes.size(); ++p) {
      for (int i = 0; i < 3; ++i) {
        if (processes[p].check(*limiters[p], "k").outcome == Outcome::kAllowed) ++admitted;
      }
    }
    if (tick < kSeconds * 10) clock_->advance(kSecond / 10);
  }
  // Each process: 25 at once, then one every 2.4 s, of which 37 are whole.
  EXPECT_EQ(admitted, 4 * (25 + 37));
  EXPECT_LE(admitted, 100 + 100 * kSeconds / 60);
}

// Every algorithm, at random: the same numbers as a memory store's under the shared policy.
TEST_F(FailureTest, LocalDecisionsAreAMemoryStoresOfTheShare) {
  for (const char* text :
       {"40/min", "3/s burst 8", "leaky-bucket: 10/s queue 8", "fixed-window: 40/min",
        "sliding-window: 40/min", "sliding-log: 40/min", "calendar: 40/day",
        "concurrency: 8 ttl 30s", "40/min; fixed-window: 80/h; concurrency: 12 ttl 5s"}) {
    SCOPED_TRACE(text);
    const auto limiter = process_.local(text, 250'000);
    const Policy policy = share_of(test::policy_of(text), 250'000);
    const std::shared_ptr<Store> store = memory(clock_);
    const test::Limited expected(store, policy);
    const auto execute = [&](const Request& request) {
      Answer answer;
      store->execute(request, &answer);
      return answer;
    };
    const std::size_t rules = policy.rules.size();
    std::mt19937 random(11);
    std::map<std::string, std::pair<std::vector<Ticket>, std::vector<Ticket>>> held;
    for (int i = 0; i < 3000; ++i) {
      const std::string key(1, static_cast<char>('a' + random() % 3));
      const std::int64_t cost = static_cast<std::int64_t>(random() % 4);
      const Micros max_wait = random() % 4 == 0 ? 2 * kSecond : 0;
      clock_->advance(static_cast<Micros>(random() % 900'000));
      const auto what = random() % 10;
      std::vector<Ticket> ours(rules);
      std::vector<Ticket> theirs(rules);
      Request request = expected.request(what == 9 ? Op::kPeek : Op::kCheck, key, cost, max_wait);
      if (what == 8 && held.contains(key)) {  // gives back
        Request back = expected.request(Op::kRefund, key);
        back.tickets = held[key].second;
        const Decision decision = execute(back).decision;
        expect_same_numbers(process_.change(Op::kRefund, *limiter, key, held[key].first), decision);
        held.erase(key);
        continue;
      }
      if (what != 9) request.tickets_out = theirs;
      const Decision decision = execute(request).decision;
      request.limiter = limiter.get();
      if (what != 9) request.tickets_out = ours;
      Decision d = process_.ask(request).decision;
      if (d.outcome == Outcome::kNever) {  // of the whole limit, too
        EXPECT_GT(cost, limiter->rules()[0].capacity());
        continue;
      }
      EXPECT_EQ(d.source, Source::kLocal);
      if (decision.outcome == Outcome::kNever) {
        EXPECT_EQ(d.outcome, Outcome::kDenied);
        EXPECT_EQ(d.retry_after, kPause);
        continue;
      }
      expect_same_numbers(d, decision);
      if (d.outcome == Outcome::kAllowed && what != 9 && cost > 0) held[key] = {ours, theirs};
      if (HasFailure()) return;
    }
  }
}

// A client is told of the limit that is in force: this process's share.
TEST_F(FailureTest, HttpFieldsTellTheShare) {
  const auto limiter = process_.local("100/min", 250'000);
  EXPECT_EQ(http::fields(*limiter, process_.check(*limiter, "k", 25), {}),
            "X-RateLimit-Limit: 25\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 60\r\n"
            "RateLimit: \"default\";r=0;t=3\r\nRateLimit-Policy: \"default\";q=25;w=60\r\n");
  const Decision refused = process_.check(*limiter, "k");
  const http::Numbers n = http::numbers(*limiter, refused);
  EXPECT_EQ(n.status, 429);
  EXPECT_EQ(n.retry_after_s, 3);
  EXPECT_EQ(n.t_s, 3);
}

TEST_F(FailureTest, AFallbackDecidesInsteadOfAShare) {
  LimiterOptions options;
  options.name = "login";
  options.failure = FailureMode::kLocal;
  options.fallback = test::policy_of("fixed-window: 2/h; 3/day");
  const auto limiter = process_.make("100/s; 1000/h", std::move(options));
  EXPECT_EQ(process_.check(*limiter, "k").limit, 2);
  EXPECT_EQ(process_.check(*limiter, "k").outcome, Outcome::kAllowed);
  const Decision d = process_.check(*limiter, "k");
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.rule, 0);
  EXPECT_EQ(d.source, Source::kLocal);
}

// Limiters that share their state on the server share the local one, as far as their share is one.
TEST_F(FailureTest, LimitersOfOneNameShareTheLocalState) {
  const auto a = process_.local("10/h");
  const auto b = process_.local("10/h");
  const auto half = process_.local("10/h", 500'000);
  process_.check(*a, "k", 10);
  EXPECT_EQ(process_.check(*b, "k").outcome, Outcome::kDenied);
  EXPECT_EQ(process_.check(*half, "k").remaining, 4);
}

// Whether the subject comes as the caller wrote it or out of the key that was sent.
TEST_F(FailureTest, SubjectsAreThoseOfKeys) {
  const auto limiter = process_.local("100/h");
  std::int64_t left = 100;
  for (const std::string& subject :
       {std::string("plain"), std::string("a:{b}%"), std::string(), std::string("#x"),
        std::string("\x01"), std::string(300, 'x')}) {
    EXPECT_EQ(process_.check(*limiter, subject).remaining, 99);
    std::string escaped;
    append_subject(subject, false, {}, &escaped);
    Request request;
    request.limiter = limiter.get();
    request.key = escaped;
    Answer answer;
    process_.failover.answer(request, Reason::kLost, &answer);
    EXPECT_EQ(answer.decision.remaining, 98) << subject;
  }
  process_.failover.write_subjects(true, "secret");
  EXPECT_EQ(process_.check(*limiter, "plain").remaining, left - 1) << "hashed, it is another";
}

TEST_F(FailureTest, TicketsOfTheLocalTableGoThereAlways) {
  const auto limiter = process_.local("1/h burst 10");
  Ticket ticket;
  process_.check(*limiter, "k", 4, 0, &ticket);
  EXPECT_NE(ticket.epoch, 0U);
  // The server is back, and nothing is asked of it.
  Request request;
  request.op = Op::kSettle;
  request.limiter = limiter.get();
  request.key = "k";
  request.cost = 1;
  request.tickets = {&ticket, 1};
  Answer answer;
  ASSERT_TRUE(process_.failover.answers_itself(request, &answer));
  EXPECT_EQ(answer.decision.outcome, Outcome::kAllowed);
  EXPECT_EQ(answer.decision.source, Source::kLocal);
  EXPECT_EQ(answer.decision.remaining, 9);
  EXPECT_EQ(process_.count(&Failover::Counters::failures), 1U) << "the check alone";
}

TEST_F(FailureTest, LeasesOfTheLocalTableAreRenewedThere) {
  const auto limiter = process_.local("concurrency: 1 ttl 30s");
  std::vector<Ticket> lease(1);
  process_.check(*limiter, "k", 1, 0, lease.data());
  clock_->advance(20 * kSecond);
  EXPECT_EQ(process_.change(Op::kRenew, *limiter, "k", lease).outcome, Outcome::kAllowed);
  clock_->advance(20 * kSecond);
  EXPECT_EQ(process_.check(*limiter, "k").outcome, Outcome::kDenied);
  EXPECT_EQ(process_.change(Op::kRefund, *limiter, "k", lease).outcome, Outcome::kAllowed);
  EXPECT_EQ(process_.check(*limiter, "k").outcome, Outcome::kAllowed);
}

TEST_F(FailureTest, TicketsOfTheServerAreUnavailableUnderEveryPolicy) {
  for (const FailureMode mode :
       {FailureMode::kLocal, FailureMode::kOpen, FailureMode::kClosed, FailureMode::kError}) {
    const auto limiter = process_.with(mode, "10/h");
    Ticket ticket;
    ticket.q = kStart;
    ticket.n = 1;
    ticket.cost = 1;
    ticket.algorithm = 1;
    for (const Op op : {Op::kRefund, Op::kSettle, Op::kRenew, Op::kReset}) {
      const Decision d = process_.change(op, *limiter, "k", {ticket});
      EXPECT_EQ(d.outcome, Outcome::kUnavailable);
      EXPECT_EQ(d.reason, Reason::kTimeout);
      EXPECT_EQ(d.source, Source::kStore);
    }
  }
}

TEST_F(FailureTest, AResetForgetsTheLocalState) {
  const auto limiter = process_.local("1/h; fixed-window: 5/day");
  process_.check(*limiter, "k");
  EXPECT_EQ(process_.check(*limiter, "k").outcome, Outcome::kDenied);
  EXPECT_EQ(process_.change(Op::kReset, *limiter, "k", {}).outcome, Outcome::kUnavailable);
  EXPECT_EQ(process_.check(*limiter, "k").outcome, Outcome::kAllowed);
}

TEST_F(FailureTest, PeeksAreAnsweredButNotCounted) {
  const auto limiter = process_.local("10/h");
  Request request;
  request.op = Op::kPeek;
  request.limiter = limiter.get();
  EXPECT_EQ(process_.ask(request).decision.remaining, 10);
  EXPECT_EQ(process_.count(&Failover::Counters::local_allowed), 0U);
  EXPECT_EQ(process_.count(&Failover::Counters::failures), 1U);
}

TEST_F(FailureTest, EveryCheckIsCountedOnce) {
  const auto limiter = process_.local("3/h");
  for (int i = 0; i < 10; ++i) process_.check(*limiter, "k");
  EXPECT_EQ(process_.count(&Failover::Counters::local_allowed), 3U);
  EXPECT_EQ(process_.count(&Failover::Counters::local_denied), 7U);
  EXPECT_EQ(process_.count(&Failover::Counters::failures), 10U);
}

}  // namespace
}  // namespace saqiya

// What is decided for several limiters at once when their store does not answer.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/failure_harness.h"

namespace saqiya {
namespace {

class FailureOfSeveralTest : public FailureTest {
 protected:
  Decision ask(const std::vector<Item>& items, Op op = Op::kCheck) {
    std::size_t places = 0;
    for (const Item& i : items) places += std::max<std::size_t>(1, i.limiter->rules().size());
    each_.assign(places, Decision{});
    if (op == Op::kCheck) tickets_.assign(places, Ticket{});
    Request request;
    request.op = op;
    request.items = items;
    request.each = op == Op::kRefund ? std::span<Decision>() : std::span<Decision>(each_);
    if (op == Op::kCheck) request.tickets_out = tickets_;
    if (op == Op::kRefund) request.tickets = tickets_;
    return process_.ask(request).decision;
  }

  std::vector<Decision> each_;
  std::vector<Ticket> tickets_;
  std::shared_ptr<Limiter> local_ = process_.local("2/h; fixed-window: 5/day");
  std::shared_ptr<Limiter> open_ = process_.with(FailureMode::kOpen, "1/h; 1/day");
  std::shared_ptr<Limiter> closed_ = process_.with(FailureMode::kClosed, "100/h");
  std::shared_ptr<Limiter> error_ = process_.with(FailureMode::kError, "100/day");
  std::shared_ptr<Limiter> unlimited_ = process_.with(FailureMode::kOpen, "unlimited");
};

TEST_F(FailureOfSeveralTest, ErrorPrevails) {
  const Decision d = ask({{local_.get(), "k"}, {closed_.get(), "k"}, {error_.get(), "k"}});
  EXPECT_EQ(d.outcome, Outcome::kUnavailable);
  EXPECT_EQ(each_[0].outcome, Outcome::kUnavailable);
  EXPECT_EQ(process_.check(*local_, "k").remaining, 1) << "nothing was charged";
}

TEST_F(FailureOfSeveralTest, ThenClosed) {
  const Decision d = ask({{local_.get(), "k"}, {open_.get(), "k"}, {closed_.get(), "k"}});
  EXPECT_EQ(d.outcome, Outcome::kDenied);
  EXPECT_EQ(d.source, Source::kClosed);
  EXPECT_EQ(d.item, 2);
  EXPECT_EQ(each_[4].source, Source::kClosed);
  EXPECT_EQ(each_[4].item, 2);
}

TEST_F(FailureOfSeveralTest, NeverBeforeAll) {
  const Decision d = ask({{error_.get(), "k"}, {open_.get(), "k", 2}});
  EXPECT_EQ(d.outcome, Outcome::kNever);
  EXPECT_EQ(d.item, 1);
}

TEST_F(FailureOfSeveralTest, OpenOnesArePassedOver) {
  const std::vector<Item> items = {
      {unlimited_.get(), "k"}, {open_.get(), "k"}, {local_.get(), "k"}, {open_.get(), "j"}};
  for (int i = 1; i >= 0; --i) {
    const Decision d = ask(items);
    EXPECT_EQ(d.outcome, Outcome::kAllowed);
    EXPECT_EQ(d.source, Source::kLocal);
    EXPECT_EQ(d.item, 2);
    EXPECT_EQ(d.rule, 0);
    EXPECT_EQ(d.remaining, i);
  }
  ASSERT_EQ(each_.size(), 7U);
  EXPECT_EQ(each_[0].source, Source::kStore);
  EXPECT_EQ(each_[0].limit, kMaxCount);
  for (const std::size_t i : {1U, 2U, 5U, 6U}) {
    EXPECT_EQ(each_[i].source, Source::kOpen);
    EXPECT_EQ(each_[i].outcome, Outcome::kAllowed);
    EXPECT_EQ(each_[i].item, i < 3 ? 1 : 3);
    EXPECT_EQ(tickets_[i].n, 0U);
  }
  EXPECT_EQ(each_[2].rule, 1);
  EXPECT_EQ(each_[3].source, Source::kLocal);
  EXPECT_EQ(each_[4].remaining, 3);
  EXPECT_EQ(each_[4].item, 2);
  EXPECT_EQ(each_[4].reason, Reason::kTimeout);
  // Tickets lie where they belong, and are given back together.
  EXPECT_NE(tickets_[3].epoch, 0U);
  EXPECT_NE(tickets_[4].epoch, 0U);
  EXPECT_EQ(ask(items).outcome, Outcome::kDenied);
  EXPECT_EQ(process_.count(&Failover::Counters::local_allowed), 2U);
  EXPECT_EQ(process_.count(&Failover::Counters::local_denied), 1U);
}

TEST_F(FailureOfSeveralTest, LocalTicketsAreGivenBackTogether) {
  const std::vector<Item> items = {{open_.get(), "k"}, {local_.get(), "k", 2}};
  EXPECT_EQ(ask(items).outcome, Outcome::kAllowed);
  const Decision d = ask(items, Op::kRefund);
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.source, Source::kLocal);
  EXPECT_EQ(d.item, 1);
  EXPECT_EQ(process_.check(*local_, "k", 2).outcome, Outcome::kAllowed);
}

TEST_F(FailureOfSeveralTest, AllOpenIsOpen) {
  const Decision d = ask({{open_.get(), "k"}, {unlimited_.get(), "k"}, {open_.get(), "j"}});
  EXPECT_EQ(d.outcome, Outcome::kAllowed);
  EXPECT_EQ(d.source, Source::kOpen);
  EXPECT_EQ(process_.count(&Failover::Counters::opened), 1U);
}

}  // namespace
}  // namespace saqiya

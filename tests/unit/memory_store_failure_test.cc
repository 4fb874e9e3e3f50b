// Steps of the memory store for which there is no memory change nothing.
#include <gtest/gtest.h>

#include <array>
#include <new>
#include <string>
#include <vector>

#include "tests/capi/failing_allocator.h"
#include "tests/support/limited.h"

namespace saqiya {
namespace {

using test::Limited;
using test::MemorySetup;

// Executes until no allocation fails; `unchanged` is called after each failure. Returns how many
// failed. Allocations that can be done without do not end it.
template <typename Call, typename Check>
int until_it_succeeds(const Call& call, const Check& unchanged) {
  for (int n = 1; n < 1'000; ++n) {
    bool threw = false;
    test::fail_allocation(n);
    try {
      call();
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    const bool failed = test::allocation_failed();
    EXPECT_TRUE(!threw || failed);
    if (!threw) return n - 1;
    unchanged();
    if (testing::Test::HasFailure()) break;
  }
  ADD_FAILURE() << "it never succeeds";
  return -1;
}

constexpr std::array<const char*, 6> kKinds = {
    "300/day",
    "fixed-window: 300/day",
    "sliding-window: 300/day",
    "sliding-log: 300/day",
    "calendar: 300/day",
    "concurrency: 300 ttl 1d",
};

TEST(MemoryStoreFailure, OneRule) {
  for (const char* kind : kKinds) {
    const MemorySetup setup(120);  // one shard, which comes to its bound
    const Limited rate(setup.store, kind);
    int failures = 0;
    for (int i = 0; i < 300; ++i) {
      ASSERT_TRUE(setup.clock->advance(1));
      // One key's list grows; the others are new.
      for (const std::string& key : {std::string("grows"), "user:" + std::to_string(i)}) {
        const std::int64_t before = rate.peek(key).remaining;
        Ticket ticket;
        failures += until_it_succeeds(
            [&] { EXPECT_EQ(rate.check(key, 1, 0, &ticket).outcome, Outcome::kAllowed); },
            [&] { EXPECT_GE(rate.peek(key).remaining, before); });
        EXPECT_NE(ticket.n, 0U);
        if (testing::Test::HasFailure()) FAIL() << kind << ' ' << i;
      }
    }
    EXPECT_GT(failures, 10) << kind;
  }
}

TEST(MemoryStoreFailure, GroupsAreChargedWholeOrNotAtAll) {
  const MemorySetup setup;
  const Limited rate(setup.store,
                     "300/s; fixed-window: 300/h; sliding-window: 300/h; sliding-log: 300/h; "
                     "sliding-log: 400/day; concurrency: 300 ttl 1h; calendar: 300/day");
  const Limited other(setup.store, "concurrency: 300 ttl 1h", "other");
  std::array<Decision, 8> each;
  const auto remaining = [&](const std::vector<Item>& items) {
    Request peek;
    peek.op = Op::kPeek;
    peek.items = items;
    peek.each = each;
    Answer answer;
    setup.store->execute(peek, &answer);
    std::array<std::int64_t, 8> all{};
    for (std::size_t i = 0; i < 8; ++i) all[i] = each[i].remaining;
    return all;
  };
  int failures = 0;
  for (int i = 0; i < 250; ++i) {
    ASSERT_TRUE(setup.clock->advance(10'000));
    // One that is new, and one of which every list grows.
    const std::string second = i % 2 == 0 ? "k" : "user:" + std::to_string(i);
    const std::vector<Item> items = {{&rate.limiter(), "k", 1}, {&other.limiter(), second, 1}};
    const auto before = remaining(items);
    Request check;
    check.items = items;
    failures += until_it_succeeds(
        [&] {
          Answer answer;
          setup.store->execute(check, &answer);
          EXPECT_EQ(answer.decision.outcome, Outcome::kAllowed);
        },
        [&] { EXPECT_EQ(remaining(items), before); });
    const auto after = remaining(items);
    for (std::size_t r = 0; r < 8; ++r) ASSERT_EQ(after[r], before[r] - 1) << i << ' ' << r;
  }
  EXPECT_GT(failures, 280);  // one each for the group itself, and where lists grow
}

TEST(MemoryStoreFailure, ManyAreChargedAllOrNone) {
  for (const char* kind : kKinds) {
    const MemorySetup setup;
    const Limited one(setup.store, kind);
    const Limited two(setup.store, "sliding-log: 40/h; concurrency: 40 ttl 1h");
    int failures = 0;
    for (int i = 0; i < 8; ++i) {
      const std::string fresh = "user:" + std::to_string(i);
      std::vector<Request> requests = {one.request(Op::kCheck, "k"), two.request(Op::kCheck, "k"),
                                       one.request(Op::kCheck, fresh, 2),
                                       two.request(Op::kCheck, fresh),
                                       one.request(Op::kCheck, "k")};
      for (Request& request : requests) request.want_ticket = false;
      const std::array<std::int64_t, 4> before = {one.peek("k").remaining, two.peek("k").remaining,
                                                  one.peek(fresh).remaining,
                                                  two.peek(fresh).remaining};
      failures += until_it_succeeds(
          [&] {
            std::vector<Answer> answers(requests.size());
            setup.store->execute_many(requests, answers);
          },
          [&] {
            EXPECT_EQ(one.peek("k").remaining, before[0]);
            EXPECT_EQ(two.peek("k").remaining, before[1]);
            EXPECT_EQ(one.peek(fresh).remaining, before[2]);
            EXPECT_EQ(two.peek(fresh).remaining, before[3]);
          });
      EXPECT_EQ(one.peek("k").remaining, before[0] - 2);
      EXPECT_EQ(two.peek("k").remaining, before[1] - 1);
    }
    EXPECT_GT(failures, 50) << kind;
  }
}

TEST(MemoryStoreFailure, GivingBackAndRenewingNeedNone) {
  const MemorySetup setup;
  for (const char* kind : kKinds) {
    const Limited rate(setup.store, kind);
    Ticket ticket;
    rate.check("k", 5, 0, &ticket);
    for (const Op op : {Op::kSettle, Op::kRenew, Op::kRefund}) {
      Request request = rate.request(op, "k", 3);
      request.tickets = {&ticket, 1};
      test::fail_allocation(1);
      Answer answer;
      setup.store->execute(request, &answer);
      EXPECT_FALSE(test::allocation_failed()) << kind;
    }
    test::fail_allocation(1);
    rate.reset("k");
    EXPECT_FALSE(test::allocation_failed()) << kind;
  }
}

}  // namespace
}  // namespace saqiya

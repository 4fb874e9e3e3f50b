// A list for which there is no memory is left as it was.
#include <gtest/gtest.h>

#include <new>

#include "tests/capi/failing_allocator.h"
#include "tests/support/step_harness.h"

namespace saqiya {
namespace {

using test::StepCell;
using test::window_rule;

TEST(ListMemoryFailure, AChargeThrowsAndChangesNothing) {
  for (const Algorithm of : {Algorithm::kSlidingLog, Algorithm::kConcurrency}) {
    StepCell cell(window_rule(of, 1000, 100));
    int failures = 0;
    for (Micros now = 0; now < 500; ++now) {
      const Ask ask = make_ask(cell.rule, 1, 0, static_cast<std::uint64_t>(now));
      const Seen seen = look(cell.rule, ask, cell.state, now, 0);
      ASSERT_TRUE(seen.fits);
      const auto before = cell.stored();
      bool threw = false;
      test::fail_allocation(1);
      try {
        charge(cell.rule, ask, seen, now, &cell.state);
      } catch (const std::bad_alloc&) {
        threw = true;
      }
      const bool failed = test::allocation_failed();
      if (!threw) continue;
      ASSERT_TRUE(failed);
      ASSERT_EQ(cell.stored(), before);
      ++failures;
      charge(cell.rule, ask, seen, now, &cell.state);
      ASSERT_EQ(look(cell.rule, ask, cell.state, now, 0).used, seen.used + 1);
    }
    EXPECT_GT(failures, 5);
  }
}

}  // namespace
}  // namespace saqiya

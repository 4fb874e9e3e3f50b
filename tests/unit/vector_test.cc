// tests/vectors on the memory store, through core.
#include <gtest/gtest.h>

#include "tests/support/core_driver.h"
#include "tests/support/step_vectors.h"

namespace saqiya::test {
namespace {

class CoreVectors : public testing::Test {
 protected:
  MemorySetup setup_;
  CoreDriver driver_{setup_.store, setup_.clock};
  VectorRunner runner_{&driver_};
};

TEST_F(CoreVectors, TokenBucket) { EXPECT_GT(runner_.play_traces("token_bucket.json"), 10'000); }
TEST_F(CoreVectors, Long) { EXPECT_GT(runner_.play_traces("long.json"), 1'000'000); }
TEST_F(CoreVectors, Random) { EXPECT_GE(runner_.play_random("random.json"), 10'000); }
TEST_F(CoreVectors, EveryAlgorithm) {
  StepVectors vectors(setup_.store, setup_.clock);
  for (const StepFile& file : kStepFiles) {
    EXPECT_GE(vectors.play_traces(file.name), file.traces) << file.name;
  }
}
TEST_F(CoreVectors, RandomOfEveryAlgorithm) {
  StepVectors vectors(setup_.store, setup_.clock);
  EXPECT_GE(vectors.play_random("random_steps.json"), 10'000U);
}
TEST_F(CoreVectors, Users) { EXPECT_GE(runner_.play_users("users.json"), 100'000); }

}  // namespace
}  // namespace saqiya::test

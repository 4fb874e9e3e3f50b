// What every store owes, and tests/vectors, over a real server under the test's own clock. C26.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/redis/fixture.h"
#include "tests/support/core_driver.h"
#include "tests/support/step_vectors.h"
#include "tests/unit/store_conformance.h"

namespace saqiya::test {

using saqiya::testing::RedisServer;

StoreUnderTest on_server(bool over_unix_socket) {
  const auto server = std::make_shared<RedisServer>();
  const auto clock = std::make_shared<ManualClock>(1'790'000'000'000'000);
  const std::string url = over_unix_socket ? server->unix_url() : server->url();
  return {saqiya::testing::open(url, saqiya::testing::timed(clock)), clock, server};
}

INSTANTIATE_TEST_SUITE_P(Redis, StoreConformance,
                         ::testing::Values(StoreFactory{"tcp", [] { return on_server(false); }},
                                           StoreFactory{"unix socket",
                                                        [] { return on_server(true); }}));

namespace {

class RedisVectors : public ::testing::Test {
 protected:
  const StoreUnderTest at_ = on_server(true);
  CoreDriver driver_{at_.store, at_.clock};
  VectorRunner runner_{&driver_};
};

TEST_F(RedisVectors, TokenBucket) { EXPECT_GT(runner_.play_traces("token_bucket.json"), 10'000); }
TEST_F(RedisVectors, Random) { EXPECT_GE(runner_.play_random("random.json"), 10'000); }
TEST_F(RedisVectors, EveryAlgorithm) {
  StepVectors vectors(at_.store, at_.clock);
  for (const StepFile& file : kStepFiles) {
    EXPECT_GE(vectors.play_traces(file.name), file.traces) << file.name;
  }
}
TEST_F(RedisVectors, RandomOfEveryAlgorithm) {
  StepVectors vectors(at_.store, at_.clock);
  EXPECT_GE(vectors.play_random("random_steps.json"), 10'000U);
}
TEST_F(RedisVectors, Users) { EXPECT_GE(runner_.play_users("users.json"), 100'000); }

}  // namespace
}  // namespace saqiya::test

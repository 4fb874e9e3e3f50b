// What every store owes, and tests/vectors, over a real server under the test's own clock. C26.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/redis/cluster.h"
#include "tests/redis/fixture.h"
#include "tests/redis/least_rights.h"
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

// As the user of docs/redis.md, who may do no more than is needed.
StoreUnderTest with_least_rights() {
  saqiya::testing::ServerOptions options;
  options.acl = saqiya::testing::documented_acl(0);
  const auto server = std::make_shared<RedisServer>(options);
  const auto clock = std::make_shared<ManualClock>(1'790'000'000'000'000);
  const std::string url = server->unix_url(saqiya::testing::kDocumentedLogin);
  return {saqiya::testing::open(url, saqiya::testing::timed(clock)), clock, server};
}

// One cluster for all, emptied for each.
StoreUnderTest on_cluster() {
  static saqiya::testing::Cluster cluster({.masters = 3, .replicas = 0});
  for (std::size_t i = 0; i < cluster.nodes(); ++i) cluster.node(i).client()({"FLUSHALL"});
  const auto clock = std::make_shared<ManualClock>(1'790'000'000'000'000);
  return {saqiya::testing::open(cluster.url(), saqiya::testing::timed(clock)), clock, nullptr};
}

INSTANTIATE_TEST_SUITE_P(Redis, StoreConformance,
                         ::testing::Values(StoreFactory{"tcp", [] { return on_server(false); }},
                                           StoreFactory{"unix socket",
                                                        [] { return on_server(true); }},
                                           StoreFactory{"least rights", with_least_rights},
                                           StoreFactory{"cluster", [] { return on_cluster(); }}));

namespace {

class RedisVectors : public ::testing::TestWithParam<bool> {
 protected:
  const StoreUnderTest at_ = GetParam() ? on_cluster() : with_least_rights();
  CoreDriver driver_{at_.store, at_.clock};
  VectorRunner runner_{&driver_};
};

TEST_P(RedisVectors, TokenBucket) { EXPECT_GT(runner_.play_traces("token_bucket.json"), 10'000); }
TEST_P(RedisVectors, Random) { EXPECT_GE(runner_.play_random("random.json"), 10'000); }
TEST_P(RedisVectors, EveryAlgorithm) {
  StepVectors vectors(at_.store, at_.clock);
  for (const StepFile& file : kStepFiles) {
    EXPECT_GE(vectors.play_traces(file.name), file.traces) << file.name;
  }
}
TEST_P(RedisVectors, RandomOfEveryAlgorithm) {
  StepVectors vectors(at_.store, at_.clock);
  EXPECT_GE(vectors.play_random("random_steps.json"), 10'000U);
}
// Long, so on one server only.
TEST(RedisUsers, Users) {
  const StoreUnderTest at = with_least_rights();
  CoreDriver driver(at.store, at.clock);
  VectorRunner runner(&driver);
  EXPECT_GE(runner.play_users("users.json"), 100'000);
}

INSTANTIATE_TEST_SUITE_P(Redis, RedisVectors, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "Cluster" : "Server"; });

}  // namespace
}  // namespace saqiya::test

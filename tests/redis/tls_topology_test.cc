// rediss+sentinel:// and rediss+cluster://: all of it goes over TLS, and each server must prove who
// it is.
#include "tests/redis/certificates.h"
#include "tests/redis/cluster.h"
#include "tests/redis/fixture.h"
#include "tests/redis/reach.h"
#include "tests/redis/sentinels.h"

namespace saqiya::testing {
namespace {

using ::testing::HasSubstr;

std::string ca() { return "?ca=" + certificates().ca; }
std::string other_ca() { return "?ca=" + certificates().other_ca; }

// Blocking and through a queue, a check for each of so many subjects.
void expect_decided(const std::string& url, int subjects) {
  const auto store = open(url, patient());
  const auto limiter = make_limiter(store, "5/h", "tls");
  const auto queue = open_queue(store);
  for (int i = 0; i < subjects; ++i) {
    const std::string subject = "u" + std::to_string(i);
    EXPECT_EQ(ask(check(*limiter, subject)).decision.remaining, 4);
    queue->submit(check(*limiter, subject), 1);
    const auto all = collect(*queue, 1);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].decision.remaining, 3);
  }
  EXPECT_EQ(store->stats().failures, 0U);
}

void expect_distrust(const std::string& url) {
  const auto store = open(url, patient());
  EXPECT_EQ(reason(check(*make_limiter(store, "5/h", "other"), "u")), Reason::kConnect);
  Event event;
  ASSERT_TRUE(store->next_event(&event));
  EXPECT_EQ(event.kind, Event::Kind::kOutage);
  EXPECT_THAT(std::string(event.message.data()), HasSubstr("certificate verify failed"));
}

TEST(RedisTlsSentinel, TheMasterIsFoundAndFollowed) {
  Sentinels sentinels({.tls = true});
  Reach reach(sentinels.url("", ca()));
  ASSERT_TRUE(reach.open()) << reach.connection().problem();
  EXPECT_EQ(reach.connection().server().port, sentinels.server(0).tls_port());
  expect_decided(sentinels.url("", ca()), 3);
  expect_distrust(sentinels.url("", other_ca()));
  const std::size_t master = sentinels.failover();
  ASSERT_NE(master, 0U);
  EXPECT_EQ(reach.problem(), "");
  EXPECT_EQ(reach.connection().server().port, sentinels.server(master).tls_port());
}

// A sentinel that can prove who it is names a master that cannot.
TEST(RedisTlsSentinel, AMasterThatProvesNothingIsRefused) {
  const KeyPair& pair = certificates().elsewhere;
  Sentinels sentinels(
      {.replicas = 0,
       .tls = true,
       .arguments = {"--tls-cert-file", pair.certificate, "--tls-key-file", pair.key}});
  Reach reach(sentinels.url("", ca()));
  EXPECT_THAT(reach.problem(), HasSubstr("IP address mismatch"));
  EXPECT_EQ(reach.failure(), Reason::kConnect);
}

TEST(RedisTlsCluster, EveryNodeIsReached) {
  Cluster cluster({.masters = 3, .replicas = 0, .tls = true});
  expect_decided(cluster.url("", ca()), 20);
  for (std::size_t i = 0; i < cluster.nodes(); ++i) {
    EXPECT_GT(cluster.node(i).client().keys().size(), 0U);
  }
  expect_distrust(cluster.url("", other_ca()));
  // A redirection leads to a connection over TLS, too.
  const int slot = cluster.slot_of("{u0}");
  const auto store = open(cluster.url("", ca()), patient());
  const auto limiter = make_limiter(store, "5/h", "tls");
  EXPECT_EQ(ask(check(*limiter, "u0")).decision.remaining, 2);
  cluster.migrate(slot, (cluster.master_of(slot) + 1) % 3);
  EXPECT_EQ(ask(check(*limiter, "u0")).decision.remaining, 1);
}

}  // namespace
}  // namespace saqiya::testing

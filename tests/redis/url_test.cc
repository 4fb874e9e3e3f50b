// Store URLs: what is accepted, and what is said about what is not.
#include "core/redis/url.h"

#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

std::string problem(std::string_view url, const StoreOptions& options = {}) {
  OpenError error;
  return open_store(url, options, &error) == nullptr ? error.message : "";
}

redis::Endpoint parsed(std::string_view url) {
  redis::Endpoint endpoint;
  EXPECT_EQ(redis::parse_url(url, &endpoint), "") << url;
  return endpoint;
}

std::string parse_problem(std::string_view url) {
  redis::Endpoint endpoint;
  return redis::parse_url(url, &endpoint);
}

TEST(StoreUrl, GoodOnesOpenWithoutConnecting) {
  for (const char* url : {"memory://",
                          "redis://localhost",
                          "redis://localhost:6380",
                          "redis://localhost/0",
                          "redis://localhost/",
                          "redis://:secret@localhost",
                          "redis://user:secret@localhost:1/15",
                          "redis://user:p%40%3a%2F@localhost",
                          "redis://u:a@b@localhost",
                          "redis://[::1]",
                          "redis://[::1]:6379/2",
                          "redis://[fe80::1%25lo]",
                          "redis://127.0.0.1:65535",
                          "redis://@localhost",
                          "redis://:@localhost",
                          "unix:///run/redis.sock",
                          "unix:///run/redis.sock?db=3",
                          "unix://user:secret@/run/redis.sock",
                          "unix:///a%20b/redis.sock",
                          "rediss://localhost",
                          "rediss://user:secret@[::1]:6380/2?ca=/etc/ca.pem&verify=no",
                          "redis+sentinel://a,b:1,[::1]:2/mymaster",
                          "rediss+sentinel://:pw@a/m/3?sentinel_password=x",
                          "redis+cluster://a,b:7001",
                          "redis+cluster://a/",
                          "redis+cluster://a/0",
                          "rediss+cluster://user:secret@a,b?client_name=web-1"}) {
    EXPECT_EQ(problem(url), "") << url;
  }
}

TEST(StoreUrl, BadOnesAreRefused) {
  for (const char* url : {"",
                          "redis",
                          "redis:",
                          "redis:/localhost",
                          "REDIS://localhost",
                          "http://localhost",
                          "redis://",
                          "redis:///0",
                          "redis://:6379",
                          "redis://localhost:",
                          "redis://localhost:0",
                          "redis://localhost:65536",
                          "redis://localhost:1x",
                          "redis://localhost:-1",
                          "redis://localhost/x",
                          "redis://localhost/-1",
                          "redis://localhost/1/2",
                          "redis://localhost/2147483648",
                          "redis://localhost?db=1",
                          "redis://localhost#1",
                          "redis://::1",
                          "redis://::1:6379",
                          "redis://[::1",
                          "redis://[::1]6379",
                          "redis://[]",
                          "redis://user@localhost",
                          "redis://user:%@localhost",
                          "redis://user:%4@localhost",
                          "redis://user:%zz@localhost",
                          "redis://ho%00st",
                          "unix://",
                          "unix://relative",
                          "unix://?db=1",
                          "unix:///s?db=",
                          "unix:///s?db=x",
                          "unix:///s?database=1",
                          "unix:///s?db=1&db=2",
                          "unix:///a%00b",
                          "unix:///s#1",
                          "unix:///s?ca=/x",
                          "rediss:///0",
                          "rediss+unix:///s",
                          "redis://localhost?ca=/x",
                          "redis://localhost?verify=no",
                          "redis://localhost?sentinel_user=a&sentinel_password=b",
                          "redis://a,b",
                          "redis://localhost?client_name=",
                          "redis://localhost?client_name=a%20b",
                          "redis://localhost?client_name=%0a",
                          "redis://localhost?client_name",
                          "redis://localhost?client_name=a&",
                          "redis://localhost?&client_name=a",
                          "rediss://localhost?verify=false",
                          "rediss://localhost?verify=",
                          "rediss://localhost?ca=",
                          "rediss://localhost?ca=a%00b",
                          "rediss://localhost?cert=/c",
                          "rediss://localhost?key=/k",
                          "rediss://localhost?server_name=",
                          "rediss://localhost?server_name=%",
                          "redis+sentinel://a",
                          "redis+sentinel://a/",
                          "redis+sentinel://a//0",
                          "redis+sentinel://a,/m",
                          "redis+sentinel://,a/m",
                          "redis+sentinel://a,,b/m",
                          "redis+sentinel:///m",
                          "redis+sentinel://a/m/x",
                          "redis+sentinel://a/m/1/2",
                          "redis+sentinel://a/m%0a",
                          "redis+sentinel://a/m?db=1",
                          "redis+sentinel://a/m?sentinel_user=u",
                          "redis+sentinel://a:1:2,b/m",
                          "redis+sentinel://u:12/p@a,b/m",
                          "redis+cluster://",
                          "redis+cluster://a/1",
                          "redis+cluster://a,b:0",
                          "redis+cluster://a/m?x=1",
                          "redis+magic://a",
                          "memory://x",
                          "memory:",
                          " memory://"}) {
    EXPECT_NE(problem(url), "") << url;
  }
  EXPECT_NE(problem("unix:///" + std::string(107, 'x')), "");
  EXPECT_NE(problem("redis://localhost?client_name=" + std::string(65, 'x')), "");
  EXPECT_NE(problem("redis://" + std::string(256, 'x')), "");
  std::string many = "redis+cluster://a";
  for (int i = 0; i < 64; ++i) many += ",a";
  EXPECT_NE(problem(many), "");
}

TEST(StoreUrl, PlacesAndLogin) {
  redis::Endpoint e = parsed("redis://us%40er:p%3Aa%2f%3fw@ex%41mple:1/7");
  EXPECT_EQ(e.topology, redis::Endpoint::Topology::kSingle);
  ASSERT_EQ(e.places.size(), 1U);
  EXPECT_EQ(e.places[0], (redis::Place{false, "exAmple", 1, ""}));
  EXPECT_TRUE(e.login.has_password);
  EXPECT_EQ(e.login.user, "us@er");
  EXPECT_EQ(e.login.password, "p:a/?w");
  EXPECT_EQ(e.database, 7U);
  EXPECT_FALSE(e.tls.on);

  e = parsed("rediss://[::1]?ca=%2Fa%20b&cert=c&key=k&server_name=s&verify=yes&client_name=n");
  EXPECT_EQ(e.places[0], (redis::Place{false, "::1", 6379, ""}));
  EXPECT_FALSE(e.login.has_password);
  EXPECT_TRUE(e.tls.on && e.tls.verify);
  EXPECT_EQ(e.tls.ca + e.tls.cert + e.tls.key + e.tls.server_name, "/a bcks");
  EXPECT_EQ(e.client_name, "n");
  EXPECT_FALSE(parsed("rediss://h?verify=no").tls.verify);

  e = parsed("unix://:p@/a%3Fb?client_name=x&db=9");
  EXPECT_EQ(e.places[0], (redis::Place{true, "", 6379, "/a?b"}));
  EXPECT_EQ(e.login.password, "p");
  EXPECT_EQ(e.database, 9U);
}

TEST(StoreUrl, SentinelsAndClusters) {
  redis::Endpoint e = parsed(
      "redis+sentinel://u:p@a,b:5,[fe80::1%25lo]:6/my%2Fmaster/2?sentinel_user=w&"
      "sentinel_password=%26%40");
  EXPECT_EQ(e.topology, redis::Endpoint::Topology::kSentinel);
  ASSERT_EQ(e.places.size(), 3U);
  EXPECT_EQ(e.places[0], (redis::Place{false, "a", 26379, ""}));
  EXPECT_EQ(e.places[1], (redis::Place{false, "b", 5, ""}));
  EXPECT_EQ(e.places[2], (redis::Place{false, "fe80::1%lo", 6, ""}));
  EXPECT_EQ(e.master, "my/master");
  EXPECT_EQ(e.database, 2U);
  EXPECT_EQ(e.login.user, "u");
  EXPECT_EQ(e.sentinel_login.user, "w");
  EXPECT_EQ(e.sentinel_login.password, "&@");
  EXPECT_FALSE(parsed("redis+sentinel://:p@a/m").sentinel_login.has_password);
  EXPECT_TRUE(parsed("redis+sentinel://a/m?sentinel_password=x").sentinel_login.has_password);
  EXPECT_TRUE(parsed("rediss+sentinel://a/m").tls.on);

  e = parsed("rediss+cluster://:p@a,b:7");
  EXPECT_EQ(e.topology, redis::Endpoint::Topology::kCluster);
  EXPECT_TRUE(e.tls.on);
  ASSERT_EQ(e.places.size(), 2U);
  EXPECT_EQ(e.places[0].port, 6379);
  EXPECT_EQ(e.places[1].port, 7);
}

TEST(StoreUrl, ErrorsNameTheParameter) {
  EXPECT_THAT(parse_problem("redis://h?ssl=true"), ::testing::HasSubstr("parameter ssl"));
  EXPECT_THAT(parse_problem("redis://h?client_name=a&client_name=b"),
              ::testing::HasSubstr("parameter client_name twice"));
  EXPECT_THAT(parse_problem("redis://h?verify=no"), ::testing::HasSubstr("parameter verify"));
  EXPECT_THAT(parse_problem("unix:///s?db=1&db=2"), ::testing::HasSubstr("parameter db twice"));
  EXPECT_THAT(parse_problem("redis+sentinel://h/m?sentinel_user=u"),
              ::testing::HasSubstr("sentinel_password"));
}

TEST(StoreUrl, ErrorsNeverShowThePassword) {
  for (const char* url :
       {"redis://user:hunter2@",
        "redis://user:hunter2%@localhost",
        "redis://user:hunter2@localhost:x",
        "redis://user:hunter2@localhost/x",
        "redis://user:hunter2@[::1",
        "unix://user:hunter2@",
        "unix://user:hunter2@/s?db=x",
        "redis://hunter2@localhost",
        "redis://user:hunter2?@localhost",
        "xredis://user:hunter2@localhost",
        "redis://user:1?hunter2@localhost",
        "redis://user:1?hunter2=@localhost",
        "redis://user:1/hunter2@localhost",
        "redis://user:1#hunter2@localhost",
        "redis+sentinel://user:1/hunter2@h",
        "redis+cluster://u:hunter2@h,",
        "redis+sentinel://h/m?sentinel_password=hunter2&sentinel_password=hunter2",
        "redis+sentinel://h/m?sentinel_password=x&hunter2=y",
        "redis+sentinel://h/m?sentinel_password=hunter2%",
        "redis+sentinel://h/m?sentinel_password=x@hunter2",
        "redis://h?sentinel_password=hunter2",
        "redis://h?password=hunter2",
        "redis://h?hunter2=a"}) {
    const std::string error = problem(url);
    EXPECT_NE(error, "") << url;
    EXPECT_EQ(error.find("hunter2"), std::string::npos) << error;
    EXPECT_LT(error.size(), 248U);
  }
}

TEST(StoreUrl, OptionsAreCheckedAgainstTheStore) {
  StoreOptions options;
  options.clock = std::make_shared<ManualClock>(0);
  EXPECT_EQ(problem("memory://", options), "");
  EXPECT_NE(problem("redis://localhost", options), "");
  options.testing = true;
  EXPECT_EQ(problem("redis://localhost", options), "");
  options = {};
  options.prefix = "a{b";
  EXPECT_NE(problem("redis://localhost", options), "");
  options = {};
  options.connections = 0;
  EXPECT_NE(problem("redis://localhost", options), "");
  options.connections = 65;
  EXPECT_NE(problem("redis://localhost", options), "");
}

}  // namespace
}  // namespace saqiya::testing

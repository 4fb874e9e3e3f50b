// Store URLs: what is accepted, and what is said about what is not.
#include <cstdlib>

#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

std::string problem(std::string_view url, const StoreOptions& options = {}) {
  OpenError error;
  return open_store(url, options, &error) == nullptr ? error.message : "";
}

TEST(StoreUrl, GoodOnesOpenWithoutConnecting) {
  for (const char* url :
       {"memory://", "redis://localhost", "redis://localhost:6380", "redis://localhost/0",
        "redis://localhost/", "redis://:secret@localhost", "redis://user:secret@localhost:1/15",
        "redis://user:p%40%3a%2F@localhost", "redis://u:a@b@localhost", "redis://[::1]",
        "redis://[::1]:6379/2", "redis://[fe80::1%25lo]", "redis://127.0.0.1:65535",
        "redis://@localhost", "redis://:@localhost", "unix:///run/redis.sock",
        "unix:///run/redis.sock?db=3", "unix://user:secret@/run/redis.sock",
        "unix:///a%20b/redis.sock"}) {
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
                          "rediss://localhost",
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
                          "memory://x",
                          "memory:",
                          " memory://"}) {
    EXPECT_NE(problem(url), "") << url;
  }
  EXPECT_NE(problem("unix:///" + std::string(107, 'x')), "");
}

TEST(StoreUrl, ErrorsNeverShowThePassword) {
  for (const char* url : {"redis://user:hunter2@", "redis://user:hunter2%@localhost",
                          "redis://user:hunter2@localhost:x", "redis://user:hunter2@localhost/x",
                          "redis://user:hunter2@[::1", "unix://user:hunter2@",
                          "unix://user:hunter2@/s?db=x", "redis://hunter2@localhost",
                          "redis://user:hunter2?@localhost", "xredis://user:hunter2@localhost"}) {
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

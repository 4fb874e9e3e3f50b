// tests/vectors on the memory store, through the C API.
#include <gtest/gtest.h>
#include <saqiya/saqiya.h>

#include <cstring>
#include <string>

#include "tests/support/vector_runner.h"

namespace saqiya::test {
namespace {

class CApiDriver final : public VectorDriver {
 public:
  CApiDriver() { EXPECT_EQ(saqiya_clock_create_manual(0, &clock_), SAQIYA_OK); }
  CApiDriver(const CApiDriver&) = delete;
  CApiDriver& operator=(const CApiDriver&) = delete;
  ~CApiDriver() override {
    saqiya_limiter_free(limiter_);
    saqiya_store_free(store_);
    saqiya_clock_free(clock_);
  }

  void begin() override {
    saqiya_store_options options;
    saqiya_store_options_init(&options, sizeof options);
    options.clock = clock_;
    saqiya_store_free(store_);
    ASSERT_EQ(saqiya_store_open("memory://", &options, &store_, nullptr), SAQIYA_OK);
  }

  void set_now(Micros now) override { ASSERT_EQ(saqiya_clock_set(clock_, now), SAQIYA_OK); }

  void use(const std::string& policy, const std::string& name) override {
    saqiya_limiter_free(limiter_);
    limiter_ = nullptr;
    saqiya_limiter_options options;
    saqiya_limiter_options_init(&options, sizeof options);
    options.name = name.c_str();
    saqiya_error error;
    ASSERT_EQ(saqiya_limiter_create(store_, policy.c_str(), &options, &limiter_, &error), SAQIYA_OK)
        << error.message;
  }

  Decision check(const std::string& key, std::int64_t cost, Micros max_wait,
                 Ticket* ticket) override {
    saqiya_decision d;
    saqiya_ticket t;
    EXPECT_EQ(saqiya_limiter_check_wait(limiter_, key.data(), key.size(), cost, max_wait, &d,
                                        ticket != nullptr ? &t : nullptr),
              SAQIYA_OK);
    if (ticket != nullptr) std::memcpy(static_cast<void*>(ticket), &t, sizeof t);
    return as_decision(d);
  }

  Decision peek(const std::string& key, std::int64_t cost) override {
    saqiya_decision d;
    EXPECT_EQ(saqiya_limiter_peek(limiter_, key.data(), key.size(), cost, &d), SAQIYA_OK);
    return as_decision(d);
  }

  Decision refund(const std::string& key, Ticket* ticket) override {
    saqiya_decision d;
    saqiya_ticket t;
    std::memcpy(&t, ticket, sizeof t);
    EXPECT_EQ(saqiya_limiter_refund(limiter_, key.data(), key.size(), &t, &d), SAQIYA_OK);
    std::memcpy(static_cast<void*>(ticket), &t, sizeof t);
    return as_decision(d);
  }

  Decision reset(const std::string& key) override {
    saqiya_decision d;
    EXPECT_EQ(saqiya_limiter_reset(limiter_, key.data(), key.size(), &d), SAQIYA_OK);
    return as_decision(d);
  }

 private:
  static Decision as_decision(const saqiya_decision& d) {
    Decision out;
    std::memcpy(static_cast<void*>(&out), &d, sizeof d);
    return out;
  }

  saqiya_clock* clock_ = nullptr;
  saqiya_store* store_ = nullptr;
  saqiya_limiter* limiter_ = nullptr;
};

class CApiVectors : public testing::Test {
 protected:
  CApiDriver driver_;
  VectorRunner runner_{&driver_};
};

TEST_F(CApiVectors, TokenBucket) { EXPECT_GT(runner_.play_traces("token_bucket.json"), 10'000); }
TEST_F(CApiVectors, Long) { EXPECT_GT(runner_.play_traces("long.json"), 1'000'000); }
TEST_F(CApiVectors, Random) { EXPECT_GE(runner_.play_random("random.json"), 10'000); }
TEST_F(CApiVectors, Users) { EXPECT_GE(runner_.play_users("users.json"), 100'000); }

TEST_F(CApiVectors, Policies) {
  saqiya_store* store = nullptr;
  ASSERT_EQ(saqiya_store_open("memory://", nullptr, &store, nullptr), SAQIYA_OK);
  const Json data = read_vectors("policies.json");
  for (const char* list : {"accepted", "unlimited"}) {
    for (const Json& row : data.at(list)) {
      SCOPED_TRACE(row.dump());
      saqiya_limiter* limiter = nullptr;
      const std::string text = row.at("text");
      EXPECT_EQ(saqiya_limiter_create(store, text.c_str(), nullptr, &limiter, nullptr), SAQIYA_OK);
      if (row.contains("canonical")) {
        EXPECT_EQ(saqiya_limiter_policy(limiter), row.at("canonical").get<std::string>());
      }
      saqiya_limiter_free(limiter);
    }
  }
  for (const Json& row : data.at("refused")) {
    SCOPED_TRACE(row.dump());
    saqiya_limiter* limiter = nullptr;
    saqiya_error error;
    const std::string text = row.at("text");
    if (text.find('\0') != std::string::npos) continue;  // C's strings cannot hold it
    EXPECT_EQ(saqiya_limiter_create(store, text.c_str(), nullptr, &limiter, &error),
              SAQIYA_BAD_POLICY);
    EXPECT_EQ(error.position, row.at("offset").get<std::int32_t>());
    EXPECT_EQ(limiter, nullptr);
  }
  saqiya_store_free(store);
}

}  // namespace
}  // namespace saqiya::test

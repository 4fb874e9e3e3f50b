// Plays tests/vectors/*.json (README there) on anything that can check, peek, refund and reset.
// A test gives a VectorDriver: core on the memory store, core on Redis, or the C API.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/decision.h"
#include "core/time.h"

namespace saqiya::test {

using Json = nlohmann::json;

// SAQIYA_VECTORS is the folder, set by CMake.
inline Json read_vectors(const std::string& file) {
  std::ifstream in(std::string(SAQIYA_VECTORS) + "/" + file);
  EXPECT_TRUE(in.good()) << file;
  return Json::parse(in);
}

// One limiter at a time; calls come from one thread.
class VectorDriver {
 public:
  virtual ~VectorDriver() = default;
  // Before each trace. Its clock begins anew, so where buckets of another trace could matter (in a
  // store that is this process's) it needs a store of its own.
  virtual void begin() = 0;
  virtual void set_now(Micros now) = 0;
  // A limiter of this policy, named name, on the driver's store; replaces the one before.
  virtual void use(const std::string& policy, const std::string& name) = 0;
  virtual Decision check(const std::string& key, std::int64_t cost, Micros max_wait,
                         Ticket* ticket) = 0;
  virtual Decision peek(const std::string& key, std::int64_t cost) = 0;
  // Marks *ticket spent.
  virtual Decision refund(const std::string& key, Ticket* ticket) = 0;
  virtual Decision reset(const std::string& key) = 0;
};

class VectorRunner {
 public:
  explicit VectorRunner(VectorDriver* driver) : driver_(*driver) {}

  // Each returns the number of operations played; failures are the test's.
  std::int64_t play_traces(const std::string& file) {
    std::int64_t count = 0;
    const Json data = read_vectors(file);
    for (const Json& trace : data.at("traces")) {
      count += play(trace.at("name"), trace.at("rule"), trace.at("steps"));
    }
    return count;
  }

  std::int64_t play_random(const std::string& file) {
    static constexpr const char* kOps[] = {"check", "peek", "refund", "reset", "rule"};
    static constexpr const char* kOutcomes[] = {"none", "allowed", "denied", "never"};
    const Json data = read_vectors(file);
    std::int64_t limit = data.at("rules").at(0).at("capacity");
    Json steps = Json::array();
    for (const Json& row : data.at("events")) {
      Json step = {{"now", row.at(0)}, {"op", kOps[row.at(1).get<int>()]}};
      if (row.at(1) == 4) {
        step["rule"] = data.at("rules").at(row.at(2).get<std::size_t>());
        limit = step["rule"].at("capacity");
      } else {
        step["key"] = data.at("keys").at(row.at(2).get<std::size_t>());
        step["cost"] = row.at(3);
        step["max_wait_us"] = row.at(4);
        if (!row.at(5).is_null()) step["ticket"] = row.at(5);
        step["expect"] = {{"outcome", kOutcomes[row.at(6).get<int>()]},
                          {"limit", limit},
                          {"remaining", row.at(7)},
                          {"retry_after_us", row.at(8)},
                          {"reset_after_us", row.at(9)},
                          {"delay_us", row.at(10)}};
      }
      steps.push_back(std::move(step));
    }
    return play("random", data.at("rules").at(0), steps);
  }

  std::int64_t play_users(const std::string& file) {
    std::int64_t count = 0;
    const Json data = read_vectors(file);
    for (const Json& scenario : data.at("scenarios")) count += play_crowd(scenario);
    return count;
  }

 private:
  std::int64_t play(const std::string& name, const Json& rule, const Json& steps) {
    driver_.begin();
    driver_.use(rule.at("text"), name);
    std::map<std::size_t, Ticket> tickets;
    std::int64_t count = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << name << ", step " << i << ": " << steps[i].dump());
      count += play_step(name, steps[i], i, &tickets);
      if (::testing::Test::HasFailure()) return count;
    }
    return count;
  }

  std::int64_t play_step(const std::string& name, const Json& step, std::size_t index,
                         std::map<std::size_t, Ticket>* tickets) {
    const std::string op = step.at("op");
    const std::string key = step.value("key", "k");
    const Micros now = step.at("now");
    driver_.set_now(now);
    if (op == "rule") {
      driver_.use(step.at("rule").at("text"), name);
      return 1;
    }
    if (op == "check") return play_checks(step, key, now, &(*tickets)[index]);
    if (op == "peek") {
      expect(driver_.peek(key, step.at("cost")), step.at("expect"));
    } else if (op == "refund") {
      expect(driver_.refund(key, &(*tickets)[step.at("ticket")]), step.at("expect"));
    } else {
      EXPECT_EQ(op, "reset");
      expect(driver_.reset(key), step.at("expect"));
    }
    return 1;
  }

  std::int64_t play_checks(const Json& step, const std::string& key, Micros now, Ticket* ticket) {
    const auto repeat = step.value("repeat", std::int64_t{1});
    const auto every = step.value("every_us", Micros{0});
    const auto max_wait = step.value("max_wait_us", Micros{0});
    const std::int64_t cost = step.at("cost");
    std::int64_t allowed = 0;
    Decision d;
    for (std::int64_t i = 0; i < repeat; ++i) {
      if (i != 0 && every != 0) driver_.set_now(now + i * every);
      d = driver_.check(key, cost, max_wait, ticket);
      allowed += d.outcome == Outcome::kAllowed ? 1 : 0;
    }
    if (step.contains("expect_allowed")) {
      EXPECT_EQ(allowed, step.at("expect_allowed").get<std::int64_t>());
    }
    expect(d, step.at("expect"));
    return repeat;
  }

  std::int64_t play_crowd(const Json& scenario) {
    const std::string name = scenario.at("name");
    SCOPED_TRACE(name);
    driver_.begin();
    constexpr std::uint64_t kModulus = 2147483647;
    constexpr std::uint64_t kFactor = 48271;
    std::uint64_t x = scenario.at("seed");
    const auto draw = [&x] { return x = x * kFactor % kModulus; };
    const std::size_t users = scenario.at("users");
    const std::size_t requests = scenario.at("requests_per_user");
    std::vector<std::size_t> arrivals;
    for (std::size_t user = 0; user < users; ++user)
      arrivals.insert(arrivals.end(), requests, user);
    for (std::size_t i = arrivals.size() - 1; i > 0; --i) {
      std::swap(arrivals[i], arrivals[draw() % (i + 1)]);
    }
    driver_.use(scenario.at("rule").at("text"), name);
    const std::uint64_t gap = scenario.at("gap_us");
    const std::uint64_t max_cost = scenario.at("max_cost");
    std::vector<std::int64_t> admitted(users);
    std::int64_t total = 0;
    std::uint64_t sum = 1;
    Micros now = scenario.at("start_us");
    for (const std::size_t user : arrivals) {
      now += static_cast<Micros>(draw() % gap);
      driver_.set_now(now);
      const auto cost = static_cast<std::int64_t>(1 + draw() % max_cost);
      const Decision d = driver_.check("user" + std::to_string(user), cost, 0, nullptr);
      const bool allowed = d.outcome == Outcome::kAllowed;
      admitted[user] += allowed ? 1 : 0;
      total += allowed ? 1 : 0;
      const std::int64_t value = allowed ? d.remaining + 1 : d.retry_after;
      sum = (sum * kFactor + static_cast<std::uint64_t>(value)) % kModulus;
    }
    const Json& want = scenario.at("expect");
    EXPECT_EQ(total, want.at("admitted").get<std::int64_t>());
    EXPECT_EQ(sum, want.at("checksum").get<std::uint64_t>());
    EXPECT_EQ(admitted, want.at("admitted_by_user").get<std::vector<std::int64_t>>());
    return static_cast<std::int64_t>(arrivals.size());
  }

  static void expect(const Decision& got, const Json& want) {
    static const std::map<std::string, Outcome> outcomes = {
        {"allowed", Outcome::kAllowed}, {"denied", Outcome::kDenied}, {"never", Outcome::kNever}};
    EXPECT_EQ(got.outcome, outcomes.at(want.at("outcome")));
    EXPECT_EQ(got.limit, want.at("limit").get<std::int64_t>());
    EXPECT_EQ(got.remaining, want.at("remaining").get<std::int64_t>());
    const Json& retry_after = want.at("retry_after_us");
    EXPECT_EQ(got.retry_after, retry_after.is_null() ? kForever : retry_after.get<Micros>());
    EXPECT_EQ(got.reset_after, want.at("reset_after_us").get<Micros>());
    EXPECT_EQ(got.delay, want.at("delay_us").get<Micros>());
  }

  VectorDriver& driver_;
};

}  // namespace saqiya::test

// Plays the vectors of all algorithms (tests/vectors/README.md) on a store of core's.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/group.h"
#include "tests/support/limited.h"
#include "tests/support/vector_runner.h"

namespace saqiya::test {

class StepVectors {
 public:
  // Each trace needs a store without state: on Redis names tell traces apart, in memory it is made
  // anew.
  StepVectors(std::shared_ptr<Store> store, std::shared_ptr<ManualClock> clock)
      : store_(std::move(store)), clock_(std::move(clock)) {}

  // Returns the number of traces; failures are the test's.
  std::size_t play_traces(const std::string& file) {
    const Json data = read_vectors(file);
    for (const Json& trace : data.at("traces")) {
      const Json limiters =
          trace.contains("limiters") ? trace.at("limiters") : Json::array({trace.at("rule")});
      play(trace.at("name"), limiters, trace.at("steps"));
      if (::testing::Test::HasFailure()) break;
    }
    return data.at("traces").size();
  }

  std::size_t play_random(const std::string& file) {
    static constexpr const char* kOps[] = {"check",    "peek",      "refund", "reset",
                                           "rule",     "settle",    "renew",  "check_all",
                                           "peek_all", "refund_all"};
    static constexpr const char* kOutcomes[] = {"none", "allowed", "denied", "never"};
    const Json data = read_vectors(file);
    Json first = Json::array();
    for (const Json& versions : data.at("limiters")) first.push_back(versions.at(0));
    Json steps = Json::array();
    for (const Json& row : data.at("events")) {
      const std::string op = kOps[row.at(1).get<int>()];
      Json step = {{"now", row.at(0)}, {"op", op}};
      if (op == "rule") {
        step["limiter"] = row.at(2);
        step["rule"] =
            data.at("limiters").at(row.at(2).get<std::size_t>()).at(row.at(3).get<std::size_t>());
      } else {
        Json items = Json::array();
        for (const Json& asked : row.at(2)) {
          items.push_back({{"limiter", asked.at(0)},
                           {"key", data.at("keys").at(asked.at(1).get<std::size_t>())},
                           {"cost", asked.at(2)}});
        }
        if (is_for_all(op)) {
          step["items"] = items;
        } else {
          step.update(items.at(0));
        }
        step["max_wait_us"] = row.at(3);
        if (!row.at(4).is_null()) step["ticket"] = row.at(4);
        step["expect"] = {{"outcome", kOutcomes[row.at(5).get<int>()]},
                          {"limit", row.at(6)},
                          {"remaining", row.at(7)},
                          {"retry_after_us", row.at(8)},
                          {"reset_after_us", row.at(9)},
                          {"delay_us", row.at(10)}};
        if (op != "refund" && op != "settle" && op != "renew" && op != "reset" &&
            op != "refund_all") {
          step["expect"]["rule"] = row.at(11);
          step["expect"]["item"] = row.at(12);
        }
      }
      steps.push_back(std::move(step));
    }
    play("random", first, steps);
    return steps.size();
  }

 private:
  static bool is_for_all(const std::string& op) {
    return op.size() > 4 && op.compare(op.size() - 4, 4, "_all") == 0;
  }

  void play(const std::string& name, const Json& limiters, const Json& steps) {
    if (store_->is_local()) {
      StoreOptions options;
      options.clock = clock_;
      OpenError error;
      store_ = open_store("memory://", options, &error);
      ASSERT_NE(store_, nullptr) << error.message;
    }
    limiters_.clear();
    tickets_.clear();
    for (std::size_t i = 0; i < limiters.size(); ++i) use(name, i, limiters[i].at("text"));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << name << ", step " << i << ": " << steps[i].dump());
      step(name, steps[i], i);
      if (::testing::Test::HasFailure()) return;
    }
  }

  void use(const std::string& name, std::size_t limiter, const std::string& text) {
    const std::string full = (std::to_string(limiter) + "-" + name).substr(0, 64);
    if (limiters_.size() <= limiter) limiters_.resize(limiter + 1);
    limiters_[limiter] = std::make_shared<Limiter>(store_, policy_of(text), full, 0);
  }

  // Rules of an item, as room for them is counted.
  static std::size_t rules_of(const Limiter& limiter) {
    return std::max<std::size_t>(1, limiter.rules().size());
  }

  void step(const std::string& name, const Json& step, std::size_t index) {
    const std::string op = step.at("op");
    const std::size_t which = step.value("limiter", std::size_t{0});
    ASSERT_TRUE(clock_->set(step.at("now").get<Micros>()));
    if (op == "rule") return use(name, which, step.at("rule").at("text"));

    std::vector<std::string> keys;
    std::vector<Item> items;
    if (step.contains("items")) {
      for (const Json& item : step.at("items")) keys.push_back(item.value("key", "k"));
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const Json& item = step.at("items").at(i);
        items.push_back({limiters_[item.value("limiter", std::size_t{0})].get(), keys[i],
                         item.value("cost", std::int64_t{0})});
      }
    } else {
      keys.push_back(step.value("key", "k"));
      items.push_back({limiters_[which].get(), keys[0], step.value("cost", std::int64_t{0})});
    }
    Request request;
    static const std::map<std::string, Op> ops = {
        {"check", Op::kCheck},     {"peek", Op::kPeek},     {"refund", Op::kRefund},
        {"reset", Op::kReset},     {"settle", Op::kSettle}, {"renew", Op::kRenew},
        {"check_all", Op::kCheck}, {"peek_all", Op::kPeek}, {"refund_all", Op::kRefund}};
    request.op = ops.at(op);
    request.limiter = items[0].limiter;
    request.key = items[0].key;
    request.cost = items[0].cost;
    request.max_wait = step.value("max_wait_us", Micros{0});
    if (is_for_all(op)) request.items = items;

    std::size_t rules = 0;
    for (const Item& item : items) rules += rules_of(*item.limiter);
    std::vector<Decision> each(rules);
    std::vector<Ticket> charged(rules);
    std::vector<Ticket> given;
    if (step.contains("ticket")) {
      Charged& past = tickets_.at(step.at("ticket").get<std::size_t>());
      const std::size_t first =
          is_for_all(op) ? 0 : past.offsets.at(step.value("item", std::size_t{0}));
      // A rule that has become several, or the other way round, has other tickets: those that are
      // not there are empty.
      for (std::size_t i = 0; i < rules; ++i) {
        if (first + i >= past.tickets.size()) {
          given.emplace_back();
          continue;
        }
        given.push_back(past.tickets[first + i]);
        Ticket& kept = past.tickets[first + i];
        if (op != "renew" && !leaves_alone(request.op, kept, rules)) kept.flags |= Ticket::kSpent;
      }
      request.tickets = given;
    }
    const bool asks = request.op == Op::kCheck || request.op == Op::kPeek;
    // Every second step of one limiter goes without: a single bucket then takes its shorter way.
    if (is_for_all(op) || rules > 1 || index % 2 == 0) {
      if (asks) request.each = each;
      if (request.op == Op::kCheck) request.tickets_out = charged;
    }
    Answer answer;
    std::int64_t allowed = 0;
    const auto repeat = step.value("repeat", std::int64_t{1});
    for (std::int64_t i = 0; i < repeat; ++i) {
      if (i > 0) {
        const Micros every = step.at("every_us");
        ASSERT_TRUE(clock_->set(step.at("now").get<Micros>() + i * every));
      }
      answer = {};
      if (request.items.empty() && request.limiter->is_unlimited()) {
        answer.decision = unlimited_decision(request.op);
      } else {
        store_->execute(request, &answer);
      }
      allowed += answer.decision.outcome == Outcome::kAllowed ? 1 : 0;
    }
    if (step.contains("expect_allowed")) {
      EXPECT_EQ(allowed, step.at("expect_allowed").get<std::int64_t>());
    }
    expect(answer.decision, step.at("expect"));
    if (step.at("expect").contains("each") && !request.each.empty()) {
      const Json& want = step.at("expect").at("each");
      ASSERT_EQ(want.size(), each.size());
      for (std::size_t i = 0; i < each.size(); ++i) expect(each[i], want[i]);
    }
    if (request.op == Op::kCheck) {
      Charged& now = tickets_[index];
      if (request.tickets_out.empty()) charged = {answer.ticket};
      now.tickets = charged;
      std::size_t offset = 0;
      for (const Item& item : items) {
        now.offsets.push_back(offset);
        offset += rules_of(*item.limiter);
      }
    }
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
    if (want.contains("rule")) {
      EXPECT_EQ(got.rule, want.at("rule").get<std::int32_t>());
    }
    if (want.contains("item")) {
      EXPECT_EQ(got.item, want.at("item").get<std::int32_t>());
    }
  }

  struct Charged {
    std::vector<Ticket> tickets;
    std::vector<std::size_t> offsets;  // of each item's first
  };

  std::shared_ptr<Store> store_;
  const std::shared_ptr<ManualClock> clock_;
  std::vector<std::shared_ptr<Limiter>> limiters_;
  std::map<std::size_t, Charged> tickets_;
};

// File and the least number of traces in it.
struct StepFile {
  const char* name;
  std::size_t traces;
};
inline constexpr StepFile kStepFiles[] = {
    {"leaky_bucket.json", 40}, {"fixed_window.json", 40},   {"sliding_window.json", 40},
    {"sliding_log.json", 40},  {"calendar.json", 40},       {"concurrency.json", 40},
    {"groups.json", 40},       {"changed_limits.json", 40}, {"settle.json", 10}};

}  // namespace saqiya::test

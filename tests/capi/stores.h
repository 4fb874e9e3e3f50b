// Both kinds of store under a manual clock, called as they block and through queues.
#pragma once

#include <gtest/gtest.h>
#include <saqiya/saqiya.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/redis/server.h"

namespace saqiya::test {

inline constexpr std::int64_t kSecond = 1'000'000;
inline constexpr std::int64_t kHour = 3600 * kSecond;
inline constexpr std::int64_t kStart = 1'800'000'000 * kSecond + 7;

struct Free {
  void operator()(saqiya_clock* clock) const { saqiya_clock_free(clock); }
  void operator()(saqiya_store* store) const { saqiya_store_free(store); }
  void operator()(saqiya_limiter* limiter) const { saqiya_limiter_free(limiter); }
  void operator()(saqiya_queue* queue) const { saqiya_queue_free(queue); }
};
using LimiterHandle = std::unique_ptr<saqiya_limiter, Free>;
using StoreHandle = std::unique_ptr<saqiya_store, Free>;
using QueueHandle = std::unique_ptr<saqiya_queue, Free>;

struct Result {
  saqiya_decision decision{};
  std::vector<saqiya_decision> each;
  std::vector<saqiya_ticket> tickets;
};

// The name of a store, and whether requests go through a queue.
struct Way {
  const char* name;
  bool on_redis;
  bool queued;
};

class Stores : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    saqiya_clock* clock = nullptr;
    ASSERT_EQ(saqiya_clock_create_manual(kStart, &clock), SAQIYA_OK);
    clock_.reset(clock);
    if (GetParam().on_redis) server_.emplace();
    store_ = open(clock);
    saqiya_queue* queue = nullptr;
    ASSERT_EQ(saqiya_queue_create(store_.get(), nullptr, &queue, nullptr), SAQIYA_OK);
    queue_.reset(queue);
  }

  // Null: the system's clock.
  StoreHandle open(saqiya_clock* clock) {
    saqiya_store_options options;
    saqiya_store_options_init(&options, sizeof options);
    options.deadline_us = 20 * kSecond;
    options.clock = clock;
    if (server_ && clock != nullptr) options.flags = SAQIYA_STORE_TESTING;
    saqiya_store* store = nullptr;
    saqiya_error error;
    EXPECT_EQ(
        saqiya_store_open(server_ ? server_->url().c_str() : "memory://", &options, &store, &error),
        SAQIYA_OK)
        << error.message;
    return StoreHandle(store);
  }

  static LimiterHandle make(const StoreHandle& store, const std::string& policy,
                            const char* name = nullptr, std::uint32_t failure = 0) {
    saqiya_limiter_options options;
    saqiya_limiter_options_init(&options, sizeof options);
    options.name = name;
    options.failure = failure;
    saqiya_limiter* limiter = nullptr;
    saqiya_error error;
    EXPECT_EQ(saqiya_limiter_create(store.get(), policy.c_str(), &options, &limiter, &error),
              SAQIYA_OK)
        << error.message;
    return LimiterHandle(limiter);
  }
  LimiterHandle make(const std::string& policy, const char* name = nullptr,
                     std::uint32_t failure = 0) {
    return make(store_, policy, name, failure);
  }

  static saqiya_item item(const LimiterHandle& limiter, const char* key, std::int64_t cost = 1) {
    return {limiter.get(), key, std::char_traits<char>::length(key), cost};
  }

  static std::size_t rules_of(const std::vector<saqiya_item>& items) {
    std::size_t count = 0;
    for (const saqiya_item& i : items) count += saqiya_limiter_rule_count(i.limiter);
    return count;
  }

  // By whichever way the test's parameter says.
  Result ask(std::uint32_t op, const std::vector<saqiya_item>& items, std::int64_t max_wait = 0) {
    Result out;
    saqiya_decision noise;
    std::fill_n(reinterpret_cast<unsigned char*>(&noise), sizeof noise, 0x55);
    out.each.assign(rules_of(items), noise);
    out.tickets.resize(out.each.size());
    if (GetParam().queued) {
      saqiya_request request;
      saqiya_request_init(&request, sizeof request);
      request.op = op;
      request.items = items.data();
      request.item_count = items.size();
      request.max_wait_us = max_wait;
      request.each = out.each.data();
      request.tickets = out.tickets.data();
      out.decision = submit(request).decision;
    } else if (op == SAQIYA_OP_CHECK) {
      EXPECT_EQ(saqiya_check_all(items.data(), items.size(), max_wait, &out.decision,
                                 out.each.data(), out.tickets.data()),
                SAQIYA_OK);
    } else {
      EXPECT_EQ(saqiya_peek_all(items.data(), items.size(), &out.decision, out.each.data()),
                SAQIYA_OK);
    }
    return out;
  }
  Result check(const std::vector<saqiya_item>& items, std::int64_t max_wait = 0) {
    return ask(SAQIYA_OP_CHECK, items, max_wait);
  }
  Result peek(const std::vector<saqiya_item>& items) { return ask(SAQIYA_OP_PEEK, items); }

  saqiya_decision refund(const std::vector<saqiya_item>& items,
                         std::vector<saqiya_ticket>* tickets) {
    saqiya_decision d{};
    if (GetParam().queued) {
      saqiya_request request;
      saqiya_request_init(&request, sizeof request);
      request.op = SAQIYA_OP_REFUND;
      request.items = items.data();
      request.item_count = items.size();
      request.ticket = tickets->data();
      return submit(request).decision;
    }
    EXPECT_EQ(saqiya_refund_all(items.data(), items.size(), tickets->data(), &d), SAQIYA_OK);
    return d;
  }

  // Settle, renew, refund, reset, peek of one limiter.
  saqiya_decision one(std::uint32_t op, const saqiya_item& on, saqiya_ticket* tickets) {
    saqiya_decision d{};
    if (GetParam().queued) {
      saqiya_request request;
      saqiya_request_init(&request, sizeof request);
      request.op = op;
      request.limiter = on.limiter;
      request.key = on.key;
      request.key_len = on.key_len;
      request.cost = on.cost;
      request.ticket = tickets;
      return submit(request).decision;
    }
    int code = SAQIYA_INVALID;
    switch (op) {
      case SAQIYA_OP_SETTLE:
        code = saqiya_limiter_settle(on.limiter, on.key, on.key_len, tickets, on.cost, &d);
        break;
      case SAQIYA_OP_RENEW:
        code = saqiya_limiter_renew(on.limiter, on.key, on.key_len, tickets, &d);
        break;
      case SAQIYA_OP_REFUND:
        code = saqiya_limiter_refund(on.limiter, on.key, on.key_len, tickets, &d);
        break;
      case SAQIYA_OP_PEEK:
        code = saqiya_limiter_peek(on.limiter, on.key, on.key_len, on.cost, &d);
        break;
      default:
        code = saqiya_limiter_reset(on.limiter, on.key, on.key_len, &d);
    }
    EXPECT_EQ(code, SAQIYA_OK);
    return d;
  }

  std::int64_t remaining(const LimiterHandle& limiter, const char* key) {
    return one(SAQIYA_OP_PEEK, item(limiter, key, 0), nullptr).remaining;
  }

  saqiya_completion submit(const saqiya_request& request) {
    EXPECT_EQ(saqiya_queue_submit(queue_.get(), &request), SAQIYA_OK);
    return drain_one();
  }

  saqiya_completion drain_one() {
    saqiya_completion done{};
    std::size_t count = 0;
    for (int i = 0; count == 0 && i < 1'000; ++i) {
      EXPECT_EQ(saqiya_queue_process(queue_.get()), SAQIYA_OK);
      EXPECT_EQ(saqiya_queue_drain(queue_.get(), &done, 1, &count), SAQIYA_OK);
      if (count == 0) saqiya_queue_wait(queue_.get(), kSecond);
    }
    EXPECT_EQ(count, 1U) << "nothing completed";
    return done;
  }

  void advance(std::int64_t by) { ASSERT_EQ(saqiya_clock_advance(clock_.get(), by), SAQIYA_OK); }

  std::optional<testing::RedisServer> server_;
  std::unique_ptr<saqiya_clock, Free> clock_;
  StoreHandle store_;
  QueueHandle queue_;
};

// Each in the file that has the tests.
inline const auto kEveryWay =
    ::testing::Values(Way{"Memory", false, false}, Way{"MemoryQueue", false, true},
                      Way{"Redis", true, false}, Way{"RedisQueue", true, true});
inline std::string name_of(const ::testing::TestParamInfo<Way>& way) { return way.param.name; }

}  // namespace saqiya::test

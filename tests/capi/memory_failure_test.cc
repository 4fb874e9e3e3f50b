// Every entry point with its first, second, third ... allocation failing, until none fails any
// more. The answer is SAQIYA_NO_MEMORY and nothing has changed; nothing leaks (AddressSanitizer's
// word) and nothing terminates. C145.
#include <gtest/gtest.h>
#include <saqiya/saqiya.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "tests/capi/failing_allocator.h"

namespace saqiya::test {
namespace {

bool is_zero(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

// Calls until no allocation fails; returns how many did. on_failure checks that nothing changed.
// What can do without its allocation may succeed all the same: then undo() takes the success back
// and the next allocation has its turn; without an undo the success ends it.
int until_it_succeeds(
    const std::function<int()>& call, const std::function<void()>& on_failure = [] {},
    const std::function<void()>& undo = nullptr) {
  for (int n = 1; n < 1'000; ++n) {
    fail_allocation(n);
    const int status = call();
    const bool failed = allocation_failed();
    if (!failed || (status == SAQIYA_OK && undo == nullptr)) {
      EXPECT_EQ(status, SAQIYA_OK);
      return n - 1;
    }
    if (status == SAQIYA_OK) {
      undo();
      continue;
    }
    EXPECT_EQ(status, SAQIYA_NO_MEMORY) << "allocation " << n;
    on_failure();
    if (testing::Test::HasFailure()) break;
  }
  ADD_FAILURE() << "it never succeeds";
  return -1;
}

class MemoryFailure : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(openssl_allocations_fail_too());
    ASSERT_EQ(saqiya_clock_create_manual(1'000'000, &clock_), SAQIYA_OK);
    open(10'000'000);
  }

  void TearDown() override {
    saqiya_limiter_free(limiter_);
    saqiya_store_free(store_);
    saqiya_clock_free(clock_);
  }

  void open(std::uint64_t max_keys) {
    saqiya_limiter_free(limiter_);
    saqiya_store_free(store_);
    saqiya_store_options options;
    saqiya_store_options_init(&options, sizeof options);
    options.clock = clock_;
    options.max_keys = max_keys;
    ASSERT_EQ(saqiya_store_open("memory://", &options, &store_, nullptr), SAQIYA_OK);
    // Unnamed: this also wakes OpenSSL, whose own start may not fail and succeed later.
    ASSERT_EQ(saqiya_limiter_create(store_, "10/h", nullptr, &limiter_, nullptr), SAQIYA_OK);
  }

  int check(const std::string& key, saqiya_ticket* ticket = nullptr) {
    return saqiya_limiter_check(limiter_, key.data(), key.size(), 1, &decision_, ticket);
  }

  std::int64_t remaining(const std::string& key) {
    saqiya_decision d;
    EXPECT_EQ(saqiya_limiter_peek(limiter_, key.data(), key.size(), 1, &d), SAQIYA_OK);
    return d.remaining;
  }

  std::uint64_t keys() {
    saqiya_store_stats stats;
    saqiya_store_stats_init(&stats, sizeof stats);
    EXPECT_EQ(saqiya_store_get_stats(store_, &stats), SAQIYA_OK);
    return stats.keys;
  }

  saqiya_clock* clock_ = nullptr;
  saqiya_store* store_ = nullptr;
  saqiya_limiter* limiter_ = nullptr;
  saqiya_decision decision_{};
};

TEST_F(MemoryFailure, Creation) {
  saqiya_clock* clock = nullptr;
  const auto no_clock = [&] { EXPECT_EQ(clock, nullptr); };
  EXPECT_GE(until_it_succeeds([&] { return saqiya_clock_create_manual(0, &clock); }, no_clock), 1);
  saqiya_clock_free(clock);

  for (const char* url : {"memory://", "redis://user:pass@127.0.0.1:1/2", "unix:///tmp/none"}) {
    saqiya_store* store = nullptr;
    saqiya_error error;
    const auto no_store = [&] {
      EXPECT_EQ(store, nullptr);
      EXPECT_EQ(error.code, SAQIYA_NO_MEMORY);
      EXPECT_STREQ(error.message, saqiya_status_message(SAQIYA_NO_MEMORY));
    };
    saqiya_store_options options;
    saqiya_store_options_init(&options, sizeof options);
    options.prefix = "a prefix too long to be kept without an allocation";
    options.secret = "a secret too long to be kept without an allocation";
    options.secret_len = 50;
    EXPECT_GE(until_it_succeeds([&] { return saqiya_store_open(url, &options, &store, &error); },
                                no_store),
              2)
        << url;

    saqiya_limiter_options named;
    saqiya_limiter_options_init(&named, sizeof named);
    named.name = "a name too long to be kept without an allocation";
    for (const saqiya_limiter_options* o :
         {static_cast<saqiya_limiter_options*>(nullptr), &named}) {
      saqiya_limiter* limiter = nullptr;
      const auto no_limiter = [&] {
        EXPECT_EQ(limiter, nullptr);
        EXPECT_EQ(error.code, SAQIYA_NO_MEMORY);
      };
      const auto free_it = [&] { saqiya_limiter_free(limiter); };
      EXPECT_GE(
          until_it_succeeds(
              [&] { return saqiya_limiter_create(store, "5/s burst 20", o, &limiter, &error); },
              no_limiter, free_it),
          2);
      saqiya_limiter_free(limiter);
      limiter = nullptr;
      saqiya_rule rule;
      saqiya_rule_init(&rule, sizeof rule);
      rule.capacity = 1'234'567'890'123;
      rule.tokens = 4'294'967'291;
      rule.period_us = 123'456'789;
      EXPECT_GE(
          until_it_succeeds(
              [&] { return saqiya_limiter_create_rules(store, &rule, 1, o, &limiter, &error); },
              no_limiter, free_it),
          2);
      saqiya_limiter_free(limiter);
    }
    saqiya_queue* queue = nullptr;
    EXPECT_GE(until_it_succeeds([&] { return saqiya_queue_create(store, nullptr, &queue, &error); },
                                [&] { EXPECT_EQ(queue, nullptr); }),
              1);
    saqiya_queue_free(queue);
    saqiya_store_free(store);
  }
}

TEST_F(MemoryFailure, TheFirstCheckOfAKey) {
  saqiya_ticket ticket;
  const auto nothing_changed = [&] {
    EXPECT_TRUE(is_zero(&decision_, sizeof decision_));
    EXPECT_TRUE(is_zero(&ticket, sizeof ticket));
    EXPECT_EQ(keys(), 0U);
  };
  EXPECT_GE(until_it_succeeds([&] { return check("k", &ticket); }, nothing_changed), 1);
  EXPECT_EQ(decision_.remaining, 9);
  EXPECT_EQ(ticket.n, 1U);
}

// One shard that grows, is swept, and reaches its bound, where room is made.
TEST_F(MemoryFailure, AGrowingShardAndTheBound) {
  open(120);
  int failures = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string key = "user:" + std::to_string(i);
    failures +=
        until_it_succeeds([&] { return check(key); }, [&] { EXPECT_EQ(remaining(key), 10); });
    EXPECT_EQ(decision_.remaining, 9) << key;
    ASSERT_LE(keys(), 120U);
  }
  EXPECT_GE(failures, 8);
  // A crowd that is gone: sweeping and shrinking may fail, checks do not care.
  ASSERT_EQ(saqiya_clock_advance(clock_, 36'000'000'000), SAQIYA_OK);
  for (int i = 0; i < 200; ++i) {
    until_it_succeeds([&] { return check("later:" + std::to_string(i % 20)); });
  }
}

TEST_F(MemoryFailure, PoliciesOfSeveralRules) {
  static constexpr const char* kPolicy =
      "5/s burst 20; fixed-window: 10/h; sliding-window: 10/h; sliding-log: 10/h; "
      "concurrency: 10 ttl 1h";
  saqiya_limiter* limiter = nullptr;
  saqiya_error error;
  EXPECT_GE(until_it_succeeds(
                [&] { return saqiya_limiter_create(store_, kPolicy, nullptr, &limiter, &error); },
                [&] { EXPECT_EQ(limiter, nullptr); }, [&] { saqiya_limiter_free(limiter); }),
            10);
  saqiya_limiter_free(limiter);
  limiter = nullptr;
  saqiya_rule rules[2];
  for (saqiya_rule& rule : rules) {
    saqiya_rule_init(&rule, sizeof rule);
    rule.capacity = 10;
    rule.period_us = 3'600'000'000;
  }
  rules[0].algorithm = SAQIYA_CONCURRENCY;
  rules[1].algorithm = SAQIYA_SLIDING_LOG;
  EXPECT_GE(
      until_it_succeeds(
          [&] { return saqiya_limiter_create_rules(store_, rules, 2, nullptr, &limiter, &error); },
          [&] { EXPECT_EQ(limiter, nullptr); }, [&] { saqiya_limiter_free(limiter); }),
      4);
  saqiya_limiter_free(limiter);
}

// Of every algorithm: a group allocates, a log and leases do, and so may giving back.
TEST_F(MemoryFailure, SeveralRulesAllOrNone) {
  static constexpr const char* kPolicies[] = {
      "fixed-window: 10/h", "sliding-log: 10/h", "concurrency: 10 ttl 1h",
      "10/h; fixed-window: 10/h; sliding-window: 10/h; sliding-log: 10/h; concurrency: 10 ttl 1h"};
  for (const char* policy : kPolicies) {
    SCOPED_TRACE(policy);
    saqiya_limiter* limiter = nullptr;
    ASSERT_EQ(saqiya_limiter_create(store_, policy, nullptr, &limiter, nullptr), SAQIYA_OK);
    const saqiya_item items[] = {{limiter, "a", 1, 4}, {limiter, "b", 1, 5}, {limiter_, "c", 1, 6}};
    saqiya_decision d;
    saqiya_decision each[11];
    saqiya_ticket tickets[11];
    const auto left = [&](std::size_t i) {
      saqiya_decision now;
      EXPECT_EQ(saqiya_limiter_peek(items[i].limiter, items[i].key, 1, 0, &now), SAQIYA_OK);
      return now.remaining;
    };
    const auto nothing_charged = [&] {
      EXPECT_TRUE(is_zero(&d, sizeof d));
      const std::size_t rules = 2 * saqiya_limiter_rule_count(limiter) + 1;
      EXPECT_TRUE(is_zero(tickets, rules * sizeof *tickets));
      EXPECT_TRUE(is_zero(each, rules * sizeof *each));
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(left(i), 10) << i;
    };
    EXPECT_GE(until_it_succeeds([&] { return saqiya_check_all(items, 3, 0, &d, each, tickets); },
                                nothing_charged),
              2);
    ASSERT_EQ(d.outcome, SAQIYA_ALLOWED);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(left(i), 10 - items[i].cost);
    EXPECT_GE(until_it_succeeds([&] { return saqiya_peek_all(items, 3, &d, each); }), 1);
    // What could not be given back can be tried again.
    const auto nothing_spent = [&] {
      EXPECT_EQ(tickets[0].flags & 1, 0U);
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(left(i), 10 - items[i].cost);
    };
    EXPECT_GE(
        until_it_succeeds([&] { return saqiya_refund_all(items, 3, tickets, &d); }, nothing_spent),
        1);
    EXPECT_EQ(d.outcome, SAQIYA_ALLOWED);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(left(i), 10);

    const auto one = [&] { return saqiya_limiter_check(limiter, "a", 1, 4, &d, tickets); };
    until_it_succeeds(one, [&] { EXPECT_EQ(left(0), 10); });
    ASSERT_EQ(d.outcome, SAQIYA_ALLOWED);
    until_it_succeeds([&] { return saqiya_limiter_renew(limiter, "a", 1, tickets, &d); },
                      [&] { EXPECT_EQ(left(0), 6); });
    until_it_succeeds([&] { return saqiya_limiter_settle(limiter, "a", 1, tickets, 7, &d); },
                      [&] { EXPECT_EQ(left(0), 6); });
    EXPECT_EQ(left(0), 3);
    until_it_succeeds(
        [&] { return saqiya_limiter_acquire(limiter, "a", 1, 3, 60'000'000, &d, tickets); },
        [&] { EXPECT_EQ(left(0), 3); });
    EXPECT_EQ(left(0), 0);
    until_it_succeeds([&] { return saqiya_limiter_reset(limiter, "a", 1, &d); });
    EXPECT_EQ(left(0), 10);

    const saqiya_key many[] = {{"a", 1}, {"d", 1}, {"a", 1}};
    saqiya_decision decisions[3];
    saqiya_ticket all[15];
    until_it_succeeds(
        [&] { return saqiya_limiter_check_many(limiter, many, 3, 2, decisions, all); },
        [&] { EXPECT_EQ(left(0), 10); });
    EXPECT_EQ(left(0), 6);

    saqiya_queue* queue = nullptr;
    ASSERT_EQ(saqiya_queue_create(store_, nullptr, &queue, nullptr), SAQIYA_OK);
    saqiya_request request;
    saqiya_request_init(&request, sizeof request);
    request.items = items + 1;
    request.item_count = 2;
    request.each = each;
    request.tickets = tickets;
    EXPECT_GE(until_it_succeeds([&] { return saqiya_queue_submit(queue, &request); },
                                [&] {
                                  EXPECT_EQ(saqiya_queue_pending(queue), 0U);
                                  EXPECT_EQ(left(1), 10);
                                  EXPECT_EQ(left(2), 10);
                                }),
              1);
    EXPECT_EQ(left(2), 4);
    saqiya_queue_free(queue);
    for (const char* key : {"a", "b", "c", "d"}) {
      EXPECT_EQ(saqiya_limiter_reset(limiter, key, 1, nullptr), SAQIYA_OK);
      EXPECT_EQ(saqiya_limiter_reset(limiter_, key, 1, nullptr), SAQIYA_OK);
    }
    saqiya_limiter_free(limiter);
  }
}

TEST_F(MemoryFailure, ManyAreChargedAllOrNone) {
  const saqiya_key many[] = {{"a", 1}, {"b", 1}, {"c", 1}, {"a", 1}, {"e", 1}};
  saqiya_decision decisions[5];
  saqiya_ticket tickets[5];
  const auto nothing_charged = [&] {
    EXPECT_TRUE(is_zero(decisions, sizeof decisions));
    EXPECT_TRUE(is_zero(tickets, sizeof tickets));
    for (const saqiya_key& key : many) {
      EXPECT_EQ(remaining({static_cast<const char*>(key.data), key.len}), 10);
    }
  };
  EXPECT_GE(until_it_succeeds(
                [&] { return saqiya_limiter_check_many(limiter_, many, 5, 1, decisions, tickets); },
                nothing_charged),
            3);
  EXPECT_EQ(decisions[3].remaining, 8);
}

TEST_F(MemoryFailure, WhatNeedsNoMemory) {
  saqiya_ticket ticket;
  ASSERT_EQ(check("k", &ticket), SAQIYA_OK);
  saqiya_decision d;
  EXPECT_EQ(until_it_succeeds([&] { return check("k"); }), 0);
  EXPECT_EQ(until_it_succeeds([&] { return saqiya_limiter_peek(limiter_, "x", 1, 1, &d); }), 0);
  EXPECT_EQ(until_it_succeeds([&] { return saqiya_limiter_refund(limiter_, "k", 1, &ticket, &d); }),
            0);
  EXPECT_EQ(d.outcome, SAQIYA_ALLOWED);
  EXPECT_EQ(until_it_succeeds([&] { return saqiya_limiter_reset(limiter_, "k", 1, &d); }), 0);
  EXPECT_EQ(until_it_succeeds([&] { return saqiya_clock_advance(clock_, 1); }), 0);
  saqiya_store_stats stats;
  saqiya_store_stats_init(&stats, sizeof stats);
  EXPECT_EQ(until_it_succeeds([&] { return saqiya_store_get_stats(store_, &stats); }), 0);
  saqiya_rule rule;
  saqiya_rule_init(&rule, sizeof rule);
  EXPECT_EQ(until_it_succeeds([&] { return saqiya_limiter_get_rule(limiter_, 0, &rule); }), 0);
}

TEST_F(MemoryFailure, Queues) {
  saqiya_queue* queue = nullptr;
  ASSERT_EQ(saqiya_queue_create(store_, nullptr, &queue, nullptr), SAQIYA_OK);
  int failures = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "user:" + std::to_string(i);
    saqiya_request request;
    saqiya_request_init(&request, sizeof request);
    request.limiter = limiter_;
    request.key = key.data();
    request.key_len = key.size();
    const std::size_t pending = saqiya_queue_pending(queue);
    failures += until_it_succeeds([&] { return saqiya_queue_submit(queue, &request); },
                                  [&] {
                                    EXPECT_EQ(saqiya_queue_pending(queue), pending);
                                    EXPECT_EQ(remaining(key), 10);
                                  });
    ASSERT_EQ(remaining(key), 9);
  }
  EXPECT_GE(failures, 100);
  saqiya_completion done[200];
  std::size_t count = 0;
  EXPECT_EQ(until_it_succeeds([&] { return saqiya_queue_drain(queue, done, 200, &count); }), 0);
  EXPECT_EQ(count, 200U);
  EXPECT_EQ(until_it_succeeds([&] { return saqiya_queue_close(queue); }), 0);
  saqiya_queue_free(queue);
}

TEST_F(MemoryFailure, Http) {
  ASSERT_EQ(saqiya_limiter_check(limiter_, "k", 1, 10, &decision_, nullptr), SAQIYA_OK);
  ASSERT_EQ(check("k"), SAQIYA_OK);
  char buffer[512];
  std::size_t len = 0;
  const auto no_length = [&] { EXPECT_EQ(len, 0U); };
  EXPECT_GE(
      until_it_succeeds(
          [&] { return saqiya_http_fields(limiter_, &decision_, 0, buffer, sizeof buffer, &len); },
          no_length),
      2);
  EXPECT_GE(until_it_succeeds(
                [&] { return saqiya_http_body(limiter_, &decision_, buffer, sizeof buffer, &len); },
                no_length),
            1);
}

// A child makes its table at its first request.
TEST_F(MemoryFailure, TheFirstCheckAfterAFork) {
  ASSERT_EQ(check("k"), SAQIYA_OK);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const int failures = until_it_succeeds([&] { return check("k"); });
    _exit(failures >= 2 && decision_.remaining == 9 && !HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace saqiya::test

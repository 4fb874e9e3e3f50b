// Every function with random odd arguments: null or not, sizes and numbers at and beyond every
// edge, structs full of noise. Nothing crashes, and the conventions of saqiya.h hold. C145.
#include <gtest/gtest.h>
#include <saqiya/saqiya.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>

namespace saqiya::test {
namespace {

constexpr std::int64_t kNumbers[] = {INT64_MIN,
                                     INT64_MIN + 1,
                                     -(std::int64_t{1} << 53),
                                     -1,
                                     0,
                                     1,
                                     2,
                                     20,
                                     1'000'000,
                                     std::int64_t{1} << 32,
                                     std::int64_t{1} << 50,
                                     (std::int64_t{1} << 50) + 1,
                                     std::int64_t{1} << 52,
                                     SAQIYA_MAX_COST,
                                     SAQIYA_MAX_COST + 1,
                                     INT64_MAX};
constexpr const char* kTexts[] = {
    "5/s burst 20",
    "unlimited",
    "0/s",
    "7/min",
    "leaky-bucket: 10/s queue 5",
    "fixed-window: 20/s",
    "sliding-window: 20/s",
    "sliding-log: 20/s",
    "calendar: 20/day tz Africa/Cairo",
    "concurrency: 20 ttl 1s",
    "5/s burst 20; fixed-window: 100/min; sliding-log: 50/min; concurrency: 3 ttl 10s",
    "",
    "5/month",
    "\xff",
};

class OddArguments : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(saqiya_clock_create_manual(1'000'000, &clock_), SAQIYA_OK);
    saqiya_store_options options;
    saqiya_store_options_init(&options, sizeof options);
    options.clock = clock_;
    options.max_keys = 100;
    ASSERT_EQ(saqiya_store_open("memory://", &options, &store_, nullptr), SAQIYA_OK);
    for (std::size_t i = 0; i < std::size(limiters_); ++i) {
      ASSERT_EQ(saqiya_limiter_create(store_, kTexts[i], nullptr, &limiters_[i], nullptr),
                SAQIYA_OK);
    }
    ASSERT_EQ(saqiya_queue_create(store_, nullptr, &queue_, nullptr), SAQIYA_OK);
  }

  void TearDown() override {
    saqiya_queue_free(queue_);
    for (saqiya_limiter* limiter : limiters_) saqiya_limiter_free(limiter);
    saqiya_store_free(store_);
    saqiya_clock_free(clock_);
  }

  bool one_in(unsigned n) { return random_() % n == 0; }
  std::int64_t number() {
    if (one_in(3)) return static_cast<std::int64_t>(random_() % 30);
    return kNumbers[random_() % std::size(kNumbers)];
  }
  // The clock stands still, so that only short ones may be waited for.
  std::int64_t timeout() {
    static constexpr std::int64_t kTimeouts[] = {0, 0, 0, 1, 20, -1, INT64_MIN};
    return kTimeouts[random_() % std::size(kTimeouts)];
  }
  saqiya_limiter* limiter() {
    return one_in(20) ? nullptr : limiters_[random_() % std::size(limiters_)];
  }
  const void* key() { return one_in(20) ? nullptr : key_; }
  std::size_t key_len() {
    static constexpr std::size_t kLens[] = {0, 1, 2, 64, 65, 65536, 65537, SIZE_MAX};
    return kLens[random_() % std::size(kLens)];
  }
  const char* text() { return one_in(20) ? nullptr : kTexts[random_() % std::size(kTexts)]; }
  template <typename T>
  T noise() {
    T out;
    auto* bytes = reinterpret_cast<unsigned char*>(&out);
    for (std::size_t i = 0; i < sizeof out; ++i) bytes[i] = static_cast<unsigned char>(random_());
    return out;
  }
  saqiya_decision odd_decision() {
    saqiya_decision d = noise<saqiya_decision>();
    if (one_in(2)) d.outcome = static_cast<std::int32_t>(random_() % 6);
    d.limit = number();
    d.remaining = number();
    d.retry_after_us = number();
    d.reset_after_us = number();
    return d;
  }
  saqiya_ticket odd_ticket() {
    const saqiya_ticket real = tickets_[random_() % std::size(tickets_)];
    if (one_in(3)) return real;  // perhaps spent, perhaps of another limiter
    saqiya_ticket t = noise<saqiya_ticket>();
    if (one_in(2)) t.n = static_cast<std::uint32_t>(random_() % 8);
    if (one_in(2)) t.algorithm = static_cast<std::uint32_t>(random_() % 9);
    if (one_in(2)) t.lease = real.lease;
    if (one_in(2)) t.epoch = real.epoch;
    t.q = one_in(2) ? real.q : number();
    t.cost = number();
    return t;
  }
  // Half of the time those of a check, whatever it was of.
  void fill_odd(saqiya_ticket* tickets) {
    for (std::size_t i = 0; i < std::size(tickets_); ++i) {
      tickets[i] = one_in(2) ? tickets_[i] : odd_ticket();
    }
  }
  saqiya_item odd_item() { return {limiter(), key(), key_len(), number()}; }

  // Status in its list; a decision that is whole after OK and zero otherwise.
  void expect_kept(int status, const saqiya_decision& d) {
    ASSERT_GE(status, SAQIYA_OK);
    ASSERT_LT(status, SAQIYA_INTERNAL);
    if (status != SAQIYA_OK) {
      const saqiya_decision zero{};
      ASSERT_EQ(std::memcmp(&d, &zero, sizeof d), 0);
      return;
    }
    ASSERT_GE(d.outcome, SAQIYA_ALLOWED);
    ASSERT_LE(d.outcome, SAQIYA_NEVER);
    ASSERT_LE(0, d.remaining);
    ASSERT_LE(d.remaining, d.limit);
    ASSERT_GE(d.retry_after_us, 0);
    ASSERT_GE(d.reset_after_us, 0);
    ASSERT_GE(d.delay_us, 0);
    ASSERT_GE(d.item, 0);
    ASSERT_LT(d.item, 2);
    ASSERT_GE(d.rule, 0);
    ASSERT_LT(d.rule, 4);
    ASSERT_EQ(d.source, SAQIYA_SOURCE_STORE);
    ASSERT_EQ(d.reserved32, 0);
  }

  void call_limiter() {
    saqiya_decision d = noise<saqiya_decision>();
    saqiya_ticket t[8];
    fill_odd(t);
    switch (random_() % 10) {
      case 0:
        return expect_kept(saqiya_limiter_check(limiter(), key(), key_len(), number(), &d,
                                                one_in(2) ? nullptr : tickets_),
                           d);
      case 1:
        return expect_kept(saqiya_limiter_check_wait(limiter(), key(), key_len(), number(),
                                                     number(), &d, tickets_),
                           d);
      case 2:
        return expect_kept(saqiya_limiter_peek(limiter(), key(), key_len(), number(), &d), d);
      case 3:
        return expect_kept(saqiya_limiter_refund(limiter(), key(), key_len(), t, &d), d);
      case 4:
        return expect_kept(saqiya_limiter_reset(limiter(), key(), key_len(), &d), d);
      case 5:
        return expect_kept(saqiya_limiter_settle(limiter(), key(), key_len(), t, number(), &d), d);
      case 6:
        return expect_kept(saqiya_limiter_renew(limiter(), key(), key_len(), t, &d), d);
      case 7:
        return expect_kept(
            saqiya_limiter_acquire(limiter(), key(), key_len(), number(), timeout(), &d, t), d);
      case 8: {
        const saqiya_key keys[] = {{key(), key_len()}, {key(), key_len()}};
        saqiya_decision many[2] = {d, d};
        const int status = saqiya_limiter_check_many(limiter(), keys, 2, number(), many, nullptr);
        expect_kept(status, many[0]);
        return expect_kept(status, many[1]);
      }
      default:
        saqiya_limiter_take(limiter(), key(), key_len(), number());
    }
  }

  void call_items() {
    saqiya_item items[SAQIYA_MAX_ITEMS + 1];
    for (std::size_t i = 0; i < 2; ++i) items[i] = odd_item();
    std::size_t count = 1 + random_() % 2;
    if (one_in(20)) count = one_in(2) ? 0 : SAQIYA_MAX_ITEMS + 1 + random_() % 2 * (SIZE_MAX / 2);
    const saqiya_item* const list = one_in(20) ? nullptr : items;
    saqiya_decision each[8];
    saqiya_decision* const all = one_in(2) ? nullptr : each;
    saqiya_decision d = noise<saqiya_decision>();
    saqiya_ticket t[8];
    fill_odd(t);
    int status = SAQIYA_INVALID;
    switch (random_() % 5) {
      case 0:
        status = saqiya_check_all(list, count, number(), &d, all, one_in(2) ? nullptr : tickets_);
        break;
      case 1:
        status = saqiya_peek_all(list, count, &d, all);
        break;
      case 2:
        status = saqiya_acquire_all(list, count, timeout(), &d, all, t);
        break;
      case 3:
        status = saqiya_refund_all(list, count, one_in(10) ? nullptr : t, &d);
        break;
      default: {
        const saqiya_decision odd = odd_decision();
        const std::int64_t left = number();
        const std::int64_t pause = saqiya_acquire_pause_us(
            list, count, one_in(10) ? nullptr : &odd, static_cast<std::uint32_t>(random_()), left);
        ASSERT_GE(pause, -1);
        ASSERT_LE(pause, std::max<std::int64_t>(left, -1));
        return;
      }
    }
    expect_kept(status, d);
  }

  void call_http() {
    const saqiya_decision d = odd_decision();
    saqiya_http_numbers n = noise<saqiya_http_numbers>();
    char buffer[512];
    std::size_t len = 0;
    const std::size_t size = random_() % (sizeof buffer + 1);
    saqiya_limiter* const l = limiter();
    if (saqiya_http_get_numbers(l, &d, &n) == SAQIYA_OK) {
      ASSERT_TRUE(n.status == 200 || n.status == 429 || n.status == 503) << n.status;
      ASSERT_EQ(n.status == 200, d.outcome == SAQIYA_ALLOWED);
      ASSERT_LE(0, n.remaining);
      ASSERT_LE(n.remaining, n.limit);
      ASSERT_GE(n.reset_s, 0);
      ASSERT_GE(n.retry_after_s, -1);
      ASSERT_NE(n.retry_after_s, 0);
      ASSERT_GE(n.t_s, -1);
    }
    if (saqiya_http_fields(l, &d, static_cast<std::uint32_t>(random_() % 5), buffer, size, &len) ==
        SAQIYA_OK) {
      ASSERT_EQ(std::strlen(buffer), len);
    }
    if (saqiya_http_body(l, &d, one_in(10) ? nullptr : buffer, size, &len) == SAQIYA_OK) {
      ASSERT_EQ(std::strlen(buffer), len);
    }
  }

  void call_queue() {
    saqiya_ticket t[8];
    fill_odd(t);
    saqiya_decision each[8];
    const saqiya_item items[2] = {odd_item(), odd_item()};
    saqiya_request r = noise<saqiya_request>();
    r.size = one_in(10) ? static_cast<std::uint32_t>(random_() % sizeof r) : sizeof r;
    r.op = static_cast<std::uint32_t>(random_() % 8);
    r.limiter = limiter();
    r.key = key();
    r.key_len = key_len();
    r.cost = number();
    r.max_wait_us = number();
    r.ticket = one_in(4) ? nullptr : t;
    r.items = one_in(2) ? nullptr : items;
    r.item_count = r.items == nullptr ? random_() % 10 / 9 : 1 + random_() % 2;
    if (one_in(20)) r.item_count = static_cast<std::uint64_t>(number());
    if (r.item_count > 2 && r.item_count <= SAQIYA_MAX_ITEMS)
      r.item_count = 2;  // there are no more
    r.each = one_in(2) ? nullptr : each;
    r.tickets = one_in(2) ? nullptr : tickets_;
    const int status = saqiya_queue_submit(queue_, &r);
    ASSERT_TRUE(status == SAQIYA_OK || status == SAQIYA_INVALID || status == SAQIYA_QUEUE_FULL);
    saqiya_queue_cancel(queue_, static_cast<std::uint64_t>(number()));
    saqiya_completion done[3];
    std::size_t count = 0;
    ASSERT_EQ(saqiya_queue_drain(queue_, done, random_() % 4, &count), SAQIYA_OK);
    for (std::size_t i = 0; i < count; ++i) expect_kept(SAQIYA_OK, done[i].decision);
  }

  saqiya_rule odd_rule() {
    saqiya_rule rule = noise<saqiya_rule>();
    rule.size = one_in(20) ? static_cast<std::uint32_t>(random_() % 80) : sizeof rule;
    rule.algorithm = static_cast<std::uint32_t>(random_() % 9);
    rule.capacity = number();
    rule.tokens = one_in(2) ? 0 : number();
    rule.period_us = one_in(8) ? 0 : number();
    rule.queue = one_in(2) ? 0 : number();
    rule.unit = one_in(2) ? 0 : static_cast<std::int32_t>(random_() % 7) - 1;
    rule.anchor_day = one_in(2) ? 0 : static_cast<std::int32_t>(random_() % 40) - 4;
    rule.zone = one_in(2) ? nullptr : one_in(2) ? "Europe/London" : text();
    return rule;
  }

  void call_create() {
    saqiya_error error;
    saqiya_limiter* made = nullptr;
    saqiya_limiter_options o = noise<saqiya_limiter_options>();
    o.size = static_cast<std::uint32_t>(random_() % (sizeof o + 1));
    o.size = one_in(2) ? o.size / 8 * 8 : o.size;
    if (one_in(2)) o.flags = 0;
    o.name = text();
    o.deadline_us = number();
    saqiya_rule rules[2] = {odd_rule(), odd_rule()};
    const saqiya_limiter_options* const options = one_in(2) ? nullptr : &o;
    const int status = one_in(2)
                           ? saqiya_limiter_create(store_, text(), options, &made, &error)
                           : saqiya_limiter_create_rules(store_, rules, random_() % 3, options,
                                                         &made, one_in(3) ? nullptr : &error);
    ASSERT_EQ(status == SAQIYA_OK, made != nullptr);
    ASSERT_LE(status, SAQIYA_BAD_POLICY);
    if (made != nullptr) {
      ASSERT_STRNE(saqiya_limiter_policy(made), "");
      ASSERT_GE(saqiya_limiter_rule_count(made), 1U);
      saqiya_rule_init(rules, sizeof *rules);
      ASSERT_EQ(saqiya_limiter_get_rule(made, saqiya_limiter_rule_count(made) - 1, rules),
                SAQIYA_OK);
    }
    saqiya_limiter_free(made);
    saqiya_clock_advance(clock_, number());
    saqiya_clock_set_wall(clock_, number());
    if (one_in(10)) saqiya_clock_set(clock_, number());
  }

  std::mt19937_64 random_{145};
  saqiya_clock* clock_ = nullptr;
  saqiya_store* store_ = nullptr;
  saqiya_limiter* limiters_[11] = {};
  saqiya_queue* queue_ = nullptr;
  saqiya_ticket tickets_[8] = {};  // of the last checks: 2 items have 8 rules at the most
  const char key_[65537] = {};
};

TEST_F(OddArguments, HurtNothing) {
  for (int i = 0; i < 100'000; ++i) {
    call_limiter();
    call_items();
    call_http();
    call_queue();
    if (i % 10 == 0) call_create();
    if (HasFailure()) FAIL() << "round " << i;
  }
}

}  // namespace
}  // namespace saqiya::test

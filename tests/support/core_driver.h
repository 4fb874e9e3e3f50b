// The vectors on a store of core's, memory or Redis.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/memory_store.h"
#include "tests/support/limited.h"
#include "tests/support/vector_runner.h"

namespace saqiya::test {

class CoreDriver final : public VectorDriver {
 public:
  CoreDriver(std::shared_ptr<Store> store, std::shared_ptr<ManualClock> clock)
      : store_(std::move(store)), clock_(std::move(clock)) {}

  void begin() override {
    if (!store_->is_local()) return;
    StoreOptions options;
    options.clock = clock_;
    store_ = make_memory_store(options);
  }
  void set_now(Micros now) override { ASSERT_TRUE(clock_->set(now)); }
  void use(const std::string& policy, const std::string& name) override {
    limited_.emplace(store_, policy, name);
  }
  Decision check(const std::string& key, std::int64_t cost, Micros max_wait,
                 Ticket* ticket) override {
    return limited_->check(key, cost, max_wait, ticket);
  }
  Decision peek(const std::string& key, std::int64_t cost) override {
    return limited_->peek(key, cost);
  }
  Decision refund(const std::string& key, Ticket* ticket) override {
    return limited_->refund(key, ticket);
  }
  Decision reset(const std::string& key) override { return limited_->reset(key); }

 private:
  std::shared_ptr<Store> store_;
  const std::shared_ptr<ManualClock> clock_;
  std::optional<Limited> limited_;
};

}  // namespace saqiya::test

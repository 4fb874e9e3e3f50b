// A process whose server does not answer, and what it decides.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/failure.h"
#include "core/memory_store.h"
#include "tests/support/limited.h"

namespace saqiya {

using test::expect_same_numbers;

inline constexpr Micros kSecond = kMicrosPerSecond;
inline constexpr Micros kStart = 1'800'000'000 * kSecond;
inline constexpr Micros kPause = kSecond;

// A server that is away for good: its limiters ask the local table.
class AwayStore final : public Store {
 public:
  explicit AwayStore(std::shared_ptr<Store> local) : local_(std::move(local)) {}
  bool is_local() const override { return false; }
  Micros deadline() const override { return 100'000; }
  Binding bind(std::string_view) const override { return {}; }
  void execute(const Request&, Answer*) override { FAIL(); }
  void execute_many(std::span<const Request>, std::span<Answer>) override { FAIL(); }
  std::unique_ptr<Queue> open_queue(const std::shared_ptr<Store>&, const QueueOptions&) override {
    return nullptr;
  }
  StoreStats stats() const override { return {}; }
  std::shared_ptr<Store> local_table() const override { return local_; }

 private:
  const std::shared_ptr<Store> local_;
};

inline std::shared_ptr<Store> memory(const std::shared_ptr<Clock>& clock) {
  StoreOptions options;
  options.clock = clock;
  return make_memory_store(options);
}

// One process: its table, and what it decides.
struct Process {
  explicit Process(const std::shared_ptr<Clock>& clock)
      : store(std::make_shared<AwayStore>(memory(clock))) {}

  std::shared_ptr<Limiter> make(std::string_view policy, LimiterOptions options) const {
    return std::make_shared<Limiter>(store, test::policy_of(policy), std::move(options));
  }
  std::shared_ptr<Limiter> local(std::string_view policy, std::uint32_t share = kWholeShare) const {
    LimiterOptions options;
    options.failure = FailureMode::kLocal;
    options.share = share;
    return make(policy, std::move(options));
  }
  std::shared_ptr<Limiter> with(FailureMode mode, std::string_view policy) const {
    LimiterOptions options;
    options.failure = mode;
    return make(policy, std::move(options));
  }

  Answer ask(const Request& request, Reason reason = Reason::kTimeout) {
    Answer answer;
    if (!failover.answers_itself(request, &answer)) {
      failover.answer_unsent(request, reason, &answer);
    }
    return answer;
  }

  Decision check(const Limiter& limiter, std::string_view key, std::int64_t cost = 1,
                 Micros max_wait = 0, Ticket* ticket = nullptr) {
    Request request;
    request.limiter = &limiter;
    request.key = key;
    request.cost = cost;
    request.max_wait = max_wait;
    const Answer answer = ask(request);
    if (ticket != nullptr) *ticket = answer.ticket;
    return answer.decision;
  }

  Decision change(Op op, const Limiter& limiter, std::string_view key,
                  const std::vector<Ticket>& tickets, std::int64_t cost = 0) {
    Request request;
    request.op = op;
    request.limiter = &limiter;
    request.key = key;
    request.cost = cost;
    request.tickets = tickets;
    return ask(request).decision;
  }

  std::uint64_t count(std::atomic<std::uint64_t> Failover::Counters::*counter) const {
    return (failover.counters().*counter).load();
  }

  std::shared_ptr<Store> store;
  Failover failover;
};

class FailureTest : public ::testing::Test {
 protected:
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>(kStart);
  Process process_{clock_};
};

}  // namespace saqiya

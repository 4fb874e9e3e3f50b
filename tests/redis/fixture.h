// Short forms for what every Redis test does.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/limiter.h"
#include "core/rate.h"
#include "core/store.h"
#include "tests/redis/server.h"

namespace saqiya::testing {

inline std::shared_ptr<Store> open(std::string_view url, StoreOptions options = {}) {
  OpenError error;
  std::shared_ptr<Store> store = open_store(url, options, &error);
  if (store == nullptr) throw std::invalid_argument(error.message);
  return store;
}

// A deadline that a busy machine keeps: for tests that are not about deadlines.
inline StoreOptions patient() {
  StoreOptions options;
  options.deadline = 20 * kMicrosPerSecond;
  return options;
}

// The server under a clock of the test's own.
inline StoreOptions timed(const std::shared_ptr<Clock>& clock) {
  StoreOptions options = patient();
  options.testing = true;
  options.clock = clock;
  return options;
}

inline std::shared_ptr<Limiter> make_limiter(const std::shared_ptr<Store>& store,
                                             std::string_view text, std::string name = {},
                                             Micros deadline = 0) {
  Policy policy;
  PolicyError error;
  if (!parse_policy(text, &policy, &error)) throw std::invalid_argument(error.message);
  return std::make_shared<Limiter>(store, policy, std::move(name), deadline);
}

inline Request check(const Limiter& limiter, std::string_view key, std::int64_t cost = 1,
                     Micros max_wait = 0) {
  Request request;
  request.limiter = &limiter;
  request.key = key;
  request.cost = cost;
  request.max_wait = max_wait;
  return request;
}

inline Request peek(const Limiter& limiter, std::string_view key, std::int64_t cost = 1) {
  Request request = check(limiter, key, cost);
  request.op = Op::kPeek;
  return request;
}

// Borrows the ticket.
inline Request refund(const Limiter& limiter, std::string_view key, const Ticket& ticket) {
  Request request = check(limiter, key);
  request.op = Op::kRefund;
  request.tickets = {&ticket, 1};
  return request;
}
Request refund(const Limiter& limiter, std::string_view key, Ticket&& ticket) = delete;

inline Request reset(const Limiter& limiter, std::string_view key) {
  Request request = check(limiter, key);
  request.op = Op::kReset;
  return request;
}

inline Answer ask(const Request& request) {
  Answer answer;
  request.limiter->store().execute(request, &answer);
  return answer;
}

inline Outcome outcome(const Request& request) { return ask(request).decision.outcome; }
inline Reason reason(const Request& request) { return ask(request).decision.reason; }

// As it is by default: what raised it would end this process.
inline bool sigpipe_is_deadly() {
  struct sigaction now {};
  return ::sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_DFL;
}

// Asks until the store answers, or long enough has passed to give up; the last answer.
inline Decision ask_until_up(const Request& request) {
  const Micros give_up = system_monotonic() + 40 * kMicrosPerSecond;
  Decision d = ask(request).decision;
  while (d.outcome == Outcome::kUnavailable && system_monotonic() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    d = ask(request).decision;
  }
  return d;
}

// Drives a queue until `count` completions have come (or long enough has passed to give up).
inline std::vector<Completion> collect(Queue& queue, std::size_t count) {
  std::vector<Completion> all;
  std::vector<Completion> some(256);
  const Micros give_up = system_monotonic() + 60 * kMicrosPerSecond;
  while (all.size() < count && system_monotonic() < give_up) {
    queue.process();
    std::size_t got = 0;
    while ((got = queue.drain(some)) > 0) {
      all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(got));
    }
    if (all.size() < count) queue.wait(kMicrosPerSecond);
  }
  return all;
}

inline std::unique_ptr<Queue> open_queue(const std::shared_ptr<Store>& store,
                                         const QueueOptions& options = {}) {
  return store->open_queue(store, options);
}

}  // namespace saqiya::testing

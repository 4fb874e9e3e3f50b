// Differential fuzzer: the C++ step and the Lua script, the two writings of one rule, over long
// random traces. Answers, tickets and stored values must be equal bit for bit.
//
//     step_vs_lua [steps [seed]]
//
// Rules prefer the edges of the ranges and change under living keys; the clock stands, creeps,
// jumps to where a decision turns, and goes back. Each round is one pipeline of requests at one
// instant.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/fuzz/random_rules.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr int kKeys = 40;
constexpr int kRules = 6;
constexpr int kRequestsPerRound = 256;
constexpr int kRoundsPerWorld = 50;

Policy random_bucket_policy(Random& random) {
  while (true) {
    const RuleSpec spec = random_bucket(random);
    Policy policy;
    PolicyError error;
    if (make_policy({&spec, 1}, &policy, &error)) return policy;
  }
}

// What a store does with a bucket, by the C++ functions alone.
Answer model(const Request& request, Micros now, BucketState* state) {
  const TokenBucket& rule = request.limiter->bucket();
  const std::uint32_t n = rule.tokens;
  Answer answer;
  if (request.op == Op::kReset) {
    *state = {};
    describe(rule, Fraction{}, &answer.decision);
    answer.decision.outcome = Outcome::kAllowed;
  } else if (request.op == Op::kRefund) {
    GiveBack give;
    const Ticket& ticket = request.tickets.front();
    const bool given =
        make_give_back(rule, ticket, ticket.cost, &give) && refund(give, n, now, state);
    Fraction behind;
    if (state->n != 0) {
      behind = full_at(*state, n);
      behind.q -= now;
    }
    describe(rule, behind, &answer.decision);
    answer.decision.outcome = given ? Outcome::kAllowed : Outcome::kDenied;
  } else {
    const bool is_peek = request.op == Op::kPeek;
    const Charge charge = make_charge(rule, request.cost, request.max_wait);
    const Fraction over = step(charge, n, now, is_peek, state);
    decide(rule, request.cost, charge, over, is_peek, &answer.decision);
    if (!is_peek) {
      answer.ticket = make_ticket(rule, answer.decision, charge, over, request.cost, now, 0);
    }
  }
  return answer;
}

std::string stored_form(const BucketState& state) {
  if (state.r == 0) return std::to_string(state.q);
  return std::to_string(state.q) + " " + std::to_string(state.r) + " " + std::to_string(state.n);
}

std::string show(const Answer& a) {
  char text[320];
  std::snprintf(text, sizeof text,
                "outcome %d reason %d remaining %" PRId64 " retry %" PRId64 " reset %" PRId64
                " delay %" PRId64 " | ticket q %" PRId64 " r %u n %u cost %" PRId64 " flags %u",
                static_cast<int>(a.decision.outcome), static_cast<int>(a.decision.reason),
                a.decision.remaining, a.decision.retry_after, a.decision.reset_after,
                a.decision.delay, a.ticket.q, a.ticket.r, a.ticket.n, a.ticket.cost,
                a.ticket.flags);
  return text;
}

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed) : random_(seed) {
    QueueOptions options;
    options.batch = 64;
    store_ = open(server_.unix_url(), timed(clock_));
    queue_ = store_->open_queue(store_, options);
  }

  // False when the two differ; it has been said how.
  bool run(std::int64_t steps) {
    while (steps_ < steps) {
      new_world();
      for (int round = 0; round < kRoundsPerWorld && steps_ < steps; ++round) {
        move_clock();
        if (below(random_, 8) == 0) rules_[below(random_, kRules)] = new_rule();
        if (!play_round() || !compare_store()) return false;
      }
    }
    std::printf("%" PRId64 " steps: %" PRId64 " allowed, %" PRId64 " denied, %" PRId64
                " never; %" PRId64 " refunds given, all equal\n",
                steps_, count_[1], count_[2], count_[3], refunds_);
    // A fuzzer that reaches nothing would always succeed.
    return count_[1] > steps / 20 && count_[2] > steps / 20 && count_[3] > 0 &&
           refunds_ > steps / 1000;
  }

 private:
  std::shared_ptr<Limiter> new_rule() {
    return std::make_shared<Limiter>(store_, random_bucket_policy(random_), "f", 0);
  }

  void new_world() {
    plain_({"FLUSHALL"});
    for (auto& rule : rules_) rule = new_rule();
    for (auto& state : states_) state = {};
    tickets_.assign(16, {});
    instants_.clear();
    clock_->set(magnitude(random_, kMaxNow));
  }

  void move_clock() {
    const Micros now = clock_->monotonic();
    Micros next = now;
    switch (below(random_, 8)) {
      case 0:
        break;
      case 1:
        next = now + 1;
        break;
      case 2:
        next = now - 1 - magnitude(random_, kMaxSpan);
        break;
      case 3:
        next = now + magnitude(random_, kMaxSpan);
        break;
      case 4:
        next = magnitude(random_, kMaxNow);
        break;
      default:
        // To where some decision turned, or beside it.
        if (!instants_.empty()) {
          next = instants_[below(random_, instants_.size())] +
                 static_cast<Micros>(below(random_, 3)) - 1;
        }
    }
    instants_.clear();
    clock_->set(std::clamp<Micros>(next, 0, kMaxNow));
  }

  // ticket: where a refund has its own; the request borrows it.
  Request random_request(Ticket* ticket) {
    const Limiter& limiter = *rules_[below(random_, kRules)];
    const std::int64_t capacity = limiter.bucket().capacity;
    Request request = check(limiter, key_names_[below(random_, kKeys)]);
    const std::uint64_t kind = below(random_, 20);
    request.op = kind < 13   ? Op::kCheck
                 : kind < 15 ? Op::kPeek
                 : kind < 19 ? Op::kRefund
                             : Op::kReset;
    request.cost =
        below(random_, 50) == 0 ? magnitude(random_, kMaxCount) : magnitude(random_, capacity);
    if (below(random_, 3) == 0) request.cost = std::min<std::int64_t>(capacity, 1);
    if (below(random_, 4) == 0) request.max_wait = magnitude(random_, kMaxSpan + 5);
    if (request.op == Op::kRefund) {
      const Past& past = tickets_[below(random_, tickets_.size())];
      *ticket = past.ticket;
      request.tickets = {ticket, 1};
      if (below(random_, 8) != 0) request.key = key_names_[past.key];
      if (below(random_, 8) != 0 && past.limiter != nullptr) request.limiter = past.limiter.get();
      if (below(random_, 20) == 0) ticket->flags |= Ticket::kSpent;
    }
    return request;
  }

  bool play_round() {
    const Micros now = clock_->monotonic();
    std::vector<Request> requests;
    std::vector<Ticket> given(kRequestsPerRound);
    std::vector<std::shared_ptr<const Limiter>> kept;  // requests borrow their limiters
    for (const Past& past : tickets_) kept.push_back(past.limiter);
    // Those of one rule and cost often stand together, as real ones do.
    for (int i = 0; i < kRequestsPerRound; ++i) {
      requests.push_back(random_request(&given[static_cast<std::size_t>(i)]));
      if (i % 3 == 1) {
        requests.back() = requests[requests.size() - 2];
        requests.back().key = key_names_[below(random_, kKeys)];
      }
      if (queue_->submit(requests.back(), static_cast<std::uint64_t>(i)) != SubmitResult::kOk) {
        std::printf("the queue refused a request\n");
        return false;
      }
    }
    const std::vector<Completion> done = collect(*queue_, requests.size());
    if (done.size() != requests.size()) {
      std::printf("%zu requests, %zu completions\n", requests.size(), done.size());
      return false;
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request& request = requests[i];
      const auto key = static_cast<std::size_t>(std::stoi(std::string(request.key)));
      const BucketState before = states_[key];
      const Answer expected = model(request, now, &states_[key]);
      Answer got;
      got.decision = done[i].decision;
      got.ticket = done[i].ticket;
      ++steps_;
      if (done[i].user_data != i ||
          std::memcmp(&got.decision, &expected.decision, sizeof got.decision) != 0 ||
          std::memcmp(&got.ticket, &expected.ticket, sizeof got.ticket) != 0) {
        const TokenBucket& rule = request.limiter->bucket();
        std::printf("step %" PRId64 ": op %d capacity %" PRId64 " N %u P %" PRId64 " cost %" PRId64
                    " wait %" PRId64 " now %" PRId64 " state %s (n %u)\n  C++ %s\n  Lua %s\n",
                    steps_, static_cast<int>(request.op), rule.capacity, rule.tokens, rule.period,
                    request.cost, request.max_wait, now, stored_form(before).c_str(), before.n,
                    show(expected).c_str(), show(got).c_str());
        return false;
      }
      if (request.op == Op::kCheck) ++count_[static_cast<std::size_t>(got.decision.outcome)];
      if (request.op == Op::kRefund && got.decision.outcome == Outcome::kAllowed) ++refunds_;
      if (got.ticket.n != 0) {
        Past& past = tickets_[below(random_, tickets_.size())];
        past.ticket = got.ticket;
        past.key = key;
        past.limiter = request.limiter->weak_from_this().lock();
        instants_.push_back(got.ticket.q);
      }
      if (got.decision.outcome == Outcome::kDenied && request.op == Op::kCheck) {
        instants_.push_back(now + got.decision.retry_after);
      }
    }
    return true;
  }

  // What is stored is what the C++ step would store, to the byte.
  bool compare_store() {
    std::vector<std::string> words = {"MGET"};
    for (const std::string& name : key_names_) words.push_back("sq:{" + name + "}:f:b");
    const std::vector<Value> values = plain_(words).list;
    for (std::size_t i = 0; i < kKeys; ++i) {
      const std::string expected = states_[i].n == 0 ? "" : stored_form(states_[i]);
      if (values[i].text != expected) {
        std::printf("key %zu after step %" PRId64 ": C++ '%s', Lua '%s'\n", i, steps_,
                    expected.c_str(), values[i].text.c_str());
        return false;
      }
    }
    return true;
  }

  struct Past {
    Ticket ticket;
    std::size_t key = 0;
    std::shared_ptr<const Limiter> limiter;
  };

  Random random_;
  RedisServer server_;
  Client plain_ = server_.client();
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>(0);
  std::shared_ptr<Store> store_;
  std::unique_ptr<Queue> queue_;
  const std::vector<std::string> key_names_ = [] {
    std::vector<std::string> names;
    for (int i = 0; i < kKeys; ++i) names.push_back(std::to_string(i));
    return names;
  }();
  std::shared_ptr<Limiter> rules_[kRules];
  BucketState states_[kKeys];
  std::vector<Past> tickets_;
  std::vector<Micros> instants_;
  std::int64_t steps_ = 0;
  std::int64_t count_[5] = {};
  std::int64_t refunds_ = 0;
};

}  // namespace
}  // namespace saqiya::testing

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::printf("seed %" PRIu64 "\n", seed);
  return saqiya::testing::Fuzzer(seed).run(steps) ? 0 : 1;
}

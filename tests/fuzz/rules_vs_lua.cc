// Differential fuzzer: every algorithm, policies of several rules and requests of several limiters,
// by the C++ steps and by the Lua script. Decisions, those of each rule, tickets and stored values
// must be equal bit for bit (but for the random numbers of leases).
//
//     rules_vs_lua [steps [seed]]
//
// Policies prefer the edges of the ranges and change under living keys; the clock stands, creeps,
// jumps to where a decision turns, and goes back. Each round is one pipeline of requests at one
// instant.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/group.h"
#include "core/timed_list.h"
#include "tests/fuzz/random_rules.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

constexpr int kKeys = 6;
constexpr int kLimiters = 8;
constexpr int kRequestsPerRound = 64;
constexpr int kRoundsPerWorld = 60;

// -- The C++ side: states that are kept for ever -------------------------------------------------

struct Cell {
  State state;
  Algorithm algorithm = Algorithm::kTokenBucket;
  ~Cell() { delete state.list; }
};

class Model {
 public:
  Answer execute(const Request& request, Micros now) {
    Group group(request, ++leases_ << 20);
    Answer answer;
    for (std::size_t i = 0; i < group.parts().size(); ++i) {
      Part& part = group.parts()[i];
      if (!group.is_leader(i)) continue;
      part.now = now;
      act(request.op, &part);
    }
    const bool charged = group.all_fit();
    for (std::size_t i = 0; charged && i < group.parts().size(); ++i) {
      Part& part = group.parts()[i];
      if (group.is_leader(i)) charge(part.rule(), part.ask, part.seen, now, &cell(part).state);
    }
    group.finish(charged, 0, &answer);
    return answer;
  }

  std::map<std::string, Cell>& cells() { return cells_; }

 private:
  Cell& cell(const Part& part) {
    Cell& found =
        cells_["sq:{" + std::string(part.key) + "}:" + part.limiter->identities()[part.rule_index]];
    found.algorithm = part.rule().algorithm;
    return found;
  }

  void act(Op op, Part* part) {
    const Rule& rule = part->rule();
    State& state = cell(*part).state;
    if (op == Op::kCheck || op == Op::kPeek) {
      part->seen = look(rule, part->ask, state, part->now, 0);
      return;
    }
    if (op == Op::kReset) {
      delete state.list;
      state = {};
      return;
    }
    part->changed = part->possible && apply(rule, part->change, part->now, &state);
    if (!rule.is_bucket()) {
      part->seen = look(rule, Ask{}, state, part->now, 0);
    } else if (state.bucket.n != 0) {
      part->seen.over = full_at(state.bucket, rule.bucket.tokens);
      part->seen.over.q -= part->now;
    }
  }

  std::map<std::string, Cell> cells_;
  std::uint64_t leases_ = 0;
};

// -- Stored forms --------------------------------------------------------------------------------

void append_big_endian(std::uint64_t value, int bytes, std::string* out) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// Without the leases' numbers.
std::string list_form(const TimedList& list, bool is_log) {
  std::string form(1, is_log ? 'L' : 'N');
  append_big_endian(static_cast<std::uint64_t>(list.last()), 7, &form);
  append_big_endian(static_cast<std::uint64_t>(list.total()), 6, &form);
  for (std::uint32_t i = 0; i < list.size(); ++i) {
    for (std::int64_t left = list.cost(i); left > 0; left -= 65535) {
      append_big_endian(static_cast<std::uint64_t>(list.at(i)), 6, &form);
      append_big_endian(static_cast<std::uint64_t>(std::min<std::int64_t>(left, 65535)), 2, &form);
    }
  }
  return form;
}

std::string stored_form(const Cell& cell) {
  const State& s = cell.state;
  switch (cell.algorithm) {
    case Algorithm::kTokenBucket:
      if (s.bucket.n == 0) return "";
      if (s.bucket.r == 0) return std::to_string(s.bucket.q);
      return std::to_string(s.bucket.q) + " " + std::to_string(s.bucket.r) + " " +
             std::to_string(s.bucket.n);
    case Algorithm::kFixedWindow:
    case Algorithm::kCalendar:
      return s.used == 0 ? "" : std::to_string(s.end) + " " + std::to_string(s.used);
    case Algorithm::kSlidingWindow:
      if (s.used == 0 && s.previous == 0) return "";
      return std::to_string(s.end) + " " + std::to_string(s.previous) + " " +
             std::to_string(s.used);
    case Algorithm::kSlidingLog:
    case Algorithm::kConcurrency:
      break;
  }
  if (s.list == nullptr || s.list->empty()) return "";
  return list_form(*s.list, cell.algorithm == Algorithm::kSlidingLog);
}

std::string without_lease_numbers(const std::string& value) {
  if (value.empty() || value[0] != 'N' || value.size() < 14) return value;
  std::string out = value.substr(0, 14);
  for (std::size_t i = 14; i < value.size(); i += 16) out += value.substr(i, 8);
  return out;
}

std::string readable(const std::string& form) {
  std::string out;
  char hex[4];
  for (const char c : form) {
    const bool plain = c >= ' ' && c <= '~';
    std::snprintf(hex, sizeof hex, plain ? "%c" : "\\%02x", static_cast<unsigned char>(c));
    out += hex;
  }
  return out;
}

// -- The fuzzer ----------------------------------------------------------------------------------

// What a request asked, and the room for its answers. Items and tickets borrow from it.
struct Asked {
  Request request;
  std::vector<std::string> keys;
  std::vector<std::shared_ptr<Limiter>> limiters;
  std::vector<Item> items;
  std::vector<Ticket> tickets;        // of the server's side
  std::vector<Ticket> model_tickets;  // the same charges, of the model's side
  std::vector<Decision> each;
  std::vector<Ticket> tickets_out;
};

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed) : random_(seed) {
    store_ = open(server_.unix_url(), timed(clock_));
    queue_ = store_->open_queue(store_, QueueOptions{});
  }

  bool run(std::int64_t steps) {
    while (steps_ < steps) {
      new_world();
      for (int round = 0; round < kRoundsPerWorld && steps_ < steps; ++round) {
        move_clock();
        if (below(random_, 6) == 0) limiters_[below(random_, kLimiters)] = new_limiter();
        if (!play_round() || !compare_store()) return false;
      }
    }
    std::printf("%" PRId64 " steps: %" PRId64 " allowed, %" PRId64 " denied, %" PRId64
                " never; %" PRId64 " changes made; %" PRId64 " of several items; all equal\n",
                steps_, count_[1], count_[2], count_[3], changes_, several_);
    // A fuzzer that reaches nothing would always succeed.
    return count_[1] > steps / 20 && count_[2] > steps / 20 && count_[3] > 0 &&
           changes_ > steps / 200 && several_ > steps / 20;
  }

 private:
  // What was charged, to be given back later.
  struct Past {
    std::vector<std::shared_ptr<Limiter>> limiters;
    std::vector<std::string> keys;
    std::vector<Ticket> tickets;
    std::vector<Ticket> model_tickets;
  };

  std::shared_ptr<Limiter> new_limiter() {
    return std::make_shared<Limiter>(store_, random_policy(random_),
                                     "p" + std::to_string(below(random_, 4)), 0);
  }

  void new_world() {
    plain_({"FLUSHALL"});
    model_ = std::make_unique<Model>();
    for (auto& limiter : limiters_) limiter = new_limiter();
    pasts_.assign(12, {});
    instants_.clear();
    clock_->set(below(random_, 3) == 0 ? magnitude(random_, kMaxNow) : 1'790'000'000'000'000);
  }

  void move_clock() {
    const Micros now = clock_->monotonic();
    Micros next = now;
    switch (below(random_, 10)) {
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
        next = now + magnitude(random_, 10'000'000);
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

  static std::size_t rules_of(const std::vector<std::shared_ptr<Limiter>>& limiters) {
    std::size_t count = 0;
    for (const auto& limiter : limiters) count += limiter->rules().size();
    return count;
  }

  void finish(Asked* asked, bool as_items) {
    Request& request = asked->request;
    asked->each.assign(rules_of(asked->limiters), {});
    asked->tickets_out.assign(asked->each.size(), {});
    request.key = asked->keys[0];
    request.limiter = asked->limiters[0].get();
    if (as_items) {
      for (std::size_t i = 0; i < asked->keys.size(); ++i) {
        asked->items.push_back(
            {asked->limiters[i].get(), asked->keys[i], random_cost(*asked->limiters[i])});
      }
      request.items = asked->items;
    } else {
      request.cost = random_cost(*request.limiter);
    }
    request.tickets = asked->tickets;
    // Without these a single bucket takes its own, shorter way.
    if (as_items || request.limiter->rules().size() > 1 || below(random_, 2) == 0) {
      request.each = asked->each;
      request.tickets_out = asked->tickets_out;
    }
  }

  std::int64_t random_cost(const Limiter& limiter) {
    std::int64_t least = kMaxCount;
    for (const Rule& rule : limiter.rules()) least = std::min(least, rule.capacity());
    if (below(random_, 50) == 0) return magnitude(random_, kMaxCount);
    if (below(random_, 3) == 0) return std::min<std::int64_t>(least, 1);
    return magnitude(random_, std::min<std::int64_t>(least + 1, kMaxCount));
  }

  bool make_change(Asked* asked) {
    const Past& past = pasts_[below(random_, pasts_.size())];
    if (past.limiters.empty()) return false;
    Request& request = asked->request;
    const std::uint64_t kind = below(random_, 10);
    request.op = kind < 5 ? Op::kRefund : kind < 8 ? Op::kSettle : Op::kRenew;
    if (request.op == Op::kRefund && below(random_, 3) == 0) {
      asked->limiters = past.limiters;
      asked->keys = past.keys;
      asked->tickets = past.tickets;
      asked->model_tickets = past.model_tickets;
      finish(asked, true);
      return true;
    }
    const std::size_t which = below(random_, past.limiters.size());
    std::size_t offset = 0;
    for (std::size_t i = 0; i < which; ++i) offset += past.limiters[i]->rules().size();
    const std::size_t count = past.limiters[which]->rules().size();
    asked->limiters = {past.limiters[which]};
    // Often a limiter whose rules have changed meanwhile.
    if (below(random_, 3) == 0) {
      const auto& other = limiters_[below(random_, kLimiters)];
      if (other->rules().size() == count) asked->limiters = {other};
    }
    asked->keys = {past.keys[which]};
    asked->tickets.assign(past.tickets.begin() + static_cast<std::ptrdiff_t>(offset),
                          past.tickets.begin() + static_cast<std::ptrdiff_t>(offset + count));
    asked->model_tickets.assign(
        past.model_tickets.begin() + static_cast<std::ptrdiff_t>(offset),
        past.model_tickets.begin() + static_cast<std::ptrdiff_t>(offset + count));
    if (below(random_, 20) == 0) {
      for (Ticket& t : asked->tickets) t.flags |= Ticket::kSpent;
      for (Ticket& t : asked->model_tickets) t.flags |= Ticket::kSpent;
    }
    finish(asked, false);
    return true;
  }

  void make_ask(Asked* asked) {
    Request& request = asked->request;
    const std::uint64_t kind = below(random_, 20);
    request.op = kind < 15 ? Op::kCheck : kind < 19 ? Op::kPeek : Op::kReset;
    if (below(random_, 4) == 0) request.max_wait = magnitude(random_, kMaxSpan + 5);
    if (below(random_, 10) == 0) request.max_wait = kNoWait;
    const bool as_items = below(random_, 3) == 0;
    const std::size_t count = as_items ? 1 + below(random_, 4) : 1;
    for (std::size_t i = 0; i < count; ++i) {
      asked->limiters.push_back(limiters_[below(random_, kLimiters)]);
      asked->keys.push_back(std::to_string(below(random_, kKeys)));
    }
    finish(asked, as_items);
    std::string why;
    if (as_items && !check_items(asked->items, &why)) {  // then just the first
      asked->limiters.resize(1);
      asked->keys.resize(1);
      asked->items.clear();
      request.items = {};
      finish(asked, false);
    }
  }

  bool play_round() {
    const Micros now = clock_->monotonic();
    std::vector<std::unique_ptr<Asked>> asked;
    for (std::uint64_t i = 0; i < kRequestsPerRound; ++i) {
      auto next = std::make_unique<Asked>();
      if (below(random_, 4) != 0 || !make_change(next.get())) make_ask(next.get());
      if (queue_->submit(next->request, i) != SubmitResult::kOk) {
        std::printf("the queue refused a request\n");
        return false;
      }
      asked.push_back(std::move(next));
    }
    const std::vector<Completion> done = collect(*queue_, asked.size());
    if (done.size() != asked.size()) {
      std::printf("%zu requests, %zu completions\n", asked.size(), done.size());
      return false;
    }
    for (const Completion& completion : done) {
      // Requests complete in the order of their submission.
      const std::size_t i = static_cast<std::size_t>(completion.user_data);
      if (&completion != &done[i] || !compare(asked[i].get(), completion, now)) return false;
    }
    return true;
  }

  static bool same(const Ticket& a, const Ticket& b) {
    Ticket x = a;
    x.lease = b.lease;
    return std::memcmp(&x, &b, sizeof x) == 0;
  }

  bool compare(Asked* asked, const Completion& got, Micros now) {
    ++steps_;
    Request request = asked->request;
    std::vector<Decision> each(request.each.size());
    std::vector<Ticket> tickets_out(request.tickets_out.size());
    request.each = each;
    request.tickets_out = tickets_out;
    request.tickets = asked->model_tickets;
    const Answer want = model_->execute(request, now);
    bool equal = std::memcmp(&want.decision, &got.decision, sizeof want.decision) == 0 &&
                 same(want.ticket, got.ticket);
    for (std::size_t i = 0; i < each.size(); ++i) {
      equal = equal && std::memcmp(&each[i], &asked->each[i], sizeof each[i]) == 0 &&
              same(tickets_out[i], asked->tickets_out[i]);
    }
    if (!equal) {
      report(*asked, want, each, got, now);
      return false;
    }
    remember(*asked, want, got, tickets_out, now);
    return true;
  }

  void remember(const Asked& asked, const Answer& want, const Completion& got,
                const std::vector<Ticket>& model_tickets, Micros now) {
    const Request& request = asked.request;
    if (request.items.size() > 1) ++several_;
    if (request.op == Op::kCheck) ++count_[static_cast<std::size_t>(got.decision.outcome)];
    const bool changes =
        request.op == Op::kRefund || request.op == Op::kSettle || request.op == Op::kRenew;
    if (changes && got.decision.outcome == Outcome::kAllowed) ++changes_;
    if (got.decision.outcome == Outcome::kDenied && request.op == Op::kCheck) {
      instants_.push_back(now + got.decision.retry_after);
    }
    if (request.op != Op::kCheck || got.decision.outcome != Outcome::kAllowed) return;
    instants_.push_back(now + got.decision.reset_after);
    Past& past = pasts_[below(random_, pasts_.size())];
    past.limiters = asked.limiters;
    past.keys = asked.keys;
    past.tickets = asked.tickets_out;
    past.model_tickets = model_tickets;
    if (request.tickets_out.empty()) {
      past.tickets = {got.ticket};
      past.model_tickets = {want.ticket};
    }
  }

  static void print(const char* who, const Decision& d) {
    std::printf("  %s outcome %d reason %d limit %" PRId64 " remaining %" PRId64 " retry %" PRId64
                " reset %" PRId64 " delay %" PRId64 " rule %d item %d\n",
                who, static_cast<int>(d.outcome), static_cast<int>(d.reason), d.limit, d.remaining,
                d.retry_after, d.reset_after, d.delay, d.rule, d.item);
  }

  void report(const Asked& asked, const Answer& want, const std::vector<Decision>& each,
              const Completion& got, Micros now) {
    std::printf("step %" PRId64 ": op %d now %" PRId64 " max_wait %" PRId64 "\n", steps_,
                static_cast<int>(asked.request.op), now, asked.request.max_wait);
    for (std::size_t i = 0; i < asked.keys.size(); ++i) {
      std::printf("  %s on key %s cost %" PRId64 "\n", asked.limiters[i]->policy().text.c_str(),
                  asked.keys[i].c_str(),
                  asked.items.empty() ? asked.request.cost : asked.items[i].cost);
    }
    print("C++", want.decision);
    print("Lua", got.decision);
    for (std::size_t i = 0; i < each.size(); ++i) {
      print("C++ each", each[i]);
      print("Lua each", asked.each[i]);
    }
    for (const auto& [key, cell] : model_->cells()) {
      std::printf("  C++ state afterwards %s: %s\n", key.c_str(),
                  readable(stored_form(cell)).c_str());
    }
  }

  // What is stored is what the C++ steps would store, to the byte.
  bool compare_store() {
    std::vector<std::string> words = {"MGET"};
    for (const auto& [key, cell] : model_->cells()) words.push_back(key);
    if (words.size() == 1) return true;
    const std::vector<Value> values = plain_(words).list;
    std::size_t i = 0;
    for (const auto& [key, cell] : model_->cells()) {
      const std::string want = stored_form(cell);
      const std::string got = without_lease_numbers(values[i++].text);
      if (got == want) continue;
      std::printf("%s after step %" PRId64 ":\n  C++ '%s'\n  Lua '%s'\n", key.c_str(), steps_,
                  readable(want).c_str(), readable(got).c_str());
      return false;
    }
    return true;
  }

  Random random_;
  RedisServer server_;
  Client plain_ = server_.client();
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>(0);
  std::shared_ptr<Store> store_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Model> model_;
  std::shared_ptr<Limiter> limiters_[kLimiters];
  std::vector<Past> pasts_;
  std::vector<Micros> instants_;
  std::int64_t steps_ = 0;
  std::int64_t count_[5] = {};
  std::int64_t changes_ = 0;
  std::int64_t several_ = 0;
};

}  // namespace
}  // namespace saqiya::testing

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 1'000'000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::printf("seed %" PRIu64 "\n", seed);
  return saqiya::testing::Fuzzer(seed).run(steps) ? 0 : 1;
}

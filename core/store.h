// A store keeps the state of buckets and applies steps to them atomically. It owns "now": the
// memory store reads its clock, Redis uses the server's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/decision.h"
#include "core/siphash.h"
#include "core/time.h"

namespace saqiya {

class Limiter;

enum class Op : std::uint8_t {
  kCheck = 1,
  kPeek = 2,
  kRefund = 3,
  kReset = 4,
  kSettle = 5,  // the charge of a ticket becomes `cost`
  kRenew = 6,   // the lease of a ticket begins anew
};

// Whether it asks for something, which failure policies can answer; else it changes something.
inline bool is_ask(Op op) { return op == Op::kCheck || op == Op::kPeek; }

// One limiter, key and cost of several that are decided together.
struct Item {
  const Limiter* limiter = nullptr;
  std::string_view key;
  std::int64_t cost = 1;
};

// One request as a caller states it; arguments have been checked (cost 0 ... kMaxCount, key at most
// kMaxKey bytes, items as check_items() of group.h wants them). Without items the limiter is not
// unlimited, but in a queue, which answers that itself. Pointers are borrowed for the call, but for
// `each` and `tickets_out`, which a queue writes to before it completes the request.
struct Request {
  Op op = Op::kCheck;
  const Limiter* limiter = nullptr;
  std::string_view key;
  std::int64_t cost = 1;
  Micros max_wait = 0;  // as make_charge() takes it
  // All of them at once instead of the one above, all or nothing. Not with kSettle and kRenew.
  std::span<const Item> items;
  // Refund, settle, renew: one for each rule (of each item). The caller has marked its own spent.
  std::span<const Ticket> tickets;
  bool want_ticket = true;  // else the answer's ticket may stay empty
  // Where wanted: room for one of each rule (of each item).
  std::span<Decision> each;
  std::span<Ticket> tickets_out;
};

inline constexpr std::size_t kMaxKey = 65536;
inline constexpr std::size_t kMaxItems = 16;

struct Answer {
  Decision decision;
  Ticket ticket;  // of an allowed check under a limiter of one rule, else empty
};

// How a store addresses the keys of one rule of a limiter; each store fills what it uses.
struct Binding {
  SipKey hash_key;       // memory: keyed hash of the subjects of this policy and rule
  std::string key_head;  // Redis: prefix and "{"
  std::string key_tail;  // Redis: "}:" and the rule's identity
};

// The layout's meaning is that of saqiya_store_stats.
struct StoreStats {
  static constexpr std::size_t kLatencies = 16;

  std::uint64_t keys = 0;
  std::uint64_t bytes = 0;
  std::uint64_t evictions = 0;
  std::uint64_t requests = 0;
  std::uint64_t batches = 0;
  std::uint64_t connects = 0;
  std::uint64_t failures = 0;
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t cached = 0;
  std::uint64_t local_allowed = 0;
  std::uint64_t local_denied = 0;
  std::uint64_t opened = 0;
  std::uint64_t closed = 0;
  std::uint64_t outages = 0;
  std::uint64_t degraded = 0;
  std::array<std::uint64_t, kLatencies> latency{};
};

// What an operator should know of; see saqiya_event.
struct Event {
  // The numbers are those of saqiya_event_kind.
  enum class Kind : std::uint32_t { kNone = 0, kOutage = 1, kRecovered = 2, kRefused = 3 };

  Kind kind = Kind::kNone;
  Reason reason = Reason::kNone;
  std::uint32_t suppressed = 0;
  Micros wall = 0;
  Micros duration = 0;
  std::uint64_t decisions = 0;
  std::array<char, 112> server{};   // ends with a zero
  std::array<char, 248> message{};  // so does this
};

struct QueueOptions {
  std::uint32_t capacity = 4096;
  std::uint32_t batch = 64;
  std::uint32_t in_flight = 8;
};

struct Completion {
  std::uint64_t user_data = 0;
  Decision decision;
  Ticket ticket;
};

enum class SubmitResult { kOk, kFull, kClosed };

// Submission and completion queue (DESIGN 6). One thread at a time. Never waits, but in wait().
class Queue {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  virtual ~Queue() = default;  // as close(); completions not drained are lost

  // Copies the key; keeps the limiter alive until the request has completed.
  virtual SubmitResult submit(const Request& request, std::uint64_t user_data) = 0;
  // False when nothing that was submitted with user_data is still open.
  virtual bool cancel(std::uint64_t user_data) = 0;
  virtual void process() = 0;
  virtual std::size_t drain(std::span<Completion> out) = 0;
  virtual int fd() const = 0;
  // Microseconds until process() must be called; 0: now; -1: no need.
  virtual Micros timeout() const = 0;
  virtual std::size_t pending() const = 0;
  // Waits until there is something to process or drain, at most max_wait.
  virtual void wait(Micros max_wait) = 0;
  virtual void close() = 0;
};

// Thread-safe. Opening a store makes no connection.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual bool is_local() const = 0;
  virtual Micros deadline() const = 0;
  // How the keys of a rule are addressed; identity: "policy:rule". Called by limiters when they are
  // made.
  virtual Binding bind(std::string_view identity) const = 0;

  // Decides one request; a remote store waits, at most until the deadline.
  virtual void execute(const Request& request, Answer* answer) = 0;
  // The same for many, in order. A remote store sends them together.
  virtual void execute_many(std::span<const Request> requests, std::span<Answer> answers) = 0;

  // Null when the operating system refuses a descriptor. The queue keeps the store alive.
  virtual std::unique_ptr<Queue> open_queue(const std::shared_ptr<Store>& self,
                                            const QueueOptions& options) = 0;
  virtual StoreStats stats() const = 0;

  // Of a remote store: the store in this process that decides while it does not. Else null.
  virtual std::shared_ptr<Store> local_table() const { return nullptr; }
  // Whether limiters may answer from refusals that are remembered in this process.
  virtual bool remembers_denials() const { return false; }

  virtual bool has_event() const { return false; }
  // False when there is none. Each is given once.
  virtual bool next_event(Event*) { return false; }
};

// Ranges are those of saqiya_store_options; open_store checks them.
struct StoreOptions {
  bool testing = false;
  bool hash_subjects = false;
  std::shared_ptr<Clock> clock;  // null: the system's
  std::uint64_t max_keys = 10'000'000;
  Micros deadline = 100'000;
  std::string prefix = "sq:";
  std::string secret;
  std::uint32_t connections = 4;
};

enum class OpenFault { kUrl, kOption, kSystem };

struct OpenError {
  OpenFault fault = OpenFault::kUrl;
  std::string message;  // never holds a password
};

// core/store_url.cc. Null, with *error saying why, when the URL is malformed, an option is outside
// its range or does not go with the URL, or the operating system refuses what is needed.
std::shared_ptr<Store> open_store(std::string_view url, const StoreOptions& options,
                                  OpenError* error);

}  // namespace saqiya

#include "core/memory_store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "core/fork.h"
#include "core/group.h"
#include "core/limiter.h"
#include "core/local_queue.h"
#include "core/memory_steps.h"
#include "core/memory_table.h"
#include "core/random.h"

namespace saqiya {
namespace {

// A number no other table has, in this process or another: the hash of what tells tables apart.
std::uint64_t next_epoch(const SipKey& secret) {
  static std::atomic<std::uint64_t> count{0};
  const std::array<std::uint64_t, 3> parts = {static_cast<std::uint64_t>(getpid()),
                                              static_cast<std::uint64_t>(system_wall()),
                                              count.fetch_add(1, std::memory_order_relaxed)};
  return siphash128<2, 4>(secret, {reinterpret_cast<const char*>(parts.data()), sizeof parts}).lo;
}

// Room for tickets that a request of several rules does not bring, in its answer there is but one.
std::size_t tickets_missing(const Request& request) {
  if (request.op != Op::kCheck || !request.tickets_out.empty()) return 0;
  if (request.items.empty()) {
    const std::size_t rules = request.limiter->rules().size();
    return rules > 1 ? rules : 0;
  }
  std::size_t count = 0;
  for (const Item& item : request.items) {
    count += std::max<std::size_t>(item.limiter->rules().size(), 1);
  }
  return count;
}

}  // namespace

std::shared_ptr<Store> make_memory_store(const StoreOptions& options) {
  SipKey secret;
  if (!fill_random(&secret, sizeof secret)) return nullptr;
  return std::make_shared<MemoryStore>(options, secret);
}

MemoryStore::MemoryStore(const StoreOptions& options, SipKey secret)
    : clock_(options.clock),
      max_keys_(options.max_keys),
      deadline_(options.deadline),
      secret_(secret) {
  watch_forks();
  table_.store(new MemoryTable(max_keys_, next_epoch(secret_), clock_), std::memory_order_relaxed);
  table_mark_.store(2 * fork_generation(), std::memory_order_release);
}

MemoryStore::~MemoryStore() {
  // A table inherited from a parent is left alone: a thread may have been changing it at the fork.
  if (table_mark_.load(std::memory_order_acquire) == 2 * fork_generation()) {
    delete table_.load(std::memory_order_relaxed);
  }
}

MemoryTable& MemoryStore::table() const {
  if (table_mark_.load(std::memory_order_acquire) == 2 * fork_generation()) {
    return *table_.load(std::memory_order_relaxed);
  }
  return table_after_fork();
}

MemoryTable& MemoryStore::table_after_fork() const {
  const std::uint64_t ready = 2 * fork_generation();
  std::unique_ptr<MemoryTable> fresh =
      std::make_unique<MemoryTable>(max_keys_, next_epoch(secret_), clock_);
  std::uint64_t mark = table_mark_.load(std::memory_order_acquire);
  // One thread installs its table; others wait the few instructions that takes. A mark left behind
  // by a fork in the midst of this is of an older generation and is simply replaced.
  while (mark != ready) {
    if (mark == ready + 1) {
      std::this_thread::yield();
      mark = table_mark_.load(std::memory_order_acquire);
    } else if (table_mark_.compare_exchange_weak(mark, ready + 1, std::memory_order_acquire)) {
      table_.store(fresh.release(), std::memory_order_relaxed);
      table_mark_.store(ready, std::memory_order_release);
      break;
    }
  }
  return *table_.load(std::memory_order_acquire);
}

Binding MemoryStore::bind(std::string_view identity) const {
  // A key of its own for each rule: the same subject then has unrelated hashes under each.
  const Hash128 derived = siphash128<2, 4>(secret_, identity);
  Binding binding;
  binding.hash_key = {derived.lo, derived.hi};
  return binding;
}

void MemoryStore::execute(const Request& request, Answer* answer) {
  MemoryTable& table = this->table();
  if (request.op <= Op::kPeek && is_plain(request)) {
    check_bucket(table, clock_.get(), request, answer);
  } else {
    execute_other(table, request, answer);
  }
}

void MemoryStore::execute_other(MemoryTable& table, const Request& request, Answer* answer) const {
  MemorySteps(table, clock_.get(), secret_).execute(request, answer);
}

void MemoryStore::execute_many(std::span<const Request> requests, std::span<Answer> answers) {
  // When one runs out of memory, then nothing is charged: all tickets are kept until the end.
  std::size_t missing = 0;
  for (const Request& request : requests) missing += tickets_missing(request);
  std::vector<Ticket> tickets(missing);
  const auto with_tickets = [&](const Request& request, std::size_t place) {
    Request whole = request;
    whole.want_ticket = true;
    const std::size_t count = tickets_missing(request);
    if (count != 0) whole.tickets_out = {tickets.data() + place, count};
    return whole;
  };
  MemorySteps steps(table(), clock_.get(), secret_);
  std::size_t done = 0;
  std::size_t place = 0;
  try {
    for (; done < requests.size(); ++done) {
      steps.execute(with_tickets(requests[done], place), &answers[done]);
      place += tickets_missing(requests[done]);
    }
  } catch (...) {
    while (done-- > 0) {
      place -= tickets_missing(requests[done]);
      steps.take_back(with_tickets(requests[done], place), answers[done]);
    }
    throw;
  }
}

std::unique_ptr<Queue> MemoryStore::open_queue(const std::shared_ptr<Store>& self,
                                               const QueueOptions& options) {
  return open_local_queue(self, options);
}

StoreStats MemoryStore::stats() const {
  const MemoryTable::Size size = table().size();
  StoreStats stats;
  stats.keys = size.keys;
  stats.bytes = size.bytes;
  stats.evictions = size.evictions;
  return stats;
}

}  // namespace saqiya

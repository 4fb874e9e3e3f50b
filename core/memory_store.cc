#include "core/memory_store.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "core/fork.h"
#include "core/limiter.h"
#include "core/local_queue.h"
#include "core/memory_table.h"

namespace saqiya {
namespace {

bool fill_random(void* out, std::size_t size) {
  auto* p = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = getrandom(p, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// A number no other table has, in this process or another: the hash of what tells tables apart.
std::uint64_t next_epoch(const SipKey& secret) {
  static std::atomic<std::uint64_t> count{0};
  const std::array<std::uint64_t, 3> parts = {static_cast<std::uint64_t>(getpid()),
                                              static_cast<std::uint64_t>(system_wall()),
                                              count.fetch_add(1, std::memory_order_relaxed)};
  return siphash128<2, 4>(secret, {reinterpret_cast<const char*>(parts.data()), sizeof parts}).lo;
}

void charge(MemoryTable& table, const Hash128& hash, Micros now, const Request& request,
            Answer* answer) {
  const TokenBucket& rule = request.limiter->bucket();
  const Charge charge = request.limiter->charge(request.cost, request.max_wait);
  const bool peek = request.op == Op::kPeek;
  Fraction over;
  table.update(hash, now,
               [&](BucketState* state) { over = step(charge, rule.tokens, now, peek, state); });
  decide(rule, request.cost, request.max_wait, charge, over, peek, &answer->decision);
  if (request.want_ticket && !peek) {
    answer->ticket =
        make_ticket(rule, answer->decision, charge, over, request.cost, now, table.epoch());
  }
}

void give_back(MemoryTable& table, const Hash128& hash, Micros now, const Request& request,
               Answer* answer) {
  const TokenBucket& rule = request.limiter->bucket();
  GiveBack give;
  const bool possible =
      request.ticket.epoch == table.epoch() && make_give_back(rule, request.ticket, &give);
  bool given = false;
  Fraction behind;
  table.update(hash, now, [&](BucketState* state) {
    given = possible && refund(give, rule.tokens, now, state);
    if (state->n != 0) {
      behind = full_at(*state, rule.tokens);
      behind.q -= now;
    }
  });
  describe(rule, behind, &answer->decision);
  answer->decision.outcome = given ? Outcome::kAllowed : Outcome::kDenied;
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
  table_.store(new MemoryTable(max_keys_, next_epoch(secret_)), std::memory_order_relaxed);
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
      std::make_unique<MemoryTable>(max_keys_, next_epoch(secret_));
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

Binding MemoryStore::bind(const Limiter& limiter) const {
  // A key of its own for each policy: the same subject then has unrelated hashes under each.
  const Hash128 derived = siphash128<2, 4>(secret_, limiter.identity());
  Binding binding;
  binding.hash_key = {derived.lo, derived.hi};
  return binding;
}

void MemoryStore::execute(const Request& request, Answer* answer) {
  MemoryTable& table = this->table();
  const Micros now = clock_ ? clock_->monotonic() : system_monotonic();
  const Hash128 hash = keyed_hash(request.limiter->binding().hash_key, request.key);
  switch (request.op) {
    case Op::kCheck:
    case Op::kPeek:
      charge(table, hash, now, request, answer);
      break;
    case Op::kRefund:
      give_back(table, hash, now, request, answer);
      break;
    case Op::kReset:
      table.erase(hash);
      describe(request.limiter->bucket(), {}, &answer->decision);
      answer->decision.outcome = Outcome::kAllowed;
      break;
  }
}

void MemoryStore::execute_many(std::span<const Request> requests, std::span<Answer> answers) {
  std::size_t done = 0;
  try {
    for (; done < requests.size(); ++done) execute(requests[done], &answers[done]);
  } catch (...) {
    // Out of memory: then nothing is charged. Giving back takes no memory.
    while (done-- > 0) {
      Request give = requests[done];
      give.op = Op::kRefund;
      give.ticket = answers[done].ticket;
      Answer given;
      execute(give, &given);
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

// The store in this process. No timer, no thread: a shard is swept of dead entries before it grows,
// and when as many new ones came as it held.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/store.h"

namespace saqiya {

// Null when the operating system gives no randomness for the hash key.
std::shared_ptr<Store> make_memory_store(const StoreOptions& options);

class MemoryTable;

class MemoryStore final : public Store {
 public:
  MemoryStore(const StoreOptions& options, SipKey secret);
  ~MemoryStore() override;

  bool is_local() const override { return true; }
  Micros deadline() const override { return deadline_; }
  Binding bind(std::string_view identity) const override;
  void execute(const Request& request, Answer* answer) override;
  void execute_many(std::span<const Request> requests, std::span<Answer> answers) override;
  std::unique_ptr<Queue> open_queue(const std::shared_ptr<Store>& self,
                                    const QueueOptions& options) override;
  StoreStats stats() const override;

 private:
  MemoryTable& table() const;
  MemoryTable& table_after_fork() const;
  void execute_other(MemoryTable& table, const Request& request, Answer* answer) const;

  const std::shared_ptr<Clock> clock_;  // null: the system's
  const std::uint64_t max_keys_;
  const Micros deadline_;
  const SipKey secret_;
  // The table and the fork generation it belongs to: 2 * generation, + 1 while it is being made.
  // A child never touches its parent's table, whose locks may be held by threads it does not have;
  // that copy is left where it is, shared with the parent page by page until the parent writes.
  mutable std::atomic<MemoryTable*> table_;
  mutable std::atomic<std::uint64_t> table_mark_;
};

}  // namespace saqiya

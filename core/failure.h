// What becomes of requests that a remote store did not answer. Thread-safe; nothing in it minds a
// fork. One for each remote store.
//
// Local decisions are made by the limiter's fallback, a limiter on a memory store beside the remote
// one (Limiter::fallback()): its table lives on from outage to outage, and what it admitted is
// never charged to the remote store. Its tickets are known by their epoch, which is never 0.
//
// The local table has subjects in the form in which they stand between the braces of Redis keys
// (append_subject() of key.h), so that requests that were sent need not keep more than their keys.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "core/limiter.h"
#include "core/store.h"

namespace saqiya {

class Failover {
 public:
  struct Counters {
    std::atomic<std::uint64_t> failures{0};  // requests that the server did not answer
    // What was decided instead; checks only.
    std::atomic<std::uint64_t> local_allowed{0};
    std::atomic<std::uint64_t> local_denied{0};
    std::atomic<std::uint64_t> opened{0};
    std::atomic<std::uint64_t> closed{0};
  };

  // How subjects are written, before the first request.
  void write_subjects(bool hash_all, std::string secret);

  // The answer to a request that the server did not answer, by its limiters' failure policies.
  // Keys are in the form above; *answer is default. Of a cancelled request, and of what is no check
  // or peek: unavailable. Counts it.
  void answer(const Request& request, Reason reason, Answer* answer) noexcept;
  // The same of a request as the caller stated it.
  void answer_unsent(const Request& request, Reason reason, Answer* answer) noexcept;

  // Before any request but checks and peeks goes to the server, as the caller stated it: what it
  // means for what this process knows of its own. True when it was about local tickets alone, so
  // that it is done and *answer filled in. May throw std::bad_alloc.
  bool answers_itself(const Request& request, Answer* answer) const;

  const Counters& counters() const { return counters_; }

 private:
  void decide(const Request& request, Reason reason, Answer* answer);
  void count(const Request& request, const Decision& decision);

  bool hash_all_ = false;
  std::string secret_;
  Counters counters_;
};

}  // namespace saqiya

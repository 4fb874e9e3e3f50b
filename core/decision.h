// The answer to a request, and what it can be given back by.
//
// Decision and Ticket have the layout of saqiya_decision and saqiya_ticket (capi checks it), so
// that answers cross the C boundary without being copied field by field.
#pragma once

#include <cstdint>

#include "core/time.h"

namespace saqiya {

enum class Outcome : std::int32_t {
  kNone = 0,
  kAllowed = 1,
  kDenied = 2,
  kNever = 3,
  kUnavailable = 4
};

// Which way a decision was made. The numbers are those of saqiya_source.
enum class Source : std::int32_t {
  kStore = 0,
  kCache = 1,   // a refusal of the server's, remembered in this process
  kLocal = 2,   // the server did not answer: by the limiter's failure policy
  kOpen = 3,    // ...
  kClosed = 4,  // ...
};

// Why the server did not answer: of kUnavailable, and of what the failure policy decided. The
// numbers are those of saqiya_reason.
enum class Reason : std::int32_t {
  kNone = 0,
  kConnect = 1,
  kResolve = 2,
  kAuth = 3,
  kTimeout = 4,
  kLost = 5,
  kRefused = 6,
  kReadOnly = 7,
  kPermission = 8,
  kServerMemory = 9,
  kCorrupt = 10,
  kProtocol = 11,
  kBusy = 12,
  kCancelled = 13,
};

// Whether a request that failed for this reason has certainly changed nothing.
inline bool is_certainly_undone(Reason reason) {
  switch (reason) {
    case Reason::kConnect:
    case Reason::kResolve:
    case Reason::kAuth:
    case Reason::kRefused:
    case Reason::kReadOnly:
    case Reason::kServerMemory:  // a script is refused before its first write, or not at all
    case Reason::kBusy:
      return true;
    default:
      return false;
  }
}

struct Decision {
  Outcome outcome = Outcome::kNone;
  Reason reason = Reason::kNone;
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  Micros retry_after = 0;
  Micros reset_after = 0;
  Micros delay = 0;
  std::int32_t rule = 0;  // the rule that bound, by its index in its limiter
  std::int32_t item = 0;  // and the item it belongs to, of several that were asked together
  Source source = Source::kStore;
  std::int32_t reserved32 = 0;
};

inline Decision unavailable(Reason reason) {
  Decision d;
  d.outcome = Outcome::kUnavailable;
  d.reason = reason;
  return d;
}

struct Ticket {
  static constexpr std::uint32_t kSpent = 1;
  static constexpr std::uint32_t kReservation = 2;

  std::int64_t q = 0;  // token bucket: the instant after the charge, q + r/n microseconds. Windows:
                       // the end of the one charged. Log: the entry's instant. Lease: its expiry
  std::uint32_t r = 0;
  std::uint32_t n = 0;  // 0: nothing was charged; 1 for all but token buckets
  std::int64_t cost = 0;
  std::uint64_t epoch = 0;
  std::uint32_t flags = 0;
  std::uint32_t algorithm = 0;  // an Algorithm
  std::uint64_t lease = 0;      // concurrency: its id
};

}  // namespace saqiya

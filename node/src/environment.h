// What the addon keeps per JavaScript environment (the main thread and each worker have one).
// There are no file-level variables: everything hangs on the instance data, and is used only on
// the thread of its environment.
#pragma once

#include <node_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "saqiya/saqiya.h"

namespace saqiya::node {

// Decisions cross into JavaScript as records of doubles in one shared Float64Array. All numbers are
// at most 2^53, so they arrive exactly. lib/record.js holds the same layout.
enum Field : std::size_t {
  kOutcome = 0,
  kDetail,  // reason + rule * 2^8 + item * 2^16 + source * 2^24
  kLimit,
  kRemaining,
  kRetryAfterUs,  // Infinity: never
  kResetAfterUs,
  kDelayUs,
  kTicketQ,
  kTicketR,
  kTicketN,  // n + flags * 2^32 + algorithm * 2^40; 0: no ticket
  kTicketCost,
  kTicketEpochHigh,  // 32 bits each
  kTicketEpochLow,
  kUserData,                // of a completion
  kHttpStatus = kUserData,  // after httpBody
  kHttpReset = kUserData,   // these three: seconds, -1: absent; after checkHttp and http
  kHttpRetryAfter,
  kHttpT,
  kStride = 16,
};

inline constexpr double kTwoTo32 = 4294967296.0;

// Completions delivered in one call into JavaScript.
inline constexpr std::size_t kMaxRecords = 256;

class Environment {
 public:
  // Creates the instance data of env; null with a pending exception on failure.
  static Environment* create(napi_env env);
  static Environment* of(napi_env env);

  napi_env env() const { return env_; }
  napi_value records() const;
  std::string& scratch() { return scratch_; }

  // A function (kind, message, position) => Error; lib/errors.js sets it.
  void set_error_factory(napi_value factory);
  // Throws into JavaScript. kind: "type", "range", or a status name. Returns null, for `return`.
  napi_value raise(const char* kind, const char* message, std::int32_t position = -1) const;
  napi_value raise_status(int status) const;

  double* record(std::size_t index) { return data_ + index * kStride; }
  void write(std::size_t index, const saqiya_decision& decision, const saqiya_ticket& ticket);
  void write(std::size_t index, const saqiya_decision& decision);
  // Rebuilds the numbers of the decision in record 0.
  saqiya_decision read_decision() const;

 private:
  explicit Environment(napi_env env) : env_(env) {}
  ~Environment();

  napi_env env_;
  double* data_ = nullptr;  // kept alive by records_
  napi_ref records_ = nullptr;
  napi_ref error_factory_ = nullptr;
  std::string scratch_;
};

}  // namespace saqiya::node

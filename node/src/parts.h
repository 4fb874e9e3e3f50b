// What several rules say, and their tickets. JavaScript gives the room, a Uint8Array of
// kPartSize bytes for each rule: first a saqiya_decision of each, then a saqiya_ticket of each. It
// keeps the bytes and hands them back with a refund; only the addon looks into them.
//
// Whoever submits a request to a queue keeps its room until the completion, or until the request
// was cancelled or the queue closed: the queue writes into it.
#pragma once

#include "arguments.h"

namespace saqiya::node {

inline constexpr std::size_t kPartSize = sizeof(saqiya_decision) + sizeof(saqiya_ticket);

struct Parts {
  std::size_t count = 0;
  saqiya_decision* decisions = nullptr;
  saqiya_ticket* tickets = nullptr;
};

bool read_parts(Environment& environment, napi_value value, Parts* parts);
// To be written by a check: with no tickets yet.
bool read_room(Environment& environment, napi_value value, std::size_t rules, Parts* parts);

// The operations on a charge, as JavaScript names them: a saqiya_op, or kRelease, which is a refund
// of leases alone.
inline constexpr std::uint32_t kRelease = 16;

// The tickets of a limiter's decision: copies, since a ticket of a single rule travels as numbers,
// and a release leaves out some.
struct Tickets {
  std::size_t count = 0;
  saqiya_ticket own[SAQIYA_MAX_RULES];
  saqiya_ticket* origin = nullptr;  // of those in parts, else null

  // Marks as spent in the parts what the call has marked here.
  void write_back() const;
};

// The arguments from value on: q, r, n, cost, epoch high, epoch low of a record, or parts, the
// index of the first ticket and the number of tickets.
inline constexpr std::size_t kTicketArguments = kTicketEpochLow - kTicketQ + 1;
bool read_tickets(Environment& environment, const napi_value* value, std::size_t rules,
                  std::uint32_t op, Tickets* tickets);

// unpack(parts, index): puts the decision of one rule into record 0.
napi_value unpack(napi_env env, napi_callback_info info);

}  // namespace saqiya::node

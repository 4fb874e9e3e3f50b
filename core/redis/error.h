// Error replies, told as reasons.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/decision.h"
#include "core/redis/config.h"

namespace saqiya::redis {

// What a server of a cluster says of a request that is not its to answer; nothing of it ran.
enum class Redirect : std::uint8_t {
  kNone,
  kMoved,  // another server has the slot
  kAsk,    // the slot is moving, and this key has gone ahead
  kLater,  // TRYAGAIN, CLUSTERDOWN: for now nobody can answer
};

struct ErrorClass {
  Reason reason = Reason::kProtocol;
  bool no_script = false;   // the script is not loaded; nothing ran
  bool no_evalsha = false;  // EVALSHA itself is forbidden; nothing ran
  bool out_of_range =
      false;  // the server's clock is in none of the calendar windows that were sent
  // This connection will not do: the server is a replica now, cannot serve anyone at the moment, or
  // does not know us any more.
  bool leave = false;
  Redirect redirect = Redirect::kNone;
};

// text: an error reply without its '-', of a whole command or of one request within a batch.
ErrorClass classify_error(std::string_view text);

// "MOVED 866 127.0.0.1:7001", "ASK ...": where to. An empty host means the server that said it.
// False when there is no such place.
bool redirect_place(std::string_view text, Place* place);

}  // namespace saqiya::redis

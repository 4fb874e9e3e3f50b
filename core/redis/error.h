// Error replies, told as reasons.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/decision.h"

namespace saqiya::redis {

struct ErrorClass {
  Reason reason = Reason::kProtocol;
  bool no_script = false;   // the script is not loaded; nothing ran
  bool no_evalsha = false;  // EVALSHA itself is forbidden; nothing ran
  bool out_of_range =
      false;  // the server's clock is in none of the calendar windows that were sent
  // This connection will not do: the server is a replica now, or does not know us any more.
  bool leave = false;
};

// text: an error reply without its '-', of a whole command or of one request within a batch.
ErrorClass classify_error(std::string_view text);

}  // namespace saqiya::redis

// What is answered in this process, before a request waits for a server; and what is learned from
// servers' answers for that.
#pragma once

#include <string>
#include <string_view>

#include "core/redis/batch.h"
#include "core/redis/config.h"
#include "core/store.h"

namespace saqiya::redis {

// To be asked once for every request, as the caller stated it (not of an unlimited limiter). True
// when the server need not be asked: *answer, which is default, is filled in. May throw
// std::bad_alloc.
bool answer_here(const Config& config, const Request& request, Answer* answer);

// What a server is called in events: "host:port", or a socket's path.
std::string name_of(const Place& place);

// After the server has answered a call, or failed to. keys: of the call. flushed_at: when it was
// sent, at the latest.
void learn(const Config& config, const Call& call, std::string_view keys, const Answer& answer,
           Micros server_now, Micros flushed_at);

// The answer to a call that the server did not answer; *answer is default. keys: of the call.
void answer_without_server(const Config& config, const Call& call, std::string_view keys,
                           Reason reason, Answer* answer);

}  // namespace saqiya::redis

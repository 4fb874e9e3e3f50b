// The URLs of Redis stores:
//
//   redis://[[user][:password]@]host[:port][/database]                          rediss://: over TLS
//   unix://[[user][:password]@]/path/to/socket
//   redis+sentinel://[login@]host[:port][,host[:port]...]/master[/database]     rediss+sentinel://
//   redis+cluster://[login@]host[:port][,host[:port]...]                        rediss+cluster://
//
// and behind each `?name=value&...`: client_name; db (unix); ca, cert, key, server_name, verify
// (with TLS); sentinel_user, sentinel_password (sentinel). All parts but the scheme may be
// percent-encoded.
#pragma once

#include <string>
#include <string_view>

#include "core/redis/config.h"

namespace saqiya::redis {

// Empty when all is well, else what is wrong: one line that never quotes the URL, which may hold a
// password, but names the parameter that it is about.
std::string parse_url(std::string_view url, Endpoint* endpoint);

}  // namespace saqiya::redis

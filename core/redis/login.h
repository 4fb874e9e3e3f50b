// Words that the server and the sentinels have in common.
#pragma once

#include <string>
#include <string_view>

#include "core/redis/endpoint.h"

namespace saqiya::redis {

// Appends AUTH. False, and nothing appended, when there is no password.
bool append_auth(const Login& login, std::string* out);

// Which error a reply is, as "WRONGPASS"; the rest of its text may quote what we sent, passwords
// included, and is never repeated.
std::string error_code(std::string_view text);

}  // namespace saqiya::redis

// The access rules of docs/redis.md, word for word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace saqiya::testing {

// The line of an ACL file that makes the user of the documentation's n-th ACL SETUSER: 0 of a
// single server, 1 of a sentinel, 2 of a cluster. Its password is "secret".
std::string documented_user(std::size_t n);

// Lines of an ACL file with that user, and one for the tests' own looks behind its back.
std::vector<std::string> documented_acl(std::size_t n);

inline constexpr std::string_view kDocumentedLogin = "saqiya:secret@";

}  // namespace saqiya::testing

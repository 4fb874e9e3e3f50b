#include "tests/redis/least_rights.h"

#include <fstream>
#include <stdexcept>

namespace saqiya::testing {

std::string documented_user(std::size_t n) {
  constexpr std::string_view kCommand = "ACL SETUSER ";
  constexpr std::string_view kPassword = ">PASSWORD";
  std::ifstream file(SAQIYA_DOCS "/redis.md");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(kCommand, 0) != 0 || n-- > 0) continue;
    line.erase(0, kCommand.size());
    line.replace(line.find(kPassword), kPassword.size(), ">secret");
    return "user " + line;
  }
  throw std::runtime_error("docs/redis.md has no such access rules");
}

std::vector<std::string> documented_acl(std::size_t n) {
  return {"user default on nopass ~* &* +@all", documented_user(n)};
}

}  // namespace saqiya::testing

#include "core/redis/login.h"

#include <algorithm>
#include <array>

#include "core/redis/resp.h"

namespace saqiya::redis {

bool append_auth(const Login& login, std::string* out) {
  if (!login.has_password) return false;
  if (login.user.empty()) {
    append_command(std::array<std::string_view, 2>{"AUTH", login.password}, out);
  } else {
    append_command(std::array<std::string_view, 3>{"AUTH", login.user, login.password}, out);
  }
  return true;
}

std::string error_code(std::string_view text) {
  const std::string_view code = text.substr(0, text.find(' '));
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (code.empty() || code.size() > 16 || !std::all_of(code.begin(), code.end(), is_capital)) {
    return "an error";
  }
  return std::string(code);
}

}  // namespace saqiya::redis

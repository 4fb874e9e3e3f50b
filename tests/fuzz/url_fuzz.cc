// Store URLs: opened (without a connection) or refused with a message; a message never holds a
// password.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/store.h"

namespace {

void require(bool holds, const char* what, std::string_view text) {
  if (holds) return;
  std::fprintf(stderr, "%s: \"%.*s\"\n", what, static_cast<int>(text.size()), text.data());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The password, if there is one, is made unmistakable.
  static constexpr std::string_view kPassword = "pA55w0rd";
  std::string url(text);
  const std::size_t at = url.find('@');
  const std::size_t colon = at == std::string::npos ? at : url.rfind(':', at);
  if (colon != std::string::npos) url.replace(colon + 1, at - colon - 1, kPassword);
  for (const std::string& each : {std::string(text), url}) {
    saqiya::StoreOptions options;
    options.max_keys = 100;
    saqiya::OpenError wrong;
    const auto store = saqiya::open_store(each, options, &wrong);
    const std::string& error = wrong.message;
    require((store == nullptr) == !error.empty(), "a store and an error, or neither", each);
    require(error.find(kPassword) == std::string::npos, "the message tells the password", each);
    require(error.find('\n') == std::string::npos, "the message is not one line", each);
  }
  return 0;
}

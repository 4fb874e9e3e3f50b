#include "core/redis/error.h"

namespace saqiya::redis {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

ErrorClass leave(Reason reason) { return {.reason = reason, .leave = true}; }

}  // namespace

ErrorClass classify_error(std::string_view text) {
  const std::string_view code = text.substr(0, text.find(' '));
  if (code == "NOSCRIPT") return {.reason = Reason::kRefused, .no_script = true};
  if (code == "LOADING" || code == "BUSY" || code == "CLUSTERDOWN" || code == "TRYAGAIN" ||
      code == "MOVED" || code == "ASK" || code == "CROSSSLOT" || code == "NOREPLICAS" ||
      code == "MISCONF") {
    return {.reason = Reason::kRefused};
  }
  if (code == "MASTERDOWN") return leave(Reason::kRefused);
  if (code == "READONLY") return leave(Reason::kReadOnly);
  if (code == "NOAUTH" || code == "WRONGPASS" || code == "DENIED") return leave(Reason::kAuth);
  if (code == "OOM") return {.reason = Reason::kServerMemory};
  if (code == "WRONGTYPE" || code == "SAQIYACORRUPT") return {.reason = Reason::kCorrupt};
  if (code == "SAQIYARANGE") return {.reason = Reason::kProtocol, .out_of_range = true};
  if (code == "NOPERM") {
    // 7.0: "... to run the 'evalsha' command"; only then is EVAL worth a try.
    return {.reason = Reason::kPermission, .no_evalsha = contains(text, "'evalsha'")};
  }
  // Inside a script these come as a plain ERR.
  if (contains(text, "can't run this command") || contains(text, "can't access at least one of")) {
    return {.reason = Reason::kPermission};
  }
  // Before it has seen a password a server takes no argument as long as our script.
  if (contains(text, "unauthenticated")) return leave(Reason::kAuth);
  if (contains(text, "max number of clients")) return leave(Reason::kRefused);
  return {.reason = Reason::kProtocol};
}

}  // namespace saqiya::redis

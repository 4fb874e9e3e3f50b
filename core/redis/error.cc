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
  if (code == "MOVED") return {.reason = Reason::kRefused, .redirect = Redirect::kMoved};
  if (code == "ASK") return {.reason = Reason::kRefused, .redirect = Redirect::kAsk};
  if (code == "TRYAGAIN" || code == "CLUSTERDOWN") {
    return {
        .reason = Reason::kRefused, .leave = code == "CLUSTERDOWN", .redirect = Redirect::kLater};
  }
  if (code == "CROSSSLOT" || code == "NOREPLICAS" || code == "MISCONF") {
    return {.reason = Reason::kRefused};
  }
  if (code == "LOADING" || code == "BUSY" || code == "MASTERDOWN") return leave(Reason::kRefused);
  if (code == "READONLY") return leave(Reason::kReadOnly);
  if (code == "NOAUTH" || code == "WRONGPASS" || code == "DENIED") return leave(Reason::kAuth);
  if (code == "OOM") return {.reason = Reason::kServerMemory};
  if (code == "WRONGTYPE" || code == "SAQIYACORRUPT") return {.reason = Reason::kCorrupt};
  if (code == "SAQIYARANGE") return {.reason = Reason::kProtocol, .out_of_range = true};
  if (code == "NOPERM") {
    // 7.0: "... to run the 'evalsha' command"; only then is EVAL worth a try.
    return {.reason = Reason::kPermission, .no_evalsha = contains(text, "'evalsha'")};
  }
  // Inside a script these come as a plain ERR; since Redis 7.2 in other words.
  if (contains(text, "ACL failure in script") || contains(text, "can't run this command") ||
      contains(text, "can't access at least one of")) {
    return {.reason = Reason::kPermission};
  }
  // Before it has seen a password a server takes no argument as long as our script.
  if (contains(text, "unauthenticated")) return leave(Reason::kAuth);
  if (contains(text, "max number of clients")) return leave(Reason::kRefused);
  return {.reason = Reason::kProtocol};
}

bool redirect_place(std::string_view text, Place* place) {
  const std::string_view address = text.substr(text.rfind(' ') + 1);
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return false;
  const std::uint16_t port = parse_port(address.substr(colon + 1));
  if (port == 0) return false;
  if (address.substr(0, colon) == "?") return false;  // it does not know its own name
  *place = Place{};
  place->host = address.substr(0, colon);
  place->port = port;
  return true;
}

}  // namespace saqiya::redis

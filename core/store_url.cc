// Store URLs:
//   memory://
//   redis://[[user][:password]@]host[:port][/database]
//   unix://[[user][:password]@]/path/to/socket[?db=N]
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "core/fork.h"
#include "core/key.h"
#include "core/memory_store.h"
#include "core/redis/pool.h"
#include "core/redis/store.h"
#include "core/store.h"

namespace saqiya {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Nothing when a '%' is not followed by two hex digits.
std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

// Decimal digits only, at most `most`.
std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t most) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stop != end || number > most) return std::nullopt;
  return number;
}

// What is said about a URL never quotes it: it may hold a password.
constexpr const char* kBadUser = "the user or password of the store URL is malformed";
constexpr const char* kBadDatabase =
    "the database of the store URL must be a number, 0 to 2147483647";

// Cuts "[user][:password]@" off the front.
const char* take_login(std::string_view* rest, redis::Endpoint* endpoint) {
  // The last '@' before the path: a password pasted without encoding may hold others.
  const std::size_t at = rest->substr(0, rest->find('/')).rfind('@');
  if (at == std::string_view::npos) return nullptr;
  const std::string_view login = rest->substr(0, at);
  rest->remove_prefix(at + 1);
  const std::size_t colon = login.find(':');
  const auto user = percent_decode(login.substr(0, colon));
  if (!user) return kBadUser;
  endpoint->user = *user;
  if (colon == std::string_view::npos) {
    return user->empty() ? nullptr : "the store URL has a user but no password";
  }
  const auto password = percent_decode(login.substr(colon + 1));
  if (!password) return kBadUser;
  endpoint->password = *password;
  endpoint->has_password = !password->empty() || !user->empty();
  return nullptr;
}

const char* parse_redis(std::string_view rest, redis::Endpoint* endpoint) {
  if (rest.find_first_of("?#") != std::string_view::npos) {
    return "a redis:// URL has no '?' or '#' part; encode them in passwords as %3F and %23";
  }
  if (const char* problem = take_login(&rest, endpoint)) return problem;
  const std::size_t slash = rest.find('/');
  std::string_view place = rest.substr(0, slash);
  const std::string_view database =
      slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  std::string_view host;
  if (!place.empty() && place.front() == '[') {
    const std::size_t close = place.find(']');
    if (close == std::string_view::npos) return "the store URL lacks a ']' after the address";
    host = place.substr(1, close - 1);
    place.remove_prefix(close + 1);
    if (!place.empty() && place.front() != ':') {
      return "the store URL has something other than ':port' after the address";
    }
  } else {
    const std::size_t colon = place.find(':');
    host = place.substr(0, colon);
    place.remove_prefix(host.size());
    if (place.find(':', 1) != std::string_view::npos) {
      return "an IPv6 address in a store URL stands in brackets: redis://[::1]:6379";
    }
  }
  const auto decoded = percent_decode(host);
  if (!decoded || decoded->empty() || decoded->find('\0') != std::string::npos) {
    return "the store URL lacks a host";
  }
  endpoint->host = *decoded;
  if (!place.empty()) {
    const auto port = parse_number(place.substr(1), 65535);
    if (!port || *port == 0) return "the port of the store URL must be a number, 1 to 65535";
    endpoint->port = static_cast<std::uint16_t>(*port);
  }
  if (!database.empty()) {
    const auto number = parse_number(database, 2147483647);
    if (!number) return kBadDatabase;
    endpoint->database = *number;
  }
  return nullptr;
}

const char* parse_unix(std::string_view rest, redis::Endpoint* endpoint) {
  endpoint->local = true;
  if (const char* problem = take_login(&rest, endpoint)) return problem;
  const std::size_t question = rest.find('?');
  const auto path = percent_decode(rest.substr(0, question));
  if (!path || path->empty() || path->front() != '/' || path->find('\0') != std::string::npos) {
    return "a unix:// URL needs an absolute path: unix:///run/redis/redis.sock";
  }
  if (path->size() > 107) return "the path of a Unix socket is at most 107 bytes long";
  endpoint->path = *path;
  if (question == std::string_view::npos) return nullptr;
  const std::string_view query = rest.substr(question + 1);
  if (query.substr(0, 3) != "db=") return "the only parameter of a unix:// URL is db";
  const auto number = parse_number(query.substr(3), 2147483647);
  if (!number) return kBadDatabase;
  endpoint->database = *number;
  return nullptr;
}

// Null when every option is in its range, else what is wrong.
const char* check_options(const StoreOptions& options) {
  if (options.max_keys < 1 || options.max_keys > (std::uint64_t{1} << 40)) {
    return "max_keys must be 1 to 2^40";
  }
  if (options.deadline < 1'000 || options.deadline > 3'600'000'000) {
    return "the deadline must be 1,000 to 3,600,000,000 microseconds";
  }
  if (options.prefix.size() > 64 || options.prefix.find_first_of("{}") != std::string::npos) {
    return "the key prefix must be at most 64 bytes and hold no braces";
  }
  if (options.secret.size() > 1024) return "the secret must be at most 1,024 bytes";
  if (options.connections < 1 || options.connections > redis::kMaxConnections) {
    return "connections must be 1 to 64";
  }
  return nullptr;
}

std::shared_ptr<Store> fail(OpenFault fault, const char* message, OpenError* error) {
  *error = {fault, message};
  return nullptr;
}

}  // namespace

std::shared_ptr<Store> open_store(std::string_view url, const StoreOptions& options,
                                  OpenError* error) {
  if (const char* problem = check_options(options)) {
    return fail(OpenFault::kOption, problem, error);
  }
  if (!watch_forks() || !prepare_digests()) {
    return fail(OpenFault::kSystem, "the process has too little memory to open a store", error);
  }
  if (url == "memory://") {
    std::shared_ptr<Store> store = make_memory_store(options);
    if (store != nullptr) return store;
    return fail(OpenFault::kSystem, "the operating system gave no random bytes", error);
  }
  redis::Endpoint endpoint;
  const char* problem = "a store URL begins with memory://, redis:// or unix://";
  constexpr std::string_view kRedis = "redis://";
  constexpr std::string_view kUnix = "unix://";
  if (url.substr(0, kRedis.size()) == kRedis) {
    problem = parse_redis(url.substr(kRedis.size()), &endpoint);
  } else if (url.substr(0, kUnix.size()) == kUnix) {
    problem = parse_unix(url.substr(kUnix.size()), &endpoint);
  } else if (url.substr(0, 9) == "memory://") {
    problem = "nothing follows memory:// in a store URL";
  }
  if (problem != nullptr) return fail(OpenFault::kUrl, problem, error);
  if (options.clock != nullptr && !options.testing) {
    return fail(OpenFault::kOption,
                "a Redis store uses the server's clock; a manual clock needs the testing flag",
                error);
  }
  return redis::make_redis_store(std::move(endpoint), options);
}

}  // namespace saqiya

#include "core/redis/url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

namespace saqiya::redis {
namespace {

using Topology = Endpoint::Topology;

struct Scheme {
  std::string_view name;
  Topology topology;
  bool local;
  bool tls;
};

constexpr std::array<Scheme, 7> kSchemes{{
    {"redis://", Topology::kSingle, false, false},
    {"rediss://", Topology::kSingle, false, true},
    {"unix://", Topology::kSingle, true, false},
    {"redis+sentinel://", Topology::kSentinel, false, false},
    {"rediss+sentinel://", Topology::kSentinel, false, true},
    {"redis+cluster://", Topology::kCluster, false, false},
    {"rediss+cluster://", Topology::kCluster, false, true},
}};

constexpr std::uint16_t kPort = 6379;
constexpr std::uint16_t kSentinelPort = 26379;
constexpr std::size_t kMaxHosts = 64;
constexpr std::uint32_t kMaxDatabase = 2147483647;

const Scheme* find_scheme(std::string_view url) {
  for (const Scheme& scheme : kSchemes) {
    if (url.substr(0, scheme.name.size()) == scheme.name) return &scheme;
  }
  return nullptr;
}

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

// As percent_decode(), and nothing when it is empty or holds control characters: for what becomes
// a C string, a file name, or part of a message.
std::optional<std::string> decode_name(std::string_view text) {
  auto name = percent_decode(text);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (!name || name->empty() || std::any_of(name->begin(), name->end(), is_control)) {
    return std::nullopt;
  }
  return name;
}

// Decimal digits only, at most `most`.
std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t most) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || stop != end || number > most) return std::nullopt;
  return number;
}

// Cuts off what stands before the first `end`, and that; without one: all of it.
std::string_view take_until(char end, std::string_view* rest) {
  const std::size_t at = std::min(rest->find(end), rest->size());
  const std::string_view taken = rest->substr(0, at);
  rest->remove_prefix(std::min(at + 1, rest->size()));
  return taken;
}

constexpr const char* kBadUser = "the user or password of the store URL is malformed";
constexpr const char* kBadDatabase =
    "the database of the store URL must be a number, 0 to 2147483647";
constexpr const char* kNotEncoded =
    "the store URL has a '#', or an '@' in an unusual place; in a password '#', '/', '?' and '@' "
    "are written %23, %2F, %3F and %40";

class Parser {
 public:
  Parser(const Scheme& scheme, Endpoint* endpoint) : scheme_(scheme), endpoint_(*endpoint) {}

  std::string parse(std::string_view rest);

 private:
  const char* login(std::string_view* authority);
  const char* host(std::string_view text);
  const char* hosts(std::string_view text);
  const char* socket(std::string_view path);
  const char* database(std::string_view text);
  const char* path(std::string_view text);
  std::string parameters(std::string_view text);
  std::string parameter(std::string_view name, std::string_view value);
  std::string together();

  bool is(Topology topology) const { return scheme_.topology == topology; }

  const Scheme& scheme_;
  Endpoint& endpoint_;
  bool has_sentinel_password_ = false;
};

// "[user][:password]@" off the front.
const char* Parser::login(std::string_view* authority) {
  // The last '@': a password pasted without encoding may hold others.
  const std::size_t at = authority->rfind('@');
  if (at == std::string_view::npos) return nullptr;
  std::string_view password = authority->substr(0, at);
  authority->remove_prefix(at + 1);
  const bool has_colon = password.find(':') != std::string_view::npos;
  const auto user = percent_decode(take_until(':', &password));
  const auto decoded = percent_decode(password);
  if (!user || !decoded) return kBadUser;
  if (!has_colon && !user->empty()) return "the store URL has a user but no password";
  endpoint_.login.user = *user;
  endpoint_.login.password = *decoded;
  endpoint_.login.has_password = !decoded->empty() || !user->empty();
  return nullptr;
}

// "name:port", "1.2.3.4", "[::1]:port"
const char* Parser::host(std::string_view text) {
  std::string_view name;
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return "the store URL lacks a ']' after the address";
    name = text.substr(1, close - 1);
    text.remove_prefix(close + 1);
    if (!text.empty() && text.front() != ':') {
      return "the store URL has something other than ':port' after the address";
    }
  } else {
    name = text.substr(0, text.find(':'));
    text.remove_prefix(name.size());
    if (text.find(':', 1) != std::string_view::npos) {
      return "an IPv6 address in a store URL stands in brackets: redis://[::1]:6379";
    }
  }
  const auto decoded = decode_name(name);
  if (!decoded) return "the store URL lacks a host";
  if (decoded->size() > 255) return "a host of the store URL is longer than 255 bytes";
  Place place;
  place.host = *decoded;
  place.port = is(Topology::kSentinel) ? kSentinelPort : kPort;
  if (!text.empty()) {
    place.port = parse_port(text.substr(1));
    if (place.port == 0) return "the port of the store URL must be a number, 1 to 65535";
  }
  endpoint_.places.push_back(std::move(place));
  return nullptr;
}

const char* Parser::hosts(std::string_view text) {
  const bool several = text.find(',') != std::string_view::npos;
  if (several && is(Topology::kSingle)) {
    return "several hosts are for redis+sentinel:// and redis+cluster:// URLs";
  }
  bool more = true;
  while (more) {
    if (endpoint_.places.size() == kMaxHosts) return "the store URL has more than 64 hosts";
    more = text.find(',') != std::string_view::npos;
    if (const char* problem = host(take_until(',', &text))) return problem;
  }
  return nullptr;
}

const char* Parser::socket(std::string_view path) {
  const auto decoded = decode_name(path);
  if (!decoded || decoded->front() != '/') {
    return "a unix:// URL needs an absolute path: unix:///run/redis/redis.sock";
  }
  if (decoded->size() > 107) return "the path of a Unix socket is at most 107 bytes long";
  Place place;
  place.local = true;
  place.path = *decoded;
  endpoint_.places.push_back(std::move(place));
  return nullptr;
}

const char* Parser::database(std::string_view text) {
  const auto number = parse_number(text, kMaxDatabase);
  if (!number) return kBadDatabase;
  endpoint_.database = *number;
  return nullptr;
}

// What stands behind the host's '/'.
const char* Parser::path(std::string_view text) {
  if (text.find('@') != std::string_view::npos) return kNotEncoded;
  if (is(Topology::kSentinel)) {
    const auto master = decode_name(take_until('/', &text));
    if (!master || master->size() > 255) {
      return "a sentinel URL needs the name of the master: redis+sentinel://host:26379/mymaster";
    }
    endpoint_.master = *master;
  }
  if (is(Topology::kCluster) && !text.empty() && text != "0") {
    return "a cluster has no databases: nothing follows the hosts of its URL";
  }
  return text.empty() ? nullptr : database(text);
}

std::string Parser::parameter(std::string_view name, std::string_view value) {
  const std::string quoted = "the parameter " + std::string(name) + " of the store URL ";
  const auto text = decode_name(value);
  std::string* into = nullptr;
  bool fits = true;
  std::size_t longest = 4095;
  if (name == "client_name") {
    into = &endpoint_.client_name;
    longest = 64;
    const auto is_plain = [](char c) { return c > ' ' && c < 0x7f; };
    if (!text || !std::all_of(text->begin(), text->end(), is_plain)) {
      return quoted + "must be printable ASCII without spaces";
    }
  } else if (name == "db") {
    fits = scheme_.local;
    if (fits) return database(value) == nullptr ? "" : kBadDatabase;
  } else if (name == "ca" || name == "cert" || name == "key" || name == "server_name") {
    fits = scheme_.tls;
    into = name == "ca"     ? &endpoint_.tls.ca
           : name == "cert" ? &endpoint_.tls.cert
           : name == "key"  ? &endpoint_.tls.key
                            : &endpoint_.tls.server_name;
    if (name == "server_name") longest = 255;
  } else if (name == "verify") {
    fits = scheme_.tls;
    if (fits && value != "yes" && value != "no") return quoted + "must be yes or no";
    if (fits) endpoint_.tls.verify = value == "yes";
  } else if (name == "sentinel_user") {
    fits = is(Topology::kSentinel);
    into = &endpoint_.sentinel_login.user;
  } else {  // sentinel_password; as the other password it may hold any byte, or none
    fits = is(Topology::kSentinel);
    const auto password = percent_decode(value);
    if (fits && !password) return quoted + "is malformed";
    if (fits) endpoint_.sentinel_login.password = *password;
    if (fits) has_sentinel_password_ = true;
  }
  if (!fits) return quoted + "is not for this kind of URL";
  if (into == nullptr) return {};
  if (!text) return quoted + "is empty or malformed";
  if (text->size() > longest) return quoted + "is too long";
  *into = *text;
  return {};
}

std::string Parser::parameters(std::string_view text) {
  static constexpr std::array<std::string_view, 9> kNames{
      "client_name",      "db", "ca", "cert", "key", "server_name", "verify", "sentinel_user",
      "sentinel_password"};
  std::array<bool, kNames.size()> seen{};
  // Part of a password may stand where a name should: such a text is not repeated.
  const bool secretive = text.find("password") != std::string_view::npos;
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  bool more = !text.empty();
  while (more) {
    more = text.find('&') != std::string_view::npos;
    std::string_view value = take_until('&', &text);
    const std::string_view name = value.substr(0, value.find('='));
    const auto known = std::find(kNames.begin(), kNames.end(), name);
    if (known == kNames.end()) {
      if (secretive || name.empty() || name.size() > 32 ||
          !std::all_of(name.begin(), name.end(), is_word)) {
        return "the store URL has a parameter that is not known; in values '&' is written %26";
      }
      return "the store URL has the parameter " + std::string(name) + ", which is not known";
    }
    bool& before = seen[static_cast<std::size_t>(known - kNames.begin())];
    if (before) return "the store URL has the parameter " + std::string(name) + " twice";
    before = true;
    value.remove_prefix(std::min(name.size() + 1, value.size()));
    std::string problem = parameter(name, value);
    if (!problem.empty()) return problem;
  }
  return together();
}

// What only several parameters together can get wrong.
std::string Parser::together() {
  if (endpoint_.tls.cert.empty() != endpoint_.tls.key.empty()) {
    return "the parameters cert and key of the store URL go together";
  }
  Login& login = endpoint_.sentinel_login;
  login.has_password = has_sentinel_password_ && (!login.user.empty() || !login.password.empty());
  if (!login.user.empty() && !has_sentinel_password_) {
    return "the parameter sentinel_user of the store URL needs sentinel_password beside it";
  }
  return {};
}

std::string Parser::parse(std::string_view rest) {
  endpoint_.topology = scheme_.topology;
  endpoint_.tls.on = scheme_.tls;
  std::string_view query = rest;
  rest = take_until('?', &query);
  if (rest.find('#') != std::string_view::npos ||
      query.find_first_of("#@") != std::string_view::npos) {
    return kNotEncoded;
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  rest.remove_prefix(slash);
  const char* problem = login(&authority);
  if (problem == nullptr && scheme_.local) {
    if (!authority.empty()) rest = {};  // then the path is not absolute
    problem = socket(rest);
  } else if (problem == nullptr) {
    problem = hosts(authority);
    if (problem == nullptr) problem = path(rest.substr(std::min<std::size_t>(1, rest.size())));
  }
  return problem != nullptr ? problem : parameters(query);
}

}  // namespace

std::string parse_url(std::string_view url, Endpoint* endpoint) {
  const Scheme* const scheme = find_scheme(url);
  if (scheme == nullptr) {
    return "a store URL begins with memory://, redis://, rediss://, unix://, redis+sentinel:// or "
           "redis+cluster://";
  }
  return Parser(*scheme, endpoint).parse(url.substr(scheme->name.size()));
}

}  // namespace saqiya::redis

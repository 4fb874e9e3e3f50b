// Where the servers of a store are and how to log in: what its URL says (url.h).
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace saqiya::redis {

// One server's address.
struct Place {
  bool local = false;  // a Unix socket at `path`, else TCP to host:port
  std::string host;    // without brackets
  std::uint16_t port = 6379;
  std::string path;

  bool operator==(const Place&) const = default;
};

// Decimal digits only; 0: not a port.
inline std::uint16_t parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && stop == end ? port : 0;
}

struct Login {
  bool has_password = false;
  std::string user;  // empty: the default user
  std::string password;
};

// Paths are read at the first connection, not before. Empty: the system's authorities, no
// certificate of our own, the host's name as the URL has it.
struct Tls {
  bool on = false;
  std::string ca;
  std::string cert;
  std::string key;
  std::string server_name;
  bool verify = true;
};

// Where the servers are and how to log in.
struct Endpoint {
  enum class Topology { kSingle, kSentinel, kCluster };

  Topology topology = Topology::kSingle;
  std::vector<Place> places;  // at least one: the server, the sentinels, some of a cluster's nodes
  std::string master;         // kSentinel: the name that the sentinels know it by
  Login login;
  Login sentinel_login;
  std::uint32_t database = 0;
  std::string client_name;
  Tls tls;
};

}  // namespace saqiya::redis

// Throw-away certificates, made once per process by the openssl command. All are files.
#pragma once

#include <string>

namespace saqiya::testing {

struct KeyPair {
  std::string certificate;
  std::string key;
};

struct Certificates {
  std::string ca;        // who signed those below
  std::string other_ca;  // who signed nothing
  KeyPair server;        // for localhost and 127.0.0.1
  KeyPair client;
  KeyPair elsewhere;  // for another.example only
};

const Certificates& certificates();

}  // namespace saqiya::testing

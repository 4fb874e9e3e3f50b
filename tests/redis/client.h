// A plain client of a server, to look behind saqiya's back. It waits 20 s for a reply, then throws.
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace saqiya::testing {

// What the plain client got: one of text, number, list. Errors are texts with `error` set.
struct Value {
  bool nil = false;
  bool error = false;
  std::int64_t number = 0;
  std::string text;
  std::vector<Value> list;
};

class Client {
 public:
  explicit Client(const std::string& socket_path);
  // On the loopback.
  explicit Client(std::uint16_t port);
  Value operator()(std::initializer_list<std::string_view> words) {
    return (*this)(std::vector<std::string>(words.begin(), words.end()));
  }
  Value operator()(const std::vector<std::string>& words);
  std::string text(std::initializer_list<std::string_view> words) { return (*this)(words).text; }
  std::int64_t number(std::initializer_list<std::string_view> words) {
    return (*this)(words).number;
  }
  // A field of INFO, as text.
  std::string info(std::string_view field);
  std::vector<std::string> keys();
  // The server's TIME in microseconds.
  std::int64_t time();

 private:
  explicit Client(redisContext* context);

  std::unique_ptr<redisContext, void (*)(redisContext*)> context_;
};

}  // namespace saqiya::testing

// The wire format (RESP2). Commands are appended to strings; replies are read by hiredis's reader
// into a flat list, without an allocation per element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct redisReader;

namespace saqiya::redis {

// "$3\r\nabc\r\n"
void append_bulk(std::string_view text, std::string* out);
// The number as a bulk string: "$2\r\n42\r\n".
void append_bulk(std::int64_t number, std::string* out);
// Takes the first of bulk strings that lie end to end off the front; they are ours, so well-formed.
std::string_view take_bulk(std::string_view* bulks);
// "*<count>\r\n"
void append_array_head(std::size_t count, std::string* out);
// A whole command, for the handshake.
void append_command(std::span<const std::string_view> words, std::string* out);

struct ReplyItem {
  enum Kind : std::uint8_t { kInteger, kText, kError, kNil, kArray };
  Kind kind = kNil;
  std::int64_t number = 0;  // kInteger: the value; kArray: how many elements
  std::uint32_t at = 0;     // kText, kError: place in the reply's text
  std::uint32_t length = 0;
};

// One reply in order of appearance: an array is its head, then its elements.
class Reply {
 public:
  std::span<const ReplyItem> items() const { return items_; }
  const ReplyItem& root() const { return items_.front(); }
  std::string_view text(const ReplyItem& item) const {
    return std::string_view(text_).substr(item.at, item.length);
  }

 private:
  friend class ReplyReader;
  std::vector<ReplyItem> items_;
  std::string text_;
};

// Bytes in, replies out. Bounded: a reply larger than any of ours is an error, and an error stays.
class ReplyReader {
 public:
  enum class Result { kReply, kMore, kError };

  ReplyReader();
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // False when the bytes were refused.
  bool feed(const char* data, std::size_t size);
  // The next reply may be as large as a map of a cluster.
  void expect_map(bool map) { map_ = map; }
  // kReply: reply() holds it until the next call.
  Result next();
  const Reply& reply() const { return reply_; }

 private:
  struct Events;  // hiredis's callbacks

  Reply reply_;
  bool complete_ = false;
  bool failed_ = false;
  bool map_ = false;
  redisReader* reader_;
};

}  // namespace saqiya::redis

#include "core/redis/resp.h"

#include <hiredis/hiredis.h>

#include <charconv>
#include <cstdlib>
#include <new>
#include <system_error>
#include <type_traits>

namespace saqiya::redis {
namespace {

// The largest reply of ours: 512 requests, each an error text of some 200 bytes.
constexpr std::size_t kMaxItems = 4096;
// A map of a cluster: some 20 for each range of slots that moves as one.
constexpr std::size_t kMaxMapItems = 200'000;
constexpr std::size_t kMaxMapText = std::size_t{1} << 22;
constexpr std::size_t kMaxText = std::size_t{1} << 18;
constexpr std::size_t kMaxBuffered = std::size_t{1} << 20;
constexpr std::size_t kMaxItemText = 512;  // longer ones are cut: only their beginning matters

void append_number(std::int64_t number, std::string* out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out->append(digits, static_cast<std::size_t>(end - digits));
}

}  // namespace

void append_bulk(std::string_view text, std::string* out) {
  out->push_back('$');
  append_number(static_cast<std::int64_t>(text.size()), out);
  out->append("\r\n", 2);
  out->append(text);
  out->append("\r\n", 2);
}

void append_bulk(std::int64_t number, std::string* out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  append_bulk(std::string_view(digits, static_cast<std::size_t>(end - digits)), out);
}

std::string_view take_bulk(std::string_view* bulks) {
  std::size_t size = 0;
  const char* const begin = bulks->data();
  const auto digits = std::from_chars(begin + 1, begin + bulks->size(), size);
  const auto head = static_cast<std::size_t>(digits.ptr - begin) + 2;
  const std::string_view bulk = bulks->substr(head, size);
  bulks->remove_prefix(head + size + 2);
  return bulk;
}

void append_array_head(std::size_t count, std::string* out) {
  out->push_back('*');
  append_number(static_cast<std::int64_t>(count), out);
  out->append("\r\n", 2);
}

void append_command(std::span<const std::string_view> words, std::string* out) {
  std::vector<const char*> text;
  std::vector<std::size_t> sizes;
  for (const std::string_view word : words) {
    text.push_back(word.data());
    sizes.push_back(word.size());
  }
  char* command = nullptr;
  const auto length =
      redisFormatCommandArgv(&command, static_cast<int>(words.size()), text.data(), sizes.data());
  if (length < 0) throw std::bad_alloc();
  const std::unique_ptr<char, void (*)(char*)> owner(command, [](char* p) {
#if HIREDIS_MAJOR >= 1
    redisFreeCommand(p);
#else
    std::free(p);
#endif
  });
  out->append(command, static_cast<std::size_t>(length));
}

// hiredis wants an object for every element and takes null for "out of memory"; ours is a mark.
struct ReplyReader::Events {
  static ReplyReader& self(const redisReadTask* task) {
    return *static_cast<ReplyReader*>(task->privdata);
  }

  // No exception may cross hiredis's frames; null makes it stop with an error.
  static void* add(const redisReadTask* task, const ReplyItem& item) noexcept {
    ReplyReader& reader = self(task);
    try {
      if (reader.reply_.items_.size() >= (reader.map_ ? kMaxMapItems : kMaxItems)) return nullptr;
      reader.reply_.items_.push_back(item);
    } catch (...) {
      return nullptr;
    }
    return task->privdata;
  }

  static void* text(const redisReadTask* task, char* data, std::size_t size) noexcept {
    std::string& text = self(task).reply_.text_;
    ReplyItem item;
    item.kind = task->type == REDIS_REPLY_ERROR ? ReplyItem::kError : ReplyItem::kText;
    item.at = static_cast<std::uint32_t>(text.size());
    item.length = static_cast<std::uint32_t>(size < kMaxItemText ? size : kMaxItemText);
    try {
      if (text.size() + item.length > (self(task).map_ ? kMaxMapText : kMaxText)) return nullptr;
      text.append(data, item.length);
    } catch (...) {
      return nullptr;
    }
    return add(task, item);
  }

  // The type of elements is int in hiredis 0.14, size_t in 1.x.
  template <typename Count>
  static void* array(const redisReadTask* task, Count elements) noexcept {
    ReplyItem item;
    item.kind = ReplyItem::kArray;
    item.number = static_cast<std::int64_t>(elements);
    return add(task, item);
  }

  static void* integer(const redisReadTask* task, long long value) noexcept {
    ReplyItem item;
    item.kind = ReplyItem::kInteger;
    item.number = value;
    return add(task, item);
  }

  static void* nil(const redisReadTask* task) noexcept { return add(task, ReplyItem{}); }

  static void free_object(void*) {}

  static redisReplyObjectFunctions* functions() {
    // The types that only RESP3 has stay null: hiredis 1.x then makes a mark of its own. Constant:
    // the guard of a static made at first use could be held when the process forks.
    static constinit redisReplyObjectFunctions functions = [] {
      redisReplyObjectFunctions f{};
      f.createString = text;
      f.createArray = array;
      f.createInteger = integer;
      f.createNil = nil;
      f.freeObject = free_object;
      return f;
    }();
    return &functions;
  }
};

ReplyReader::ReplyReader() : reader_(redisReaderCreateWithFunctions(Events::functions())) {
  if (reader_ == nullptr) throw std::bad_alloc();
  reader_->privdata = this;
}

ReplyReader::~ReplyReader() { redisReaderFree(reader_); }

bool ReplyReader::feed(const char* data, std::size_t size) {
  if (failed_ || reader_->len - reader_->pos + size > kMaxBuffered ||
      redisReaderFeed(reader_, data, size) != REDIS_OK) {
    failed_ = true;
  }
  return !failed_;
}

ReplyReader::Result ReplyReader::next() {
  if (complete_) {
    complete_ = false;
    reply_.items_.clear();
    reply_.text_.clear();
  }
  if (failed_) return Result::kError;
  void* done = nullptr;
  const int status = redisReaderGetReply(reader_, &done);
  if (status != REDIS_OK || failed_) {
    failed_ = true;
    return Result::kError;
  }
  if (done == nullptr) return Result::kMore;
  if (reply_.items_.empty()) {  // a type of RESP3, which was not asked for
    failed_ = true;
    return Result::kError;
  }
  complete_ = true;
  return Result::kReply;
}

}  // namespace saqiya::redis

#include "tests/redis/client.h"

#include <signal.h>
#include <sys/time.h>

#include "tests/redis/launch.h"

namespace saqiya::testing {
namespace {

constexpr timeval kPatience{20, 0};

Value to_value(const redisReply& reply) {
  Value value;
  switch (reply.type) {
    case REDIS_REPLY_NIL:
      value.nil = true;
      break;
    case REDIS_REPLY_INTEGER:
      value.number = reply.integer;
      break;
    case REDIS_REPLY_ARRAY:
      for (std::size_t i = 0; i < reply.elements; ++i) {
        value.list.push_back(to_value(*reply.element[i]));
      }
      break;
    default:
      value.error = reply.type == REDIS_REPLY_ERROR;
      value.text.assign(reply.str, static_cast<std::size_t>(reply.len));
  }
  return value;
}

// hiredis writes without MSG_NOSIGNAL; the handlers of the process are not touched.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{};
    while (sigtimedwait(&pipe_, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

}  // namespace

Client::Client(redisContext* context) : context_(context, redisFree) {
  if (context_ == nullptr || context_->err != 0) throw ConnectionLost("cannot connect");
  redisSetTimeout(context_.get(), kPatience);
}

Client::Client(const std::string& socket_path)
    : Client(redisConnectUnixWithTimeout(socket_path.c_str(), kPatience)) {}

Client::Client(std::uint16_t port)
    : Client(redisConnectWithTimeout("127.0.0.1", port, kPatience)) {}

Value Client::operator()(const std::vector<std::string>& words) {
  std::vector<const char*> text;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    text.push_back(word.data());
    sizes.push_back(word.size());
  }
  const NoSigpipe guard;
  const std::unique_ptr<redisReply, void (*)(void*)> reply(
      static_cast<redisReply*>(redisCommandArgv(context_.get(), static_cast<int>(text.size()),
                                                text.data(), sizes.data())),
      freeReplyObject);
  if (reply == nullptr) throw ConnectionLost("the server closed the plain connection");
  return to_value(*reply);
}

std::string Client::info(std::string_view field) {
  std::string all(1, '\n');
  all += text({"INFO", "everything"});
  std::string name(1, '\n');
  name.append(field).append(":");
  const std::size_t at = all.find(name);
  if (at == std::string::npos) return {};
  const std::size_t from = at + name.size();
  return all.substr(from, all.find_first_of("\r\n", from) - from);
}

std::vector<std::string> Client::keys() {
  std::vector<std::string> names;
  for (const Value& key : (*this)({"KEYS", "*"}).list) names.push_back(key.text);
  return names;
}

std::int64_t Client::time() {
  const Value value = (*this)({"TIME"});
  return std::stoll(value.list[0].text) * 1'000'000 + std::stoll(value.list[1].text);
}

}  // namespace saqiya::testing

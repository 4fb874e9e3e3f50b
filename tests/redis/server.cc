#include "tests/redis/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace saqiya::testing {
namespace {

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

}  // namespace

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free port");
  }
  ::close(fd);
  return ntohs(address.sin_port);
}

Client::Client(const std::string& socket_path)
    : context_(redisConnectUnix(socket_path.c_str()), redisFree) {
  if (context_ == nullptr || context_->err != 0) throw std::runtime_error("cannot connect");
}

Value Client::operator()(const std::vector<std::string>& words) {
  std::vector<const char*> text;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    text.push_back(word.data());
    sizes.push_back(word.size());
  }
  const std::unique_ptr<redisReply, void (*)(void*)> reply(
      static_cast<redisReply*>(redisCommandArgv(context_.get(), static_cast<int>(text.size()),
                                                text.data(), sizes.data())),
      freeReplyObject);
  if (reply == nullptr) throw std::runtime_error("the server closed the plain connection");
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

RedisServer::RedisServer(std::vector<std::string> arguments, bool started)
    : port_(free_port()), arguments_(std::move(arguments)) {
  std::string name = (std::filesystem::temp_directory_path() / "saqiya-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
  directory_ = name;
  socket_path_ = directory_ + "/redis.sock";
  if (started) start();
}

RedisServer::~RedisServer() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void RedisServer::start() {
  std::vector<std::string> words = {"redis-server",
                                    "--port",
                                    std::to_string(port_),
                                    "--bind",
                                    "127.0.0.1",
                                    "--unixsocket",
                                    socket_path_,
                                    "--dir",
                                    directory_,
                                    "--save",
                                    "",
                                    "--loglevel",
                                    "warning",
                                    "--daemonize",
                                    "no",
                                    "--enable-debug-command",
                                    "yes"};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::filesystem::remove(socket_path_);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves no server behind
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0);
    ::dup2(null, 1);
    ::dup2(null, 2);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (true) {
    if (::access(socket_path_.c_str(), F_OK) == 0) {
      try {
        Client plain(socket_path_);
        const Value pong = plain({"PING"});
        if (!pong.error || pong.text.rfind("NOAUTH", 0) == 0) return;
      } catch (const std::runtime_error&) {
      }
    }
    if (std::chrono::steady_clock::now() > give_up || ::waitpid(pid_, nullptr, WNOHANG) != 0) {
      throw std::runtime_error("redis-server does not start");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void RedisServer::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string RedisServer::url(std::string_view login, std::string_view rest) const {
  return "redis://" + std::string(login) + "127.0.0.1:" + std::to_string(port_) + std::string(rest);
}

std::string RedisServer::unix_url(std::string_view login, std::string_view rest) const {
  return "unix://" + std::string(login) + socket_path_ + std::string(rest);
}

}  // namespace saqiya::testing

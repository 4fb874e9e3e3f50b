#include "tests/redis/fake_server.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "core/redis/lua/script.lua.h"

namespace saqiya::testing {
namespace {

// Cuts one command off the front. False while it is not complete.
bool take_command(std::string* input, Command* command) {
  std::size_t at = 0;
  const auto line = [&](char mark, long* number) {
    const std::size_t end = input->find("\r\n", at);
    if (end == std::string::npos) return false;
    if ((*input)[at] != mark) throw std::runtime_error("a malformed command");
    *number = std::stol(input->substr(at + 1, end - at - 1));
    at = end + 2;
    return true;
  };
  long words = 0;
  if (!line('*', &words)) return false;
  command->clear();
  for (long i = 0; i < words; ++i) {
    long size = 0;
    if (!line('$', &size)) return false;
    if (input->size() < at + static_cast<std::size_t>(size) + 2) return false;
    command->push_back(input->substr(at, static_cast<std::size_t>(size)));
    at += static_cast<std::size_t>(size) + 2;
  }
  input->erase(0, at);
  return true;
}

}  // namespace

std::string batch_reply(std::int64_t now, const std::vector<std::int64_t>& values) {
  std::string reply =
      "*" + std::to_string(values.size() + 1) + "\r\n:" + std::to_string(now) + "\r\n";
  for (const std::int64_t value : values) reply += ":" + std::to_string(value) + "\r\n";
  return reply;
}

FakeServer::FakeServer(Handler batch, Handler handshake)
    : batch_(std::move(batch)), handshake_(std::move(handshake)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 64) != 0 || ::pipe(stop_) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no listener");
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

FakeServer::~FakeServer() {
  if (::write(stop_[1], "x", 1) == 1) thread_.join();
  ::close(listener_);
  ::close(stop_[0]);
  ::close(stop_[1]);
}

std::string FakeServer::url(std::string_view login, std::string_view rest) const {
  return "redis://" + std::string(login) + "127.0.0.1:" + std::to_string(port_) + std::string(rest);
}

std::vector<Command> FakeServer::commands() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return commands_;
}

Act FakeServer::answer(const Command& command) const {
  if (command[0] == "EVALSHA" || command[0] == "EVAL") return batch_(command);
  if (handshake_) return handshake_(command);
  if (command[0] != "SCRIPT") return say("+OK\r\n");
  return say("$40\r\n" + std::string(lua::kScriptSha1) + "\r\n");
}

bool FakeServer::serve(Peer* peer) {
  char buffer[65536];
  const ssize_t got = ::recv(peer->fd, buffer, sizeof buffer, 0);
  if (got <= 0) return false;
  peer->input.append(buffer, static_cast<std::size_t>(got));
  Command command;
  while (take_command(&peer->input, &command)) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      commands_.push_back(command);
    }
    const Act act = answer(command);
    for (std::size_t i = 0; i < act.pieces.size(); ++i) {
      // Long enough that the pieces do not arrive together.
      if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const std::string& piece = act.pieces[i];
      if (::send(peer->fd, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) return false;
    }
    if (act.close) return false;
  }
  return true;
}

void FakeServer::run() {
  std::vector<Peer> peers;
  while (true) {
    std::vector<pollfd> polled = {{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Peer& peer : peers) polled.push_back({peer.fd, POLLIN, 0});
    ::poll(polled.data(), polled.size(), -1);
    if (polled[0].revents != 0) break;
    for (std::size_t i = 2; i < polled.size(); ++i) {
      if (polled[i].revents == 0 || serve(&peers[i - 2])) continue;
      ::close(peers[i - 2].fd);
      peers[i - 2].fd = -1;
    }
    std::erase_if(peers, [](const Peer& peer) { return peer.fd < 0; });
    if (polled[1].revents != 0) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      ++connections_;
      peers.push_back({fd, {}});
    }
  }
  for (const Peer& peer : peers) ::close(peer.fd);
}

}  // namespace saqiya::testing

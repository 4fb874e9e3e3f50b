#include "tests/redis/fake_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "core/redis/lua/script.lua.h"

namespace saqiya::testing {
namespace {

bool is_script(const Command& command) { return command[0] == "EVALSHA" || command[0] == "EVAL"; }

// The script with no keys ends the handshake.
bool is_probe(const Command& command) { return is_script(command) && command[2] == "0"; }

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
  thread_ = std::thread([this] { run(); });
}

FakeServer::FakeServer(Script script) : script_(std::move(script)) {
  thread_ = std::thread([this] { run(); });
}

FakeServer::~FakeServer() {
  stop_ = true;
  listener_.wake();
  thread_.join();
}

std::vector<Command> FakeServer::commands() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return commands_;
}

Act FakeServer::answer(const Command& command, Peer* peer) const {
  if (is_script(command) && !is_probe(command)) {
    if (script_.empty()) return batch_(command);
    const auto number = static_cast<std::size_t>(peer->number);
    const std::vector<Act>& acts = script_[std::min(number, script_.size() - 1)];
    return acts[std::min(peer->batches++, acts.size() - 1)];
  }
  if (handshake_) return handshake_(command);
  if (is_probe(command)) return say(batch_reply(1'000'000, {}));
  if (command[0] != "SCRIPT") return say("+OK\r\n");
  return say("$40\r\n" + std::string(lua::kScriptSha1) + "\r\n");
}

// False when the connection is over.
bool FakeServer::receive(Peer* peer) {
  char buffer[65536];
  const ssize_t got = ::recv(peer->fd, buffer, sizeof buffer, 0);
  if (got <= 0) return false;
  peer->input.append(buffer, static_cast<std::size_t>(got));
  Command command;
  while (take_command(&peer->input, &command)) {
    if (!is_probe(command)) {
      const std::lock_guard<std::mutex> lock(mutex_);
      commands_.push_back(command);
    }
    const Act act = answer(command, peer);
    Time due = std::chrono::steady_clock::now() + std::chrono::milliseconds(act.delay_ms);
    if (!peer->output.empty()) due = std::max(due, peer->output.back().due);
    for (const std::string& piece : act.pieces) {
      peer->output.push_back({due, piece});
      // Long enough that the pieces do not arrive together.
      due += std::chrono::milliseconds(2);
    }
    if (act.close) peer->output.push_back({due, {}, true});
    if (!send_due(peer)) return false;  // before the next one's handler, which may wait for a test
  }
  return true;
}

bool FakeServer::send_due(Peer* peer) {
  const Time now = std::chrono::steady_clock::now();
  while (!peer->output.empty() && peer->output.front().due <= now) {
    const Piece piece = std::move(peer->output.front());
    peer->output.pop_front();
    if (piece.close) return false;
    if (::send(peer->fd, piece.bytes.data(), piece.bytes.size(), MSG_NOSIGNAL) < 0) return false;
  }
  return true;
}

void FakeServer::run() {
  std::vector<Peer> peers;
  while (true) {
    std::vector<pollfd> polled = {{listener_.wake_fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    bool anything_due = false;
    for (const Peer& peer : peers) {
      polled.push_back({peer.fd, POLLIN, 0});
      anything_due = anything_due || !peer.output.empty();
    }
    ::poll(polled.data(), polled.size(), anything_due ? 1 : -1);
    if (stop_) break;
    for (std::size_t i = 2; i < polled.size(); ++i) {
      Peer* const peer = &peers[i - 2];
      if ((polled[i].revents == 0 || receive(peer)) && send_due(peer)) continue;
      ::close(peer->fd);
      peer->fd = -1;
    }
    std::erase_if(peers, [](const Peer& peer) { return peer.fd < 0; });
    if (polled[1].revents != 0) peers.push_back({listener_.accept(), connections_++});
  }
  for (const Peer& peer : peers) ::close(peer.fd);
}

}  // namespace saqiya::testing

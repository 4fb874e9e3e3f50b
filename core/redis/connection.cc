#include "core/redis/connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/redis/error.h"
#include "core/redis/login.h"
#include "core/redis/lua/script.lua.h"

namespace saqiya::redis {
namespace {

// How often sentinels are asked whether the master is still the master.
constexpr Micros kPauseOfQuestions = kMicrosPerSecond;

}  // namespace

Connection::Connection(const Config& config, int epoll_fd)
    : config_(config), stream_(config, epoll_fd) {
  if (config.endpoint.topology == Endpoint::Topology::kSentinel) {
    finder_ = std::make_unique<MasterFinder>(config, epoll_fd);
  }
}

Connection::State Connection::state() const {
  if (ready_) return State::kReady;
  if (finding_) return State::kConnecting;
  switch (stream_.state()) {
    case Stream::State::kClosed:
      return State::kClosed;
    case Stream::State::kResolving:
      return State::kResolving;
    case Stream::State::kOpen:
      return State::kHandshake;
    default:
      return State::kConnecting;
  }
}

void Connection::open(const Place& place, Micros now, Micros limit) {
  close();
  limit_ = limit;
  opening_ = true;
  if (finder_ == nullptr) {
    server_ = place;
    return stream_.open(server_, now, limit);
  }
  finder_->start(now, limit);
  finding_ = true;
}

// Once the sentinels have named the master: on to it.
void Connection::find(Micros now) {
  finder_->advance(now);
  if (finder_->is_running()) return;
  finding_ = false;
  if (!finder_->master()) return fail(finder_->failure(), finder_->problem());
  server_ = *finder_->master();
  ask_at_ = now + kPauseOfQuestions;
  stream_.open(server_, now, limit_);
}

void Connection::advance(Micros now) {
  if (ready_) return;
  if (finding_) find(now);
  if (finding_) return;
  bool more = true;
  while (more) {
    stream_.advance(now);
    more = stream_.is_open();
    if (!more) break;
    shake_hands(now);
    // Another address is tried at once.
    more = !ready_ && stream_.state() != Stream::State::kClosed && handshake_.empty();
  }
  if (opening_ && stream_.state() == Stream::State::kClosed) {
    fail(stream_.failure(), stream_.problem());
  }
}

void Connection::shake_hands(Micros now) {
  if (handshake_.empty()) greet();
  bool good = stream_.send();
  Input input = Input::kMore;
  // Also after an end: what was said before it tells why.
  while (input == Input::kMore) {
    input = stream_.receive();
    take_replies();
    if (ready_ || !stream_.is_open()) return;
  }
  good = good && input != Input::kClosed;
  if (good && now < stream_.address_limit()) return;
  handshake_.clear();
  const char* const problem = good                      ? "no answer in time to the login"
                              : config_.endpoint.tls.on ? "the server hung up during the login"
                                                        : "the server hung up during the login; "
                                                          "does it want TLS (rediss://)?";
  stream_.next_address(now, stream_.breakage(problem));
}

void Connection::greet() {
  std::string* const out = stream_.output();
  const Endpoint& endpoint = config_.endpoint;
  out->clear();  // of what an attempt left that was broken off for lack of memory
  std::string steps;
  handshake_at_ = 0;
  script_loaded_ = false;
  if (append_auth(endpoint.login, out)) steps += 'a';
  if (!endpoint.client_name.empty()) {
    append_command(std::array<std::string_view, 3>{"CLIENT", "SETNAME", endpoint.client_name}, out);
    steps += 'n';
  }
  if (endpoint.database != 0) {
    const std::string number = std::to_string(endpoint.database);
    append_command(std::array<std::string_view, 2>{"SELECT", number}, out);
    steps += 's';
  }
  if (finder_ != nullptr) {
    append_command(std::array<std::string_view, 1>{"ROLE"}, out);
    steps += 'r';
  }
  append_command(std::array<std::string_view, 3>{"SCRIPT", "LOAD", lua::kScript}, out);
  steps += 'l';
  // What a server is busy with shows here, not at the first request: the script, asked for nothing.
  append_command(std::array<std::string_view, 4>{"EVALSHA", lua::kScriptSha1, "0", ""}, out);
  steps += 'p';
  handshake_ = std::move(steps);
}

void Connection::take_replies() {
  while (!ready_ && stream_.is_open()) {
    const ReplyReader::Result result = stream_.reader().next();
    if (result == ReplyReader::Result::kMore) return;
    if (result == ReplyReader::Result::kError) {
      return fail(Reason::kProtocol, "what answers is not a Redis server, or one that wants TLS");
    }
    take_reply(stream_.reader().reply(), handshake_[handshake_at_++]);
  }
}

// A login or database that was refused ends the opening. A name or role or script that was refused
// (access rules allow EVAL only) does not, and neither does a probe that finds no script or lacks
// permission: the server answers.
void Connection::take_reply(const Reply& reply, char step) {
  if (reply.root().kind == ReplyItem::kError) {
    const std::string_view text = reply.text(reply.root());
    const ErrorClass error = classify_error(text);
    const bool about_us = error.reason == Reason::kProtocol ||
                          error.reason == Reason::kPermission || error.reason == Reason::kAuth;
    const bool needed = step == 'a' || step == 's';
    if (step == 'p' && text.starts_with("ERR unknown command")) {
      return fail(Reason::kRefused,
                  "the server has no EVALSHA; a sentinel's URL begins with redis+sentinel://");
    }
    if (needed || (!error.no_script && (error.leave || !about_us))) {
      return fail(needed && about_us ? Reason::kAuth : error.reason,
                  (step == 'a'   ? "the server refuses the login: "
                   : step == 's' ? "the server refuses the database: "
                                 : "the server refuses service: ") +
                      error_code(text));
    }
  } else if (step == 'l') {
    script_loaded_ =
        reply.root().kind == ReplyItem::kText && reply.text(reply.root()) == lua::kScriptSha1;
  } else if (step == 'r') {
    const auto items = reply.items();
    if (items.size() < 2 || reply.text(items[1]) != "master") {
      return fail(Reason::kReadOnly, "the server that the sentinels name is not a master");
    }
  }
  if (handshake_at_ < handshake_.size()) return;
  ready_ = true;
  opening_ = false;
  Counters::add(config_.counters.connects, 1);
}

Micros Connection::next_event(Micros now) const {
  if (ready_) return finder_ != nullptr ? finder_->next_event(now) : kForever;
  if (finding_) return finder_->next_event(now);
  return stream_.is_open() ? stream_.address_limit() : stream_.next_event(now);
}

bool Connection::moved_away(Micros now) {
  if (finder_ == nullptr || !ready_) return false;
  if (!finder_->is_running()) {
    if (now < ask_at_) return false;
    ask_at_ = now + kPauseOfQuestions;
    finder_->start(now, ask_at_);
  }
  finder_->advance(now);
  return !finder_->is_running() && finder_->master() && *finder_->master() != server_;
}

// What the sentinels said did not lead to a master: others may know better.
void Connection::fail(Reason reason, std::string problem) {
  const bool misled = finder_ != nullptr && !finding_ && finder_->master();
  close();
  failure_ = reason;
  problem_ = std::move(problem);
  if (misled) finder_->distrust();
}

void Connection::close() {
  stream_.close();
  if (finder_ != nullptr) finder_->cancel();
  opening_ = false;
  finding_ = false;
  ready_ = false;
  handshake_.clear();
}

void Connection::stop() {
  close();
  stream_.stop();
  if (finder_ != nullptr) finder_->stop();
}

void Connection::abandon() {
  stream_.abandon();
  if (finder_ != nullptr) finder_->abandon();
  ready_ = false;
  finding_ = false;
}

}  // namespace saqiya::redis

#include "core/redis/sentinel.h"

#include <algorithm>
#include <array>
#include <utility>

namespace saqiya::redis {
namespace {

// How long a sentinel has before the next one is asked, too. Those that are alive answer in less.
constexpr Micros kPatience = 10'000;
constexpr std::size_t kMaxKnown = 64;

}  // namespace

MasterFinder::MasterFinder(const Config& config, int epoll_fd)
    : config_(config), epoll_fd_(epoll_fd), known_(config.endpoint.places) {}

void MasterFinder::start(Micros now, Micros limit) {
  cancel();
  running_ = true;
  limit_ = limit;
  next_ = 0;
  next_at_ = now;
  failure_ = Reason::kConnect;
  problem_ = "no sentinel answers";
  for (auto& peer : peers_) {
    if (peer == nullptr) continue;
    ask(peer.get(), limit);  // the one that was kept
    next_at_ = now + kPatience;
  }
}

// One more, if there is one that is not being asked already.
void MasterFinder::ask_next(Micros now) {
  while (next_ < known_.size()) {
    const Place& place = known_[next_++];
    const bool asked = std::any_of(peers_.begin(), peers_.end(), [&place](const auto& peer) {
      return peer != nullptr && peer->place == place;
    });
    if (asked) continue;
    auto slot = std::find(peers_.begin(), peers_.end(), nullptr);
    if (slot == peers_.end()) {  // so many are silent: the longest so gives way
      std::rotate(peers_.begin(), peers_.begin() + 1, peers_.end());
      slot = peers_.end() - 1;
      slot->reset();
    }
    auto peer = std::make_unique<Peer>(config_, epoll_fd_);
    peer->place = place;
    *slot = std::move(peer);
    (*slot)->stream.open((*slot)->place, now, limit_);
    next_at_ = now + kPatience;
    return;
  }
  next_at_ = kForever;
}

void MasterFinder::ask(Peer* peer, Micros until) {
  peer->until = until;
  std::string* const out = peer->stream.output();
  if (!peer->logged_in && append_auth(config_.endpoint.sentinel_login, out)) peer->awaited += 'a';
  const std::string_view name = config_.endpoint.master;
  append_command(std::array<std::string_view, 3>{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name}, out);
  peer->awaited += 'm';
  if (!peer->logged_in) {
    append_command(std::array<std::string_view, 3>{"SENTINEL", "SENTINELS", name}, out);
    peer->awaited += 's';
  }
  peer->logged_in = true;
}

void MasterFinder::advance(Micros now) {
  if (!running_) return;
  bool any = true;
  while (running_ && any) {
    for (std::size_t i = 0; i < peers_.size() && running_; ++i) {
      if (peers_[i] != nullptr) advance(i, now);
    }
    if (!running_) return;
    any = false;
    const bool idle =
        std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) { return peer == nullptr; });
    if (next_ < known_.size() && (idle || now >= next_at_)) {
      ask_next(now);
      any = true;
    } else if (idle || now >= limit_) {
      cancel();
    }
  }
}

void MasterFinder::advance(std::size_t at, Micros now) {
  Peer& peer = *peers_[at];
  while (true) {
    if (!peer.stream.is_open()) {
      peer.stream.advance(now);
      if (peer.stream.state() == Stream::State::kClosed) {
        return drop(at, peer.stream.failure(), "a sentinel: " + peer.stream.problem());
      }
      if (!peer.stream.is_open()) return;
    }
    if (peer.awaited.empty()) ask(&peer, peer.stream.address_limit());
    bool good = peer.stream.send();
    Stream::Input input = Stream::Input::kMore;
    while (good && input == Stream::Input::kMore) {
      input = peer.stream.receive();
      if (!take_replies(&peer)) return drop(at, failure_, std::move(problem_));
      if (peer.awaited.empty()) return finish(at);
      good = input != Stream::Input::kClosed;
    }
    if (good && now < peer.until) return;
    if (master_) return finish(at);
    // The next address of the same name, if there is one.
    peer.awaited.clear();
    peer.logged_in = false;
    peer.stream.next_address(
        now, good ? "no answer in time" : peer.stream.breakage("a sentinel hung up"));
  }
}

// False when this sentinel is of no use; why is then in failure_ and problem_.
bool MasterFinder::take_replies(Peer* peer) {
  while (!peer->awaited.empty()) {
    const ReplyReader::Result result = peer->stream.reader().next();
    if (result == ReplyReader::Result::kMore) return true;
    const char awaited = peer->awaited.front();
    if (result == ReplyReader::Result::kError) {
      failure_ = Reason::kProtocol;
      problem_ = "a sentinel sends what is no reply";
      return false;
    }
    peer->awaited.erase(0, 1);
    if (!take_reply(peer->stream.reader().reply(), awaited)) return false;
  }
  return true;
}

bool MasterFinder::take_reply(const Reply& reply, char awaited) {
  const ReplyItem& root = reply.root();
  const auto items = reply.items();
  if (awaited == 's') {
    learn(reply);
    return true;
  }
  if (root.kind == ReplyItem::kError) {
    failure_ = Reason::kAuth;
    problem_ = "a sentinel refuses " + std::string(awaited == 'a' ? "the login: " : "to answer: ") +
               error_code(reply.text(root));
    return false;
  }
  if (awaited == 'a') return true;
  Place place;
  if (root.kind == ReplyItem::kArray && items.size() == 3 && items[1].kind == ReplyItem::kText &&
      items[2].kind == ReplyItem::kText) {
    place.host = reply.text(items[1]);
    place.port = parse_port(reply.text(items[2]));
  }
  if (place.host.empty() || place.port == 0) {
    failure_ = Reason::kResolve;
    problem_ = "the sentinels know no master named " + config_.endpoint.master;
    return false;
  }
  master_ = std::move(place);
  return true;
}

// The sentinels that this one knows; those of the URL stay, since these may be addresses of
// another network.
void MasterFinder::learn(const Reply& reply) {
  if (reply.root().kind != ReplyItem::kArray) return;
  std::vector<Place> known = config_.endpoint.places;
  Place place;
  place.port = 0;
  const auto items = reply.items();
  for (std::size_t i = 1; i + 1 < items.size(); ++i) {
    if (items[i].kind == ReplyItem::kArray) {  // the fields of the next one
      place = Place{};
      place.port = 0;
      continue;
    }
    const std::string_view field = reply.text(items[i]);
    const std::string_view value = reply.text(items[++i]);
    if (field == "ip") place.host = value;
    if (field == "port") place.port = parse_port(value);
    if (place.host.empty() || place.port == 0) continue;
    if (known.size() < kMaxKnown && std::find(known.begin(), known.end(), place) == known.end()) {
      known.push_back(place);
    }
    place.port = 0;
  }
  known_ = std::move(known);
}

void MasterFinder::drop(std::size_t at, Reason reason, std::string problem) {
  peers_[at].reset();
  next_at_ = 0;  // at once
  // What a sentinel said tells more than that another cannot be reached.
  if (reason == Reason::kConnect && failure_ != Reason::kConnect) return;
  failure_ = reason;
  problem_ = std::move(problem);
}

// Peer `at` has answered: it is kept, and asked first next time.
void MasterFinder::finish(std::size_t at) {
  running_ = false;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (i != at) peers_[i].reset();
  }
  Peer& peer = *peers_[at];
  const auto place = std::find(known_.begin(), known_.end(), peer.place);
  if (place != known_.end()) std::rotate(known_.begin(), place, place + 1);
  if (peer.awaited.empty()) {
    peer.stream.rest();
  } else {
    peers_[at].reset();
  }
}

Micros MasterFinder::next_event(Micros now) const {
  if (!running_) return kForever;
  Micros next = next_ < known_.size() ? std::min(limit_, next_at_) : limit_;
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    next = std::min(next, peer->stream.is_open() ? peer->until : peer->stream.next_event(now));
  }
  return next;
}

void MasterFinder::distrust() {
  for (auto& peer : peers_) peer.reset();
  if (!known_.empty()) std::rotate(known_.begin(), known_.begin() + 1, known_.end());
}

void MasterFinder::cancel() {
  if (running_) stop();
  master_.reset();
}

void MasterFinder::stop() {
  running_ = false;
  for (auto& peer : peers_) peer.reset();
}

void MasterFinder::abandon() {
  for (auto& peer : peers_) {
    if (peer == nullptr) continue;
    peer->stream.abandon();
    static_cast<void>(peer.release());  // what is left of it stays for ever
  }
}

}  // namespace saqiya::redis

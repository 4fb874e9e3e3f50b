#include "core/redis/cluster.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

namespace saqiya::redis {
namespace {

// How often one request is sent elsewhere at once; then there is a pause before each time.
constexpr std::uint8_t kTurnsAtOnce = 3;
// So many pauses are enough where nobody at all answers for a slot.
constexpr std::uint8_t kMostTurns = 8;
// What nobody can answer for now is sent again after this.
constexpr Micros kPause = 10'000;

}  // namespace

Cluster::Cluster(const Config& config, const QueueOptions& options, Calls* calls, int epoll_fd)
    : config_(config),
      options_(options),
      calls_(*calls),
      epoll_fd_(epoll_fd),
      across_(calls, [this](std::uint64_t seq) { route(seq); }) {}

bool Cluster::is_connected() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->is_connected(); });
}

bool Cluster::is_opening() const {
  return is_connected() && std::none_of(links_.begin(), links_.end(),
                                        [](const auto& link) { return link->is_ready(); });
}

Micros Cluster::tried_at() const {
  Micros latest = 0;
  for (const auto& link : links_) latest = std::max(latest, link->tried_at());
  return latest;
}

Link* Cluster::find(const Place& place) const {
  const auto at = std::find_if(links_.begin(), links_.end(),
                               [&](const auto& link) { return link->place() == place; });
  return at == links_.end() ? nullptr : at->get();
}

Link* Cluster::link_to(const Place& place) {
  if (Link* const link = find(place)) return link;
  links_.push_back(std::make_unique<Link>(config_, options_, &calls_, config_.breakers.of(place),
                                          epoll_fd_, place));
  return links_.back().get();
}

// -- Requests ---------------------------------------------------------------------------------

void Cluster::take(std::uint64_t seq, std::size_t eager, Micros now) {
  if (calls_.at(seq).parent != kNoCall) return across_.begin(seq);
  Link* const link = route(seq);
  if (link != nullptr && link->has(eager)) link->send_early(now);
}

Link* Cluster::route(std::uint64_t seq) {
  Call& call = calls_.at(seq);
  call.asking = false;
  if (map_.empty()) {
    calls_.push_back(seq, &unrouted_);
    return nullptr;
  }
  const std::uint16_t owner = map_.owner[call.slot];
  if (owner == SlotMap::kNobody) {
    stale_ = true;
    calls_.push_back(seq, &later_);
    resume_at_ = std::min(resume_at_, system_monotonic() + kPause);
    return nullptr;
  }
  owners_[owner]->take(seq);
  return owners_[owner];
}

void Cluster::turn(Link* from, const Link::Turned& turned, Micros now) {
  for (std::uint64_t seq = turned.first; seq != kNoCall;) {
    const std::uint64_t next = calls_.at(seq).next;
    turn(from, turned, seq, now);
    seq = next;
  }
}

// Nothing of the request ran.
void Cluster::turn(Link* from, const Link::Turned& turned, std::uint64_t seq, Micros now) {
  Call& call = calls_.at(seq);
  if (call.state != Call::State::kSent) return calls_.end(seq, Reason::kCancelled);
  call.asking = false;
  call.alone = call.alone || turned.how != Redirect::kMoved;
  if (call.turned < kMostTurns) ++call.turned;
  if (turned.placed && call.turned <= kTurnsAtOnce) {
    try {
      if (turned.how == Redirect::kMoved) {
        learn(call.slot, turned.place);
      } else {
        call.asking = true;
      }
      return link_to(turned.place)->take(seq);
    } catch (const std::bad_alloc&) {
      return calls_.end(seq, Reason::kBusy);
    }
  }
  // Servers that disagree will agree, and keys on both sides of a move will come together: that is
  // worth waiting for as long as one may. That the whole cluster is down is not.
  stale_ = true;
  if ((turned.down && call.turned >= kMostTurns) || call.deadline - now <= 2 * kPause) {
    if (turned.down) from->leave(Reason::kRefused);  // so that the next ones do not wait for it
    return calls_.end(seq, Reason::kRefused);
  }
  if (!turned.down) call.turned = 0;
  calls_.push_back(seq, &later_);
  resume_at_ = std::min(resume_at_, now + kPause);
}

void Cluster::resume(Micros now) {
  if (now < resume_at_) return;
  resume_at_ = kForever;
  Line line = std::exchange(later_, Line());
  while (line.first != kNoCall) {
    const std::uint64_t seq = std::exchange(line.first, calls_.at(line.first).next);
    // Where nobody has the slot each pause counts, too.
    if (!map_.empty() && map_.owner[calls_.at(seq).slot] == SlotMap::kNobody &&
        ++calls_.at(seq).turned > kMostTurns) {
      calls_.at(seq).state = Call::State::kSent;  // in no line
      calls_.end(seq, Reason::kRefused);
    } else {
      route(seq);
    }
  }
  calls_.retire();
}

// -- Turns ------------------------------------------------------------------------------------

// Only those links that have something to say are listened to.
void Cluster::receive(Micros now) {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    for (const auto& link : links_) {
      if (link->is_ready() && link->fd() == events[static_cast<std::size_t>(i)].data.fd) {
        link->receive(now);
        break;
      }
    }
  }
}

bool Cluster::settle(Micros now) {
  bool any = false;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link* const link = links_[i].get();
    const std::vector<Link::Turned> turned = std::exchange(link->turned(), {});
    for (const Link::Turned& batch : turned) turn(link, batch, now);
    any = any || !turned.empty();
  }
  any = any || !calls_.parts_done().empty();
  across_.go_on(now);
  calls_.retire();
  return any;
}

void Cluster::process(Micros now) {
  receive(now);
  // What comes up while sending is dealt with at once, but not for ever.
  for (int i = 0; i < 3; ++i) {
    const bool any = settle(now);
    if (i > 0 && !any) break;
    across_.expire(now);
    resume(now);
    keep_map(now);
    for (const auto& link : links_) link->process(now);
  }
  calls_.expire_line(&unrouted_, now, Reason::kConnect);
  calls_.expire_line(&later_, now, Reason::kRefused);
}

void Cluster::push() {
  for (const auto& link : links_) link->push();
}

void Cluster::give_up(Micros now) {
  for (const auto& link : links_) link->give_up(now);
  calls_.expire_line(&unrouted_, now, Reason::kConnect);
  calls_.expire_line(&later_, now, Reason::kRefused);
  settle(now);
  across_.expire(now);
}

Micros Cluster::next_event(Micros now) const {
  Micros next = std::min({unrouted_.deadline, later_.deadline, across_.next_event()});
  if (!later_.empty()) next = std::min(next, resume_at_);
  bool usable = false;
  bool asked = false;
  for (const auto& link : links_) {
    if (!link->turned().empty()) return now;
    next = std::min(next, link->next_event(now));
    usable = usable || link->can_serve();
    asked = asked || link->is_asked_for_map();
  }
  if (!unrouted_.empty()) next = std::min(next, asked ? ask_at_ : now);
  if (stale_ && usable && !asked) next = std::min(next, ask_at_);
  return next;
}

void Cluster::close(Reason reason) {
  for (const auto& link : links_) {
    for (const Link::Turned& turned : std::exchange(link->turned(), {})) {
      for (std::uint64_t seq = turned.first; seq != kNoCall;) {
        calls_.end(std::exchange(seq, calls_.at(seq).next), reason);
      }
    }
    link->close(reason);
  }
  calls_.end_line(&unrouted_, reason);
  calls_.end_line(&later_, reason);
  across_.end_all(reason);
}

void Cluster::abandon() {
  for (const auto& link : links_) link->abandon();
}

}  // namespace saqiya::redis

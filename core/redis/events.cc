#include "core/redis/events.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "core/fork.h"

namespace saqiya::redis {
namespace {

template <std::size_t N>
void write(std::string_view text, std::array<char, N>* out) {
  const std::size_t size = std::min(text.size(), N - 1);
  std::transform(
      text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size), out->begin(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c; });
  (*out)[size] = '\0';
}

// The event's sentence, cut where there is no more room.
class Sentence {
 public:
  explicit Sentence(Event* event) : event_(event) {}
  Sentence& operator<<(std::string_view text) {
    std::array<char, sizeof(Event::message)>& out = event_->message;
    const std::size_t size = std::min(text.size(), out.size() - 1 - size_);
    std::memcpy(out.data() + size_, text.data(), size);
    size_ += size;
    return *this;
  }

 private:
  Event* const event_;
  std::size_t size_ = 0;
};

const char* why(Reason reason) {
  switch (reason) {
    case Reason::kResolve:
      return "its name cannot be resolved";
    case Reason::kAuth:
      return "it refuses the login";
    case Reason::kTimeout:
    case Reason::kLost:
      return "it has fallen silent";
    case Reason::kRefused:
      return "it can serve nobody now";
    case Reason::kReadOnly:
      return "it is a replica";
    case Reason::kPermission:
      return "it does not permit the script";
    case Reason::kProtocol:
      return "it does not speak as a server should";
    default:
      return "no connection";
  }
}

const char* why_refused(Reason reason, std::string_view text) {
  // Only where the URL does not say so.
  if (text.starts_with("MOVED ") || text.starts_with("ASK ")) {
    return "it is a node of a cluster, which needs a URL of redis+cluster://";
  }
  switch (reason) {
    case Reason::kPermission:
      return "its access rules forbid what a limiter needs";
    case Reason::kServerMemory:
      return "it is out of memory";
    case Reason::kCorrupt:
      return "a key holds a value that is not a limiter's";
    case Reason::kReadOnly:
      return "it is a replica";
    default:
      return "it refuses requests";
  }
}

}  // namespace

// A lock that a child of a fork does not inherit: what a thread of the parent held is the child's
// to take. Its events are the parent's to tell, too. Held for some copying only.
class Events::Guard {
 public:
  explicit Guard(Events& events) : events_(events) {
    const std::uint64_t mine = fork_generation();
    std::uint64_t holder = 0;
    while (!events_.holder_.compare_exchange_weak(holder, mine, std::memory_order_acquire)) {
      if (holder == mine) {
        holder = 0;
        std::this_thread::yield();
      }
    }
    if (events_.generation_ == mine) return;
    if (events_.generation_ != 0) {  // not the first to come, but a child
      events_.first_ = 0;
      events_.count_ = 0;
      events_.suppressed_ = 0;
      events_.open_ = 0;  // its breakers are closed
      events_.late_at_ = kForever;
    }
    events_.generation_ = mine;
  }
  ~Guard() { events_.holder_.store(0, std::memory_order_release); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Events& events_;
};

void Events::tell(const Event& event) {
  std::uint32_t count = count_.load(std::memory_order_relaxed);
  if (count == kMost) {
    suppressed_ += ring_[first_].suppressed + 1;
    first_ = (first_ + 1) % kMost;
    --count;
  }
  Event& told = ring_[(first_ + count) % kMost];
  told = event;
  told.suppressed = suppressed_;
  suppressed_ = 0;
  count_.store(count + 1, std::memory_order_release);
}

void Events::tell_outage() {
  Event event;
  event.kind = Event::Kind::kOutage;
  event.reason = outage_.reason;
  event.wall = outage_.wall;
  event.server = outage_.server;
  Sentence(&event) << "Redis at " << event.server.data() << " does not answer ("
                   << why(outage_.reason) << (outage_.problem[0] == '\0' ? "" : ": ")
                   << outage_.problem.data() << "): limiters follow their failure policies";
  outage_.told = true;
  told_at_ = outage_.began;
  late_at_ = kForever;
  tell(event);
}

void Events::tell_if_late(Micros now) {
  if (late_at_.load(std::memory_order_relaxed) <= now) tell_outage();
}

void Events::outage(std::string_view server, Reason reason, Micros now, std::string_view problem) {
  const Guard guard(*this);
  if (open_.fetch_add(1) != 0) {
    ++suppressed_;  // one more server of the same store, or its end has been told of already
    return;
  }
  outages_.fetch_add(1, std::memory_order_relaxed);
  outage_ = {{},    reason, now, system_wall(), unanswered_.load(std::memory_order_relaxed),
             false, {}};
  write(server, &outage_.server);
  write(problem, &outage_.problem);
  if (now - told_at_ >= kQuiet) {
    tell_outage();
  } else {
    late_at_ = told_at_ + kQuiet;
  }
}

void Events::recovered(std::string_view server, Micros now) {
  const Guard guard(*this);
  tell_if_late(now);
  if (open_.fetch_sub(1) != 1) {
    ++suppressed_;
    return;
  }
  late_at_ = kForever;
  if (!outage_.told) {
    suppressed_ += 2;
    return;
  }
  Event event;
  event.kind = Event::Kind::kRecovered;
  event.reason = outage_.reason;
  event.wall = system_wall();
  event.duration = std::max<Micros>(0, now - outage_.began);
  event.decisions = unanswered_.load(std::memory_order_relaxed) - outage_.unanswered;
  write(server, &event.server);
  std::array<char, 96> numbers;
  std::snprintf(numbers.data(), numbers.size(), "%.3f s; requests it did not answer: %llu",
                static_cast<double>(event.duration) / kMicrosPerSecond,
                static_cast<unsigned long long>(event.decisions));
  Sentence(&event) << "Redis at " << event.server.data() << " answers again after "
                   << numbers.data();
  tell(event);
}

void Events::refused(Reason reason, std::string_view server, std::string_view text, Micros now) {
  const auto kind = static_cast<std::size_t>(reason);
  if (kind >= refused_at_.size()) return;
  const Guard guard(*this);
  if (now - refused_at_[kind] < kRefusalPause) {
    ++suppressed_;
    return;
  }
  refused_at_[kind] = now;
  Event event;
  event.kind = Event::Kind::kRefused;
  event.reason = reason;
  event.wall = system_wall();
  write(server, &event.server);
  // Behind a comma an ERR repeats what was sent, keys among it.
  if (text.starts_with("ERR ")) text = text.substr(0, text.find(','));
  std::array<char, 128> error{};
  write(text, &error);
  Sentence(&event) << "Redis at " << event.server.data() << ": " << why_refused(reason, text)
                   << (text.empty() ? "" : ": ") << error.data();
  tell(event);
}

bool Events::any() const {
  if (count_.load(std::memory_order_relaxed) > 0) return true;
  const Micros late_at = late_at_.load(std::memory_order_relaxed);
  return late_at != kForever && late_at <= system_monotonic();
}

bool Events::next(Event* event) {
  if (!any()) return false;
  const Guard guard(*this);
  tell_if_late(system_monotonic());
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  if (count == 0) return false;
  *event = ring_[first_];
  first_ = (first_ + 1) % kMost;
  count_.store(count - 1, std::memory_order_release);
  return true;
}

}  // namespace saqiya::redis

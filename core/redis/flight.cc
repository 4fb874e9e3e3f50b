#include "core/redis/flight.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "core/group.h"

namespace saqiya::redis {
// One call of carry(), on the stack of its thread.
struct Flight::Ride {
  bool is_done() const { return done == requests.size(); }

  std::span<const Request> requests;
  std::span<Answer> answers;
  std::uint32_t id = 0;       // in rides_
  std::size_t submitted = 0;  // of requests, from the first on
  std::size_t done = 0;
  Micros until = 0;  // the latest deadline of what has been submitted
  bool aboard = false;
  Ride* before = nullptr;
  Ride* after = nullptr;
  Parker parker;
};

// Holds the lock, and a ride's place; gives up both, and the driver's seat, however carry() ends.
class Flight::Seat {
 public:
  Seat(Flight& flight, Ride* ride) : flight_(flight), ride_(ride) {
    flight_.load_.fetch_add(1, std::memory_order_relaxed);
    lock();
  }
  ~Seat() {
    if (held_) {
      if (ride_->aboard) flight_.take_back(ride_, &wakes_);
      if (flight_.driver_ == ride_) flight_.give_seat_on(&wakes_);
      unlock();
    }
    flight_.load_.fetch_sub(1, std::memory_order_relaxed);
  }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  void lock() {
    flight_.lock_.lock();
    held_ = true;
  }
  void unlock() {
    flight_.show();
    held_ = false;
    flight_.lock_.unlock();
    wakes_.wake_all();
  }
  // For this thread, by somebody else.
  void locked() { held_ = true; }
  WakeList* wakes() { return &wakes_; }

 private:
  Flight& flight_;
  Ride* const ride_;
  bool held_ = false;
  WakeList wakes_;
};

Flight::Flight(std::shared_ptr<const Config> config, const QueueOptions& options)
    : config_(std::move(config)),
      engine_(config_, options),
      kick_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Flight::~Flight() {
  if (kick_ >= 0) ::close(kick_);
}

void Flight::abandon() {
  engine_.abandon();  // and the eventfd stays open: see there
}

void Flight::carry(std::span<const Request> requests, std::span<Answer> answers, Micros since) {
  Ride ride;
  ride.requests = requests;
  ride.answers = answers;
  Seat seat(*this, &ride);
  board(&ride);
  load_up(&ride, since);
  deliver(seat.wakes());
  if (ride.is_done()) kick_driver();
  while (!ride.is_done()) {
    if (driver_ == nullptr) driver_ = &ride;
    if (driver_ == &ride) {
      drive(&ride, &seat);
    } else {
      ride_along(&ride, &seat);
    }
  }
}

// As many as fit. Each has its time from when its turn comes.
void Flight::load_up(Ride* ride, Micros now) {
  while (ride->submitted < ride->requests.size()) {
    const Request& request = ride->requests[ride->submitted];
    const Micros deadline = now + deadline_of(request);
    const std::uint64_t user_data = std::uint64_t{ride->id} << 32 | ride->submitted;
    if (engine_.submit(request, user_data, deadline) != SubmitResult::kOk) break;
    ++ride->submitted;
    ride->until = std::max(ride->until, deadline);
  }
  if (ride->until == 0) ride->until = now + deadline_of(ride->requests.front());
}

void Flight::drive(Ride* ride, Seat* seat) {
  while (!ride->is_done()) {
    engine_.process();
    deliver(seat->wakes());
    if (ride->is_done()) return;
    const Micros now = system_monotonic();
    if (ride->submitted < ride->requests.size()) {
      load_up(ride, now);
      // Those that a crowd of others left no room for.
      if (ride->until <= now) fail_rest(ride, seat->wakes());
    }
    wait(ride->until - now, [&] { seat->unlock(); });
    seat->locked();
  }
}

// The driver waits for the engine's descriptors, without the lock, which unlock() leaves.
template <typename Unlock>
void Flight::wait(Micros longest, Unlock unlock) {
  Micros span = std::max<Micros>(0, longest);
  const Micros due = engine_.timeout();
  if (due >= 0) span = std::min(span, due);
  watched_ = engine_.to_watch();
  std::array<pollfd, 2> descriptors{watched_, pollfd{kick_, POLLIN, 0}};
  const timespec time = to_timespec(span);
  waiting_ = span > 0;
  unlock();
  // However it ends, by a signal, too: what there is to do shows in process().
  if (span > 0) ::ppoll(descriptors.data(), descriptors.size(), &time, nullptr);
  lock_.lock();
  waiting_ = false;
  if (kicked_) {
    kicked_ = false;
    std::uint64_t count = 0;
    static_cast<void>(!::read(kick_, &count, sizeof count));
  }
}

void Flight::ride_along(Ride* ride, Seat* seat) {
  engine_.push();
  kick_driver();
  seat->unlock();
  const std::uint32_t called = ride->parker.park(ride->until);
  if (called == Parker::kDone) return;  // and no longer aboard
  seat->lock();
  if (ride->is_done()) return;
  const Micros now = system_monotonic();
  if (called == Parker::kAwake) {
    engine_.give_up(now);
    deliver(seat->wakes());
    if (ride->is_done()) return;
    if (ride->submitted < ride->requests.size() && ride->until <= now) {
      return fail_rest(ride, seat->wakes());
    }
    ride->until = std::max(ride->until, now + 1000);
  }
  load_up(ride, now);
  deliver(seat->wakes());
}

// A driver that waits must look again when there is something that only it may do, when it waits
// for the wrong thing (bytes that the socket did not take, a connection to another server), or for
// nothing: somebody else has taken its answer.
void Flight::kick_driver() {
  if (!waiting_ || kicked_) return;
  const pollfd wanted = engine_.to_watch();
  const bool same = wanted.fd == watched_.fd && wanted.events == watched_.events;
  if (same && engine_.timeout() != 0 && !driver_->is_done()) return;
  kicked_ = true;
  const std::uint64_t one = 1;
  static_cast<void>(!::write(kick_, &one, sizeof one));
}

// Hands out what has been completed, whosever it is.
void Flight::deliver(WakeList* wakes) {
  if (!engine_.has_completions()) return;
  std::array<Completion, 64> completions;
  std::size_t count = 0;
  while ((count = engine_.drain(completions)) > 0) {
    for (std::size_t i = 0; i < count; ++i) {
      Ride* const ride = rides_[static_cast<std::size_t>(completions[i].user_data >> 32)];
      Answer& answer = ride->answers[completions[i].user_data & 0xFFFFFFFF];
      answer.decision = completions[i].decision;
      answer.ticket = completions[i].ticket;
      count_done(ride, wakes);
    }
  }
}

// After the last one the ride is not to be touched any more.
void Flight::count_done(Ride* ride, WakeList* wakes) {
  ++ride->done;
  if (ride->is_done()) {
    leave(ride);
    // Who has the driver's seat must come for the lock once more, to give it on.
    wakes->call(ride->parker, driver_ == ride ? Parker::kCalled : Parker::kDone);
  } else if (ride->submitted < ride->requests.size()) {
    wakes->call(ride->parker, Parker::kCalled);  // there is room for more
  }
}

void Flight::fail_rest(Ride* ride, WakeList* wakes) {
  const std::size_t left = ride->requests.size() - ride->submitted;
  for (; ride->submitted < ride->requests.size(); ++ride->submitted) {
    config_->failover.answer_unsent(ride->requests[ride->submitted], Reason::kBusy,
                                    &ride->answers[ride->submitted]);
  }
  for (std::size_t i = 0; i < left; ++i) count_done(ride, wakes);
}

void Flight::board(Ride* ride) {
  if (free_.empty()) {
    free_.reserve(rides_.size() + 1);  // so that leaving cannot fail
    rides_.push_back(nullptr);
    free_.push_back(static_cast<std::uint32_t>(rides_.size() - 1));
  }
  ride->id = free_.back();
  free_.pop_back();
  rides_[ride->id] = ride;
  ride->aboard = true;
  ride->before = last_;
  (last_ != nullptr ? last_->after : first_) = ride;
  last_ = ride;
}

void Flight::leave(Ride* ride) {
  (ride->before != nullptr ? ride->before->after : first_) = ride->after;
  (ride->after != nullptr ? ride->after->before : last_) = ride->before;
  rides_[ride->id] = nullptr;
  free_.push_back(ride->id);
  ride->aboard = false;
}

// The driver is done. Who came first drives on; with nobody left the engine has nothing more to
// wait for, and the next one had better not queue up behind answers that nobody wants.
void Flight::give_seat_on(WakeList* wakes) {
  driver_ = first_;
  if (driver_ != nullptr) {
    wakes->call(driver_->parker, Parker::kCalled);
  } else if (!engine_.is_idle()) {
    engine_.end_all();
  }
}

// An exception passed: nothing of the ride may come back to it.
void Flight::take_back(Ride* ride, WakeList* wakes) {
  for (std::size_t i = 0; i < ride->submitted; ++i) {
    engine_.cancel(std::uint64_t{ride->id} << 32 | i);
  }
  deliver(wakes);  // what had been completed before
  if (ride->aboard) leave(ride);
}

void Flight::nudge(Micros longest) {
  if (!lock_.try_lock()) return;
  if (driver_ != nullptr) {
    lock_.unlock();
    return;
  }
  Ride nobody;  // drives without a request of its own
  driver_ = &nobody;
  WakeList wakes;
  const Micros begin = system_monotonic();
  try {
    while (true) {
      engine_.process();
      deliver(&wakes);
      const Micros left = begin + longest - system_monotonic();
      const bool mine = engine_.tried_at() >= begin;
      if (!mine || !engine_.is_opening() || left <= 0) break;
      wait(left, [&] {
        show();
        lock_.unlock();
        wakes.wake_all();
      });
    }
  } catch (const std::bad_alloc&) {
    // Somebody else will pass by.
  }
  give_seat_on(&wakes);
  show();
  lock_.unlock();
}

// What others may know without the lock.
void Flight::show() {
  connected_.store(engine_.is_connected(), std::memory_order_relaxed);
  restless_.store(driver_ == nullptr && engine_.timeout() >= 0, std::memory_order_relaxed);
}

}  // namespace saqiya::redis

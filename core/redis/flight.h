// One engine and the threads whose requests are aboard. One of them drives: it waits on the
// engine's descriptors and takes what comes, for all. The others ride: they add their requests to
// what is sent next, and sleep until these are done or the driver's seat is theirs.
//
// Everything but load(), is_connected() and is_restless() is guarded by lock_, which nobody holds
// while waiting. While the driver waits without the lock, others submit, send and end requests, and
// may find in passing that answers have come or that the connection broke; what there is to open or
// to wait for, and an answer of the driver's own, they tell it by a kick. When there is no driver,
// whoever holds the lock may do all of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/lock.h"
#include "core/redis/engine.h"
#include "core/redis/parker.h"
#include "core/store.h"

namespace saqiya::redis {

class Flight {
 public:
  Flight(std::shared_ptr<const Config> config, const QueueOptions& options);
  ~Flight();
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  bool has_descriptors() const { return engine_.has_descriptor() && kick_ >= 0; }
  // Decides all of them, in order. Returns when every one has an answer. An exception
  // (std::bad_alloc) leaves nothing of them behind. since: when their time began to run.
  void carry(std::span<const Request> requests, std::span<Answer> answers, Micros since);
  // One step of an engine that nobody drives, where it can be had at once. When that begins to open
  // a connection, and there is none, it waits for it, so long at the most.
  void nudge(Micros longest);

  // How many threads are aboard, and whether there is a connection, or one is being opened. As of
  // a moment ago.
  std::uint32_t load() const { return load_.load(std::memory_order_relaxed); }
  bool is_connected() const { return connected_.load(std::memory_order_relaxed); }
  // Nobody drives, though there is something to do: a connection that no request waits for is being
  // opened, or is to be.
  bool is_restless() const { return restless_.load(std::memory_order_relaxed); }

  // In a child after fork: closes the copies of descriptors, without a byte to anyone and without
  // touching the lock. Nothing may follow, not even the destructor.
  void abandon();

 private:
  struct Ride;
  class Seat;

  void load_up(Ride* ride, Micros now);
  void drive(Ride* ride, Seat* seat);
  template <typename Unlock>
  void wait(Micros longest, Unlock unlock);
  void ride_along(Ride* ride, Seat* seat);
  void deliver(WakeList* wakes);
  void fail_rest(Ride* ride, WakeList* wakes);
  void count_done(Ride* ride, WakeList* wakes);
  void kick_driver();
  void board(Ride* ride);
  void leave(Ride* ride);
  void give_seat_on(WakeList* wakes);
  void take_back(Ride* ride, WakeList* wakes);
  void show();

  const std::shared_ptr<const Config> config_;
  std::atomic<std::uint32_t> load_{0};
  std::atomic<bool> connected_{false};
  std::atomic<bool> restless_{false};
  Lock lock_;
  Engine engine_;
  int kick_;              // an eventfd that the driver watches, too
  bool waiting_ = false;  // the driver waits, without the lock,
  bool kicked_ = false;   // but has been told to look again
  Ride* driver_ = nullptr;
  pollfd watched_{-1, 0, 0};  // what the driver waits for
  Ride* first_ = nullptr;     // all aboard, in the order in which they came
  Ride* last_ = nullptr;
  std::vector<Ride*> rides_;  // by the upper half of a request's user data; null: free
  std::vector<std::uint32_t> free_;
};

}  // namespace saqiya::redis

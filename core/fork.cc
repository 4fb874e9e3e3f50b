#include "core/fork.h"

#include <pthread.h>

#include <thread>

#include "core/time.h"

namespace saqiya {
namespace fork_detail {
std::atomic<std::uint64_t> generation{1};
}

namespace {

// Those who enter count themselves first and then look for a fork; who forks makes that known first
// and then looks for them. Both orders are of sequential consistency, so one sees the other.
std::atomic<int> forking{0};  // threads
std::atomic<int> holding{0};  // threads
thread_local int holds = 0;   // of this thread

void before_fork() {
  forking.fetch_add(1);
  // A signal's handler may fork within a hold of its own thread.
  const int mine = holds > 0 ? 1 : 0;
  const Micros give_up = system_monotonic() + kMicrosPerSecond;
  while (holding.load() > mine && system_monotonic() < give_up) std::this_thread::yield();
}

void after_fork() { forking.fetch_sub(1); }

void in_child() {
  forking = 0;
  holding = holds > 0 ? 1 : 0;
  fork_detail::generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

bool watch_forks() {
  // A local static: its guard is only contended before the first store is complete.
  static const int installed = pthread_atfork(before_fork, after_fork, in_child);
  return installed == 0;
}

ForkHold::ForkHold() {
  if (holds > 0) {
    ++holds;
    return;
  }
  while (true) {
    holding.fetch_add(1);
    holds = 1;
    if (forking.load() == 0) return;
    holds = 0;
    holding.fetch_sub(1);
    while (forking.load() > 0) std::this_thread::yield();
  }
}

ForkHold::~ForkHold() {
  if (--holds == 0) holding.fetch_sub(1);
}

}  // namespace saqiya

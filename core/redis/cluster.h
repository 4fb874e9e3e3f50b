// The servers of a Redis cluster as one engine sees them: the map of slots, a link to each server,
// requests on their way to the right one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/redis/across.h"
#include "core/redis/calls.h"
#include "core/redis/config.h"
#include "core/redis/link.h"
#include "core/redis/slots.h"

namespace saqiya::redis {

class Cluster {
 public:
  // All outlive the cluster.
  Cluster(const Config& config, const QueueOptions& options, Calls* calls, int epoll_fd);

  bool is_connected() const;
  bool is_opening() const;
  Micros tried_at() const;
  // Prepares for a request that take() is called with next. May throw std::bad_alloc.
  void expect(std::uint64_t seq) { across_.expect(seq); }
  void take(std::uint64_t seq, std::size_t eager, Micros now);
  // These are the engine's.
  void process(Micros now);
  void push();
  void give_up(Micros now);
  Micros next_event(Micros now) const;
  void close(Reason reason);
  void abandon();

 private:
  Link* link_to(const Place& place);
  Link* find(const Place& place) const;
  // Hands a request to the server that has its slot, as far as is known.
  Link* route(std::uint64_t seq);
  void receive(Micros now);
  // What links have brought up: redirections, parts of requests, maps. True when there was any.
  bool settle(Micros now);
  void turn(Link* from, const Link::Turned& turned, Micros now);
  void turn(Link* from, const Link::Turned& turned, std::uint64_t seq, Micros now);
  void resume(Micros now);

  // The map: cluster_map.cc.
  void adopt(SlotMap map, Micros now);
  void learn(std::uint16_t slot, const Place& place);
  void keep_map(Micros now);
  void give_up_on_map(Reason reason);
  Link* whom_to_ask();
  bool some_server_is_down() const;

  const Config& config_;
  const QueueOptions& options_;
  Calls& calls_;
  const int epoll_fd_;
  std::vector<std::unique_ptr<Link>> links_;
  Across across_;

  SlotMap map_;
  std::vector<Link*> owners_;       // of the masters of the map
  bool stale_ = false;              // the map is known to be wrong somewhere
  Micros ask_at_ = 0;               // not before
  std::size_t failures_ = 0;        // to get a map, since there was one
  Reason failure_ = Reason::kNone;  // the last of them
  std::size_t asked_ = 0;           // counts, so that another one is asked each time
  Line unrouted_;                   // until there is a map
  Line later_;                      // to be sent again at resume_at_
  Micros resume_at_ = kForever;
};

}  // namespace saqiya::redis

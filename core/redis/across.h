// Requests whose keys lie in several slots of a cluster. Their parts go one slot after another, in
// the order in which the slots come up in the request, under its one deadline; a check that some
// slot refuses gives back what the slots before it charged, the newest first. So it may refuse a
// little more than it would on one server, but it never admits more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "core/redis/calls.h"

namespace saqiya::redis {

class Across {
 public:
  // send: hands a request of one slot to the server that has it.
  Across(Calls* calls, std::function<void(std::uint64_t)> send)
      : calls_(*calls), send_(std::move(send)) {}

  // Computes a request's slot, or, of several, prepares for it. May throw std::bad_alloc.
  void expect(std::uint64_t seq);
  // Sends the first part of a request that expect() found to have several slots.
  void begin(std::uint64_t seq);
  // Takes up what has become of parts.
  void go_on(Micros now);
  // Answers those whose deadline has passed while they only waited for what they gave back.
  void expire(Micros now);
  Micros next_event() const;
  // Ends all; their parts have ended.
  void end_all(Reason reason);

 private:
  struct Key {
    std::uint32_t leader = 0;  // index of its part
    std::uint64_t at = 0;
    std::uint32_t size = 0;
  };
  struct Share {  // the keys of one slot
    std::uint16_t slot = 0;
    std::vector<Key> keys;
    std::vector<Group> refund;  // once it has charged: one
  };
  struct Plan {
    std::uint64_t seq = kNoCall;  // the request
    std::vector<Share> shares;
    std::size_t at = 0;  // the share that is being asked
    bool refused = false;
    Reason failure = Reason::kNone;
    bool acted = false;           // of a change: some of it was made, or may have been
    std::size_t giving_back = 0;  // refunds under way
  };

  void next(std::uint64_t id, Plan* plan);
  void take(Plan* plan, PartDone* done);
  static void fail(Plan* plan, Reason reason);
  void conclude(std::uint64_t id, Plan* plan);
  void finish(std::uint64_t id);
  std::uint64_t add_part(std::uint64_t id, const Plan& plan, const Share& share, Group group,
                         Micros deadline);

  Calls& calls_;
  const std::function<void(std::uint64_t)> send_;
  std::unordered_map<std::uint64_t, Plan> plans_;  // by what their parts call them
  std::uint64_t newest_ = 0;
};

}  // namespace saqiya::redis

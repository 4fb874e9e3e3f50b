// Who the master is, by asking sentinels: one after the other in quick succession, without waiting
// for those that are slow, until one has answered. Never waits.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/redis/config.h"
#include "core/redis/login.h"
#include "core/redis/stream.h"

namespace saqiya::redis {

class MasterFinder {
 public:
  // config outlives it; descriptors are registered with epoll_fd.
  MasterFinder(const Config& config, int epoll_fd);

  // Asks anew. The sentinel that answered last is asked first, on its old connection.
  void start(Micros now, Micros limit);
  // Goes on as far as it can.
  void advance(Micros now);
  bool is_running() const { return running_; }
  // When it runs no longer: the master; nothing, and then why, when no sentinel could tell.
  const std::optional<Place>& master() const { return master_; }
  Reason failure() const { return failure_; }
  const std::string& problem() const { return problem_; }
  // When advance() must be called at the latest; kForever: no need.
  Micros next_event(Micros now) const;
  // What the last answer said was of no use: next time others are asked first.
  void distrust();
  // Ends the question. Connections to sentinels that were not asked just now stay.
  void cancel();
  // Closes everything.
  void stop();
  // In a child after fork: closes the copies of descriptors without a byte to anyone.
  void abandon();

 private:
  struct Peer {
    Peer(const Config& config, int epoll_fd) : stream(config, epoll_fd) {}
    Place place;
    Stream stream;
    std::string awaited;  // what each reply to come answers: 'a'uth, 'm'aster, 's'entinels
    bool logged_in = false;
    Micros until = 0;  // when open: its answers come by then, or count no more
  };

  static constexpr std::size_t kMaxPeers = 8;  // asked at the same time

  void ask_next(Micros now);
  void ask(Peer* peer, Micros until);
  void advance(std::size_t at, Micros now);
  bool take_replies(Peer* peer);
  bool take_reply(const Reply& reply, char awaited);
  void learn(const Reply& reply);
  void drop(std::size_t at, Reason reason, std::string problem);
  void finish(std::size_t at);

  const Config& config_;
  const int epoll_fd_;
  std::vector<Place> known_;  // in the order in which they are asked
  std::size_t next_ = 0;      // of known_, to be asked next
  std::array<std::unique_ptr<Peer>, kMaxPeers> peers_;
  bool running_ = false;
  Micros limit_ = 0;
  Micros next_at_ = 0;  // when the next one is asked, if none has answered
  std::optional<Place> master_;
  Reason failure_ = Reason::kConnect;
  std::string problem_;
};

}  // namespace saqiya::redis

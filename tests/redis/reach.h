// One connection, driven by hand: whether it gets through, and if not, why.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "core/redis/config.h"
#include "core/redis/connection.h"
#include "core/redis/url.h"
#include "core/time.h"

namespace saqiya::testing {

class Reach {
 public:
  explicit Reach(std::string_view url, std::string nameservers = {}) : epoll_(epoll_create1(0)) {
    config_ = std::make_unique<redis::Config>();
    EXPECT_EQ(redis::parse_url(url, &config_->endpoint), "");
    config_->nameservers = std::move(nameservers);
    connection_ = std::make_unique<redis::Connection>(*config_, epoll_);
  }
  ~Reach() {
    connection_.reset();
    ::close(epoll_);
  }
  Reach(const Reach&) = delete;
  Reach& operator=(const Reach&) = delete;

  redis::Connection& connection() { return *connection_; }
  redis::Config& config() { return *config_; }

  // Opens it, and waits until it is ready or has failed. Which of both.
  bool open(Micros limit = 20 * kMicrosPerSecond) {
    Micros now = system_monotonic();
    connection_->open(config_->endpoint.places.front(), now, now + limit);
    while (true) {
      now = system_monotonic();
      connection_->advance(now);
      if (connection_->is_ready()) return true;
      if (connection_->state() == redis::Connection::State::kClosed) return false;
      const Micros left = connection_->next_event(now) - now;
      pollfd p{epoll_, POLLIN, 0};
      ::poll(&p, 1, static_cast<int>(std::clamp<Micros>(left / 1000 + 1, 0, 1000)));
    }
  }
  // Why it could not be opened: "" when it could.
  std::string problem(Micros limit = 20 * kMicrosPerSecond) {
    return open(limit) ? "" : connection_->problem();
  }
  Reason failure() const { return connection_->failure(); }

  // The next reply to what was written to output(), as text.
  std::string reply() {
    const Micros give_up = system_monotonic() + 20 * kMicrosPerSecond;
    EXPECT_TRUE(connection_->send());
    while (system_monotonic() < give_up) {
      if (connection_->reader().next() == redis::ReplyReader::Result::kReply) {
        const redis::Reply& reply = connection_->reader().reply();
        return std::string(reply.text(reply.root()));
      }
      pollfd p{connection_->fd(), POLLIN, 0};
      ::poll(&p, 1, 100);
      if (connection_->receive() == redis::Connection::Input::kClosed) break;
    }
    return "no reply";
  }

 private:
  const int epoll_;
  std::unique_ptr<redis::Config> config_;
  std::unique_ptr<redis::Connection> connection_;
};

}  // namespace saqiya::testing

// Host names, by a name server of the test's own.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/redis/store.h"
#include "tests/redis/fixture.h"

namespace saqiya::testing {
namespace {

// Answers questions for A records with 127.0.0.1 and says of everything else that there is none; or
// stays silent.
class NameServer {
 public:
  explicit NameServer(bool silent) : silent_(silent) {
    socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (socket_ < 0 || ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        ::pipe(stop_) != 0) {
      throw std::runtime_error("no name server");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~NameServer() {
    if (::write(stop_[1], "x", 1) == 1) thread_.join();
    for (const int fd : {socket_, stop_[0], stop_[1]}) ::close(fd);
  }
  NameServer(const NameServer&) = delete;
  NameServer& operator=(const NameServer&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int questions() const { return questions_; }
  void speak() { silent_ = false; }

 private:
  void run() {
    while (true) {
      pollfd polled[2] = {{stop_[0], POLLIN, 0}, {socket_, POLLIN, 0}};
      ::poll(polled, 2, -1);
      if (polled[0].revents != 0) return;
      char packet[512];
      sockaddr_storage from{};
      socklen_t from_size = sizeof from;
      const ssize_t got = ::recvfrom(socket_, packet, sizeof packet, 0,
                                     reinterpret_cast<sockaddr*>(&from), &from_size);
      if (got < 12) continue;
      ++questions_;
      if (silent_) continue;
      // Header, then the name as labels up to a zero, then type and class.
      std::size_t end = 12;
      while (packet[end] != 0) end += static_cast<std::size_t>(packet[end]) + 1;
      const bool is_a = packet[end + 2] == 1;
      end += 5;
      std::string answer(packet, end);
      answer[2] = static_cast<char>(0x81);
      answer[3] = static_cast<char>(0x80);
      answer[7] = is_a ? 1 : 0;
      answer[9] = answer[11] = 0;
      if (is_a) answer += std::string("\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\1", 16);
      ::sendto(socket_, answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from),
               from_size);
    }
  }

  std::atomic<bool> silent_;
  std::atomic<int> questions_{0};
  int socket_ = -1;
  int stop_[2] = {-1, -1};
  std::uint16_t port_ = 0;
  std::thread thread_;
};

std::shared_ptr<Store> named_store(const NameServer& names, std::uint16_t port, Micros deadline) {
  auto config = std::make_shared<redis::Config>();
  config->endpoint.host = "redis.example";
  config->endpoint.port = port;
  config->deadline = deadline;
  config->prefix = "sq:";
  config->nameservers = names.address();
  return std::make_shared<redis::RedisStore>(std::move(config));
}

TEST(RedisResolve, NamesAreAskedForWithoutWaiting) {
  RedisServer server;
  NameServer names(false);
  const auto store = named_store(names, server.port(), 20 * kMicrosPerSecond);
  const auto limiter = make_limiter(store, "9/h");
  EXPECT_EQ(names.questions(), 0);
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 8);
  EXPECT_GT(names.questions(), 0);
  // And through a queue, driven as an event loop does it.
  auto queue = open_queue(store);
  queue->submit(check(*limiter, "u"), 1);
  std::vector<Completion> done(1);
  const Micros give_up = system_monotonic() + 20 * kMicrosPerSecond;
  while (queue->drain(done) == 0 && system_monotonic() < give_up) {
    queue->process();
    const Micros due = queue->timeout();
    pollfd p{queue->fd(), POLLIN, 0};
    ::poll(&p, 1, due < 0 ? 1000 : static_cast<int>(due / 1000));
  }
  EXPECT_EQ(done[0].decision.remaining, 7);
}

// C62: a name server that never answers costs the deadline, and is asked again later.
TEST(RedisResolve, ASilentNameServerCostsTheDeadline) {
  RedisServer server;
  NameServer names(true);
  const auto store = named_store(names, server.port(), 50'000);
  const auto limiter = make_limiter(store, "9/h");
  const Micros start = system_monotonic();
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kResolve);
  EXPECT_GE(system_monotonic() - start, 50'000);
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kResolve);
  {
    auto queue = open_queue(store);
    queue->submit(check(*limiter, "u"), 1);
    queue->process();
    // Closing amid the question is safe.
  }
  names.speak();
  const Micros give_up = system_monotonic() + 30 * kMicrosPerSecond;
  Decision d;
  do {
    d = ask(check(*limiter, "u")).decision;
  } while (d.outcome == Outcome::kUnavailable && system_monotonic() < give_up);
  EXPECT_EQ(d.remaining, 8);
}

TEST(RedisResolve, ADeadAddressAmongGoodOnesIsPassedOver) {
  // localhost is ::1 and 127.0.0.1 in many hosts files; this server listens on one of them only.
  RedisServer server;
  const auto store = open("redis://localhost:" + std::to_string(server.port()), patient());
  EXPECT_EQ(outcome(check(*make_limiter(store, "2/h"), "u")), Outcome::kAllowed);
}

}  // namespace
}  // namespace saqiya::testing

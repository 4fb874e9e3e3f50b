// Peers that fall silent at each stage of opening: all of it ends within the limit.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/redis/black_hole.h"
#include "tests/redis/certificates.h"
#include "tests/redis/fake_server.h"
#include "tests/redis/fixture.h"
#include "tests/redis/reach.h"

namespace saqiya::testing {
namespace {

using ::testing::HasSubstr;

constexpr Micros kLimit = 200'000;

// Takes connections into its backlog and never says a word.
class Silence {
 public:
  Silence() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (socket_ < 0 || ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(socket_, 64) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("no listener");
    }
    port_ = ntohs(address.sin_port);
  }
  ~Silence() { ::close(socket_); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

  int socket() const { return socket_; }
  std::string place() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  const int socket_;
  std::uint16_t port_ = 0;
};

// At the limit, not at once, nor after each of several limits.
void expect_silence(const std::string& url, const std::string& problem) {
  Reach reach(url);
  const Micros start = system_monotonic();
  EXPECT_THAT(reach.problem(kLimit), HasSubstr(problem));
  EXPECT_GE(system_monotonic() - start, kLimit);
  EXPECT_LT(system_monotonic() - start, 10 * kLimit);
  EXPECT_EQ(reach.failure(), Reason::kConnect);
}

TEST(RedisSilence, BeforeTheConnection) {
  const BlackHole peer;
  expect_silence("redis://" + peer.place(), "cannot connect: no answer in time");
  expect_silence("rediss://" + peer.place(), "cannot connect: no answer in time");
  expect_silence("redis+sentinel://" + peer.place() + "/front",
                 "cannot connect: no answer in time");
}

// And so does a check, from a thread and from a queue; the operator is told.
TEST(RedisSilence, ChecksBeforeTheConnection) {
  const BlackHole peer;
  for (const std::string scheme : {"redis://", "redis+cluster://"}) {
    for (const bool queued : {false, true}) {
      SCOPED_TRACE(scheme + (queued ? ", queued" : ""));
      StoreOptions options;
      options.deadline = kLimit;
      const auto store = open(scheme + peer.place(), options);
      const auto limiter = make_limiter(store, "1/h");
      const auto queue = open_queue(store);
      const Micros start = system_monotonic();
      if (queued) {
        queue->submit(check(*limiter, "u"), 1);
        const auto all = collect(*queue, 1);
        ASSERT_EQ(all.size(), 1U);
        EXPECT_EQ(all[0].decision.reason, Reason::kConnect);
      } else {
        EXPECT_EQ(reason(check(*limiter, "u")), Reason::kConnect);
      }
      EXPECT_GE(system_monotonic() - start, kLimit);
      EXPECT_LT(system_monotonic() - start, 10 * kLimit);
      // The attempt may have a little more time than the request had.
      Event event;
      wait_until("the outage is told", [&] {
        queued ? queue->process() : static_cast<void>(ask(check(*limiter, "u")));
        return store->next_event(&event);
      });
      EXPECT_EQ(event.kind, Event::Kind::kOutage);
      EXPECT_THAT(std::string(event.message.data()), HasSubstr("no answer in time"));
    }
  }
}

TEST(RedisSilence, BeforeTheLogin) {
  const Silence peer;
  expect_silence("redis://:p@" + peer.place(), "no answer in time to the login");
}

TEST(RedisSilence, AmidTheLogin) {
  FakeServer peer(
      [](const Command&) { return stay_silent(); },
      [](const Command& command) { return command[0] == "AUTH" ? say("+OK\r\n") : stay_silent(); });
  expect_silence(peer.url(":p@"), "no answer in time to the login");
}

TEST(RedisSilence, BeforeTls) {
  const Silence peer;
  expect_silence("rediss://" + peer.place(), "no answer in time in the TLS handshake");
}

// The first bytes of a real server's part come, and then nothing.
TEST(RedisSilence, AmidTls) {
  ServerOptions options;
  options.tls = true;
  RedisServer server(options);
  const Silence peer;
  std::thread relay([&] {
    const int client = ::accept(peer.socket(), nullptr, nullptr);
    const int upstream = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(server.tls_port());
    ASSERT_EQ(::connect(upstream, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    char bytes[4096];
    ssize_t got = ::recv(client, bytes, sizeof bytes, 0);
    ASSERT_EQ(::send(upstream, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL), got);
    ASSERT_EQ(::recv(upstream, bytes, 100, MSG_WAITALL), 100);
    ASSERT_EQ(::send(client, bytes, 100, MSG_NOSIGNAL), 100);
    while (::recv(client, bytes, sizeof bytes, 0) > 0) {  // until it hangs up
    }
    ::close(upstream);
    ::close(client);
  });
  expect_silence("rediss://" + peer.place() + "?ca=" + certificates().ca,
                 "no answer in time in the TLS handshake");
  relay.join();
}

TEST(RedisSilence, ASentinel) {
  const Silence peer;
  expect_silence("redis+sentinel://" + peer.place() + "/front", "answer");
}

TEST(RedisSilence, ASentinelAmidItsAnswer) {
  FakeServer peer([](const Command&) { return stay_silent(); },
                  [](const Command& command) {
                    if (command[0] == "AUTH") return say("+OK\r\n");
                    return command[1] == "SENTINELS" ? stay_silent() : say("*2\r\n$9\r\n127.0");
                  });
  expect_silence("redis+sentinel://" + peer.url().substr(8) + "/front?sentinel_password=x",
                 "answer");
}

TEST(RedisSilence, AMasterThatASentinelNames) {
  const Silence master;
  const std::string port = master.place().substr(10);
  FakeServer peer([](const Command&) { return stay_silent(); },
                  [&](const Command& command) {
                    return say(command[1] == "SENTINELS"
                                   ? "*0\r\n"
                                   : "*2\r\n$9\r\n127.0.0.1\r\n$" + std::to_string(port.size()) +
                                         "\r\n" + port + "\r\n");
                  });
  expect_silence("redis+sentinel://" + peer.url().substr(8) + "/front",
                 "no answer in time to the login");
}

// C61: a store of silent sentinels costs the deadline, not a multiple of it by their number.
TEST(RedisSilence, ManySentinels) {
  std::vector<std::unique_ptr<Silence>> peers;
  std::string url = "redis+sentinel://";
  for (int i = 0; i < 20; ++i) {
    peers.push_back(std::make_unique<Silence>());
    url += peers.back()->place() + ",";
  }
  url.back() = '/';
  StoreOptions options;
  options.deadline = 200'000;
  const auto limiter = make_limiter(open(url + "front", options), "1/h");
  const Micros start = system_monotonic();
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kConnect);
  EXPECT_GE(system_monotonic() - start, 200'000);
  EXPECT_LT(system_monotonic() - start, 5 * 200'000);  // one each would be 20
}

// All but the last of a long list are silent.
TEST(RedisSilence, ManySentinelsBeforeOneThatAnswers) {
  RedisServer master;
  const std::string port = std::to_string(master.port());
  FakeServer sentinel([](const Command&) { return stay_silent(); },
                      [&](const Command& command) {
                        return say(command[1] == "SENTINELS"
                                       ? "*0\r\n"
                                       : "*2\r\n$9\r\n127.0.0.1\r\n$" +
                                             std::to_string(port.size()) + "\r\n" + port + "\r\n");
                      });
  std::vector<std::unique_ptr<Silence>> peers;
  std::string url = "redis+sentinel://";
  for (int i = 0; i < 20; ++i) {
    peers.push_back(std::make_unique<Silence>());
    url += peers.back()->place() + ",";
  }
  EXPECT_EQ(Reach(url + sentinel.url().substr(8) + "/front").problem(), "");
}

// The descriptors of this process that are connected to a port.
std::vector<int> connected_to(std::uint16_t port) {
  rlimit most{};
  ::getrlimit(RLIMIT_NOFILE, &most);
  std::vector<int> found;
  for (int fd = 0; fd < static_cast<int>(std::min<rlim_t>(most.rlim_cur, 4096)); ++fd) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    const bool there = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (there && peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) found.push_back(fd);
  }
  return found;
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

// C60: what no test can wait for, a peer that vanishes without a word while nothing is asked, is
// the kernel's to notice.
TEST(RedisSilence, TheKernelIsToldToNoticeAVanishedPeer) {
  RedisServer server;
  const auto limiter = make_limiter(open(server.url(), patient()), "1/h");
  ASSERT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
  const std::vector<int> sockets = connected_to(server.port());
  ASSERT_EQ(sockets.size(), 1u);
  EXPECT_EQ(option(sockets[0], SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(sockets[0], IPPROTO_TCP, TCP_KEEPIDLE), 30);
  EXPECT_EQ(option(sockets[0], IPPROTO_TCP, TCP_KEEPINTVL), 10);
  EXPECT_EQ(option(sockets[0], IPPROTO_TCP, TCP_KEEPCNT), 3);
  EXPECT_EQ(option(sockets[0], IPPROTO_TCP, TCP_USER_TIMEOUT), 30'000);
  EXPECT_EQ(option(sockets[0], IPPROTO_TCP, TCP_NODELAY), 1);
}

}  // namespace
}  // namespace saqiya::testing

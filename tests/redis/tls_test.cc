// TLS: who is trusted, what is said when somebody is not, and what breaks.

#include <array>
#include <filesystem>
#include <thread>

#include "core/redis/resp.h"
#include "tests/redis/certificates.h"
#include "tests/redis/child.h"
#include "tests/redis/fixture.h"
#include "tests/redis/reach.h"

namespace saqiya::testing {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<RedisServer> tls_server(const std::string& auth_clients = "no",
                                        std::vector<std::string> arguments = {}) {
  ServerOptions options;
  options.tls = true;
  options.tls_auth_clients = auth_clients;
  options.arguments = std::move(arguments);
  return std::make_unique<RedisServer>(options);
}

std::string ca() { return "?ca=" + certificates().ca; }

TEST(RedisTls, TheRightAuthorityAndName) {
  const auto server = tls_server();
  EXPECT_EQ(Reach(server->tls_url("", ca())).problem(), "");
  const std::string port = std::to_string(server->tls_port());
  EXPECT_EQ(Reach("rediss://localhost:" + port + ca()).problem(), "");
  EXPECT_EQ(Reach(server->tls_url("", ca() + "&server_name=localhost.")).problem(), "");
  EXPECT_EQ(Reach(server->tls_url("", "/2" + ca() + "&client_name=me")).problem(), "");
  const auto limiter = make_limiter(open(server->tls_url("", ca()), patient()), "3/h");
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 2);
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 1);
}

TEST(RedisTls, AWrongAuthorityIsRefused) {
  const auto server = tls_server();
  Reach other(server->tls_url("", "?ca=" + certificates().other_ca));
  EXPECT_THAT(other.problem(), HasSubstr("certificate verify failed"));
  EXPECT_EQ(other.failure(), Reason::kConnect);
  // The system's authorities have not signed it either.
  EXPECT_THAT(Reach(server->tls_url()).problem(), HasSubstr("certificate verify failed"));
  EXPECT_EQ(Reach(server->tls_url("", "?verify=no")).problem(), "");
}

TEST(RedisTls, AWrongNameIsRefused) {
  const KeyPair& pair = certificates().elsewhere;
  const auto server =
      tls_server("no", {"--tls-cert-file", pair.certificate, "--tls-key-file", pair.key});
  EXPECT_THAT(Reach(server->tls_url("", ca())).problem(), HasSubstr("IP address mismatch"));
  EXPECT_THAT(Reach("rediss://localhost:" + std::to_string(server->tls_port()) + ca()).problem(),
              HasSubstr("hostname mismatch"));
  EXPECT_EQ(Reach(server->tls_url("", ca() + "&server_name=another.example")).problem(), "");
  EXPECT_THAT(Reach(server->tls_url("", ca() + "&server_name=127.0.0.1")).problem(),
              HasSubstr("mismatch"));
}

TEST(RedisTls, AnExpiredCertificateIsRefused) {
  const TemporaryDirectory directory;
  const std::string at = directory.path() + "/expired";
  const std::string authority = std::filesystem::path(certificates().ca).replace_extension("key");
  run({"openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
       "-subj", "/CN=localhost", "-keyout", at + ".key", "-out", at + ".csr"});
  run({"openssl", "x509", "-req", "-in", at + ".csr", "-CA", certificates().ca, "-CAkey", authority,
       "-set_serial", "77", "-days", "-1", "-out", at + ".crt"});
  const auto server =
      tls_server("no", {"--tls-cert-file", at + ".crt", "--tls-key-file", at + ".key"});
  EXPECT_THAT(Reach(server->tls_url("", ca() + "&server_name=localhost")).problem(),
              HasSubstr("expired"));
}

TEST(RedisTls, ClientCertificates) {
  const auto server = tls_server("yes");
  const KeyPair& pair = certificates().client;
  const std::string mine = "&cert=" + pair.certificate + "&key=" + pair.key;
  EXPECT_EQ(Reach(server->tls_url("", ca() + mine)).problem(), "");
  // With TLS 1.3 the refusal comes after the handshake, amid the login.
  Reach without(server->tls_url("", ca()));
  EXPECT_THAT(without.problem(), ::testing::AnyOf(HasSubstr("TLS: "), HasSubstr("hung up")));
  EXPECT_EQ(without.failure(), Reason::kConnect);
  const auto limiter = make_limiter(open(server->tls_url("", ca() + mine), patient()), "2/h");
  EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
}

// Files are read when they are needed, and again once that has failed.
TEST(RedisTls, FilesAreReadLateAndAgain) {
  const auto server = tls_server("yes");
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/renewed.";
  const auto store =
      open(server->tls_url("", "?ca=" + file + "ca&cert=" + file + "crt&key=" + file + "key"),
           patient());
  Reach reach(server->tls_url("", "?ca=" + file + "ca&cert=" + file + "crt&key=" + file + "key"));
  EXPECT_THAT(reach.problem(), HasSubstr("TLS: ca: "));
  const auto copy = [](const std::string& from, const std::string& to) {
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  };
  copy(certificates().other_ca, file + "ca");
  EXPECT_THAT(reach.problem(), HasSubstr("TLS: cert: "));
  copy(certificates().client.certificate, file + "crt");
  copy(certificates().server.key, file + "key");
  EXPECT_THAT(reach.problem(), HasSubstr("TLS: key: "));
  copy(certificates().client.key, file + "key");
  EXPECT_THAT(reach.problem(), HasSubstr("certificate verify failed"));
  copy(certificates().ca, file + "ca");
  EXPECT_EQ(reach.problem(), "");
  const auto limiter = make_limiter(store, "9/h");
  EXPECT_EQ(ask(check(*limiter, "u")).decision.remaining, 8);
}

// An encrypted key is an error, and nobody is asked for its password.
TEST(RedisTls, AnEncryptedKeyIsRefused) {
  const auto server = tls_server("yes");
  const TemporaryDirectory directory;
  const std::string locked = directory.path() + "/locked.key";
  run({"openssl", "ec", "-aes128", "-passout", "pass:hunter2", "-in", certificates().client.key,
       "-out", locked});
  Reach reach(
      server->tls_url("", ca() + "&cert=" + certificates().client.certificate + "&key=" + locked));
  EXPECT_THAT(reach.problem(), HasSubstr("TLS: key: "));
}

TEST(RedisTls, OneSideSpeaksTlsAndTheOtherDoesNot) {
  const auto server = tls_server();
  Reach plain("redis://:hunter2@127.0.0.1:" + std::to_string(server->tls_port()));
  EXPECT_THAT(plain.problem(), HasSubstr("TLS"));
  EXPECT_EQ(plain.problem().find("hunter2"), std::string::npos);
  Reach secured("rediss://:hunter2@127.0.0.1:" + std::to_string(server->port()) + ca());
  EXPECT_THAT(secured.problem(500'000), HasSubstr("TLS"));
  EXPECT_EQ(secured.failure(), Reason::kConnect);
}

TEST(RedisTls, RefusedLoginsDoNotShowThePassword) {
  const auto server = tls_server();
  Reach reach(server->tls_url("user:hunter2@", ca()));
  EXPECT_THAT(reach.problem(), HasSubstr("WRONGPASS"));
  EXPECT_EQ(reach.failure(), Reason::kAuth);
  EXPECT_EQ(reach.connection().problem().find("hunter2"), std::string::npos);
}

// Replies larger than a TLS record, many at once: none is left where no poll sees it.
TEST(RedisTls, NothingIsLeftUnread) {
  const auto server = tls_server();
  Reach reach(server->tls_url("", ca()));
  ASSERT_TRUE(reach.open());
  const std::string big(40'000, 'x');
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5; ++i) {
      redis::append_command(std::array<std::string_view, 2>{"ECHO", big},
                            reach.connection().output());
      redis::append_command(std::array<std::string_view, 2>{"ECHO", std::to_string(i)},
                            reach.connection().output());
    }
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(reach.reply().front(), 'x');
      EXPECT_EQ(reach.reply(), std::to_string(i));
    }
  }
}

TEST(RedisTls, QueuesAndBatches) {
  const auto server = tls_server();
  const auto store = open(server->tls_url("", ca()), patient());
  const auto limiter = make_limiter(store, "1/h burst 5000");
  auto queue = open_queue(store);
  std::size_t allowed = 0;
  for (int round = 0; round < 5; ++round) {
    for (std::uint64_t i = 0; i < 2000; ++i) queue->submit(check(*limiter, "u"), i);
    for (const Completion& c : collect(*queue, 2000)) {
      allowed += c.decision.outcome == Outcome::kAllowed ? 1 : 0;
    }
  }
  EXPECT_EQ(allowed, 5000U);
}

// Reconnecting resumes the session, so that a storm of reconnections costs the server less.
TEST(RedisTls, SessionsAreResumed) {
  const auto server = tls_server();
  Reach reach(server->tls_url("", ca()));
  ASSERT_TRUE(reach.open());
  redis::append_command(std::array<std::string_view, 1>{"PING"}, reach.connection().output());
  EXPECT_EQ(reach.reply(), "PONG");
  EXPECT_FALSE(reach.connection().is_resumed());
  for (int i = 0; i < 3; ++i) {
    reach.connection().close();
    ASSERT_TRUE(reach.open());
    EXPECT_TRUE(reach.connection().is_resumed());
  }
}

TEST(RedisTls, OperatorsAreToldWhatFailed) {
  const auto server = tls_server();
  const auto store = open(server->tls_url("", "?ca=" + certificates().other_ca), patient());
  const auto limiter = make_limiter(store, "9/h");
  EXPECT_EQ(reason(check(*limiter, "u")), Reason::kConnect);
  Event event;
  ASSERT_TRUE(store->next_event(&event));
  EXPECT_EQ(event.kind, Event::Kind::kOutage);
  EXPECT_THAT(std::string(event.message.data()), ::testing::HasSubstr("certificate"));
}

// C65: connections die amid writes; SIGPIPE stays deadly and does not come.
TEST(RedisTlsDeathTest, AClosedConnectionRaisesNoSignal) {
  const auto server = tls_server();
  const auto store = open(server->tls_url("", ca()), patient());
  const auto limiter = make_limiter(store, "1/h burst 100000");
  ASSERT_TRUE(sigpipe_is_deadly());
  auto queue = open_queue(store);
  for (int round = 0; round < 50; ++round) {
    for (std::uint64_t i = 0; i < 256; ++i) {
      queue->submit(check(*limiter, "u" + std::to_string(i)), i);
      if (i == 100) server->client()({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    }
    EXPECT_EQ(collect(*queue, queue->pending()).size(), 256U);
  }
  server->kill();
  for (std::uint64_t i = 0; i < 256; ++i) queue->submit(check(*limiter, "u"), i);
  EXPECT_EQ(collect(*queue, queue->pending()).size(), 256U);
}

// C130: children and the parent have connections of their own, and the parent's is not disturbed
// by a byte of theirs.
TEST(RedisTls, ForksDoNotShareConnections) {
  const auto server = tls_server();
  const auto store = open(server->tls_url("", ca()), patient());
  const auto limiter = make_limiter(store, "1/h burst 100000", "nonce");
  ASSERT_EQ(outcome(check(*limiter, "warm")), Outcome::kAllowed);
  const std::string before = server->client().info("total_connections_received");
  const auto asks = [&](int who) {
    for (int i = 1; i <= 500; ++i) {
      const std::string key = std::to_string(who) + ":" + std::to_string(i);
      if (ask(check(*limiter, key, i)).decision.remaining != 100'000 - i) return 1;
    }
    return 0;
  };
  std::vector<pid_t> children;
  for (int child = 1; child <= 8; ++child) {
    children.push_back(in_child([&] { return asks(child); }));
  }
  EXPECT_EQ(asks(0), 0);
  for (const pid_t pid : children) EXPECT_EQ(exit_code(pid), 0);
  EXPECT_EQ(store->stats().connects, 1U);
  // Eight children, and the two connections of this test's own.
  EXPECT_LE(std::stoi(server->client().info("total_connections_received")) - std::stoi(before), 9);
}

// C131: threads connect without end while the process forks; no child waits for a lock that one of
// them held.
TEST(RedisTls, ForksWhileThreadsConnect) {
  const auto server = tls_server();
  const std::string url = server->tls_url("", ca());
  const auto store = open(url, patient());
  const auto limiter = make_limiter(store, "1/s burst 1000000", "n");
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreadsBesideForks / 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) EXPECT_EQ(outcome(check(*limiter, "u")), Outcome::kAllowed);
    });
    threads.emplace_back([&] {
      Reach reach(url);
      while (!stop) {
        EXPECT_EQ(reach.problem(), "");
        reach.connection().close();
      }
    });
  }
  int bad = 0;
  for (int i = 0; i < 60; ++i) {
    const pid_t child =
        in_child([&] { return outcome(check(*limiter, "u")) == Outcome::kAllowed ? 0 : 1; });
    bad += exit_code(child) == 0 ? 0 : 1;
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace saqiya::testing

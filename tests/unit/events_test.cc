// What an operator is told: few events, with the right numbers, in any weather.
#include "core/redis/events.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "core/fork.h"

namespace saqiya::redis {
namespace {

constexpr Micros kSecond = kMicrosPerSecond;

class EventsTest : public ::testing::Test {
 protected:
  std::vector<Event> take() {
    std::vector<Event> all;
    Event event;
    while (events_.next(&event)) all.push_back(event);
    return all;
  }

  // Long ago, so that what is to be told late is due; before zero, where the machine started
  // lately.
  Micros start_ = system_monotonic() - 3600 * kSecond;
  std::atomic<std::uint64_t> unanswered_{100};
  Events events_{unanswered_};
};

TEST_F(EventsTest, AnOutageAndItsEnd) {
  EXPECT_FALSE(events_.any());
  EXPECT_FALSE(events_.is_degraded());
  events_.outage("db:6379", Reason::kConnect, start_);
  EXPECT_TRUE(events_.any());
  EXPECT_TRUE(events_.is_degraded());
  unanswered_ += 4321;
  events_.recovered("db:6379", start_ + 60 * kSecond);
  EXPECT_FALSE(events_.is_degraded());
  EXPECT_EQ(events_.outages(), 1U);
  const std::vector<Event> all = take();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].kind, Event::Kind::kOutage);
  EXPECT_EQ(all[0].reason, Reason::kConnect);
  EXPECT_STREQ(all[0].server.data(), "db:6379");
  EXPECT_STREQ(all[0].message.data(),
               "Redis at db:6379 does not answer (no connection): limiters follow their failure "
               "policies");
  EXPECT_EQ(all[1].kind, Event::Kind::kRecovered);
  EXPECT_EQ(all[1].duration, 60 * kSecond);
  EXPECT_EQ(all[1].decisions, 4321U);
  EXPECT_EQ(all[1].suppressed, 0U);
  EXPECT_STREQ(all[1].message.data(),
               "Redis at db:6379 answers again after 60.000 s; requests it did not answer: 4321");
  EXPECT_FALSE(events_.any());
}

// Up and down every second for a minute: one pair in ten seconds, and the others are counted.
TEST_F(EventsTest, FlappingIsToldNowAndThen) {
  for (int i = 0; i < 30; ++i) {
    events_.outage("db", Reason::kLost, start_ + 2 * i * kSecond);
    events_.recovered("db", start_ + (2 * i + 1) * kSecond);
  }
  const std::vector<Event> all = take();
  ASSERT_EQ(all.size(), 12U);
  std::uint32_t suppressed = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].kind, i % 2 == 0 ? Event::Kind::kOutage : Event::Kind::kRecovered);
    suppressed += all[i].suppressed;
  }
  EXPECT_EQ(suppressed, 5U * 8U) << "those after the last pair have not been told yet";
  EXPECT_EQ(events_.outages(), 30U);
}

// One that follows another at once, but lasts: told when the quiet time is over.
TEST_F(EventsTest, ALastingOutageIsToldLate) {
  events_.outage("db", Reason::kLost, start_);
  events_.recovered("db", start_ + kSecond);
  events_.outage("db", Reason::kTimeout, start_ + 2 * kSecond);
  std::vector<Event> all = take();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[2].kind, Event::Kind::kOutage);
  EXPECT_EQ(all[2].reason, Reason::kTimeout);
  events_.recovered("db", start_ + 90 * kSecond);
  all = take();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].duration, 88 * kSecond);
}

TEST_F(EventsTest, ALastingOutageIsNotToldTooEarly) {
  const Micros now = system_monotonic();
  events_.outage("db", Reason::kLost, now);
  events_.recovered("db", now);
  EXPECT_EQ(take().size(), 2U);
  events_.outage("db", Reason::kLost, now);
  EXPECT_FALSE(events_.any());
  EXPECT_TRUE(take().empty());
  EXPECT_TRUE(events_.is_degraded());
}

// Six nodes that die together are one outage, from the first until the last.
TEST_F(EventsTest, SeveralServersAreOneOutage) {
  for (int i = 0; i < 6; ++i) {
    events_.outage("node" + std::to_string(i), Reason::kConnect, start_ + i);
  }
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(events_.is_degraded());
    events_.recovered("node" + std::to_string(i), start_ + 5 * kSecond + i);
  }
  const std::vector<Event> all = take();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_STREQ(all[0].server.data(), "node0");
  EXPECT_STREQ(all[1].server.data(), "node5");
  EXPECT_EQ(all[1].duration, 5 * kSecond + 5);
  EXPECT_EQ(all[1].suppressed, 10U);
  EXPECT_EQ(events_.outages(), 1U);
}

TEST_F(EventsTest, RefusalsAreToldOnceAMinuteForEachReason) {
  for (int i = 0; i < 1200; ++i) {
    const Micros now = start_ + i * kSecond / 10;
    events_.refused(Reason::kServerMemory, "db", "OOM command not allowed", now);
    events_.refused(Reason::kPermission, "db", "NOPERM\r\nno", now);
  }
  const std::vector<Event> all = take();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].reason, Reason::kServerMemory);
  EXPECT_STREQ(all[0].message.data(), "Redis at db: it is out of memory: OOM command not allowed");
  EXPECT_STREQ(all[1].message.data(),
               "Redis at db: its access rules forbid what a limiter needs: NOPERM  no");
  EXPECT_EQ(all[2].suppressed, 2 * 599U);
}

TEST_F(EventsTest, LongTextsAreCut) {
  events_.refused(Reason::kProtocol, std::string(500, 's'), std::string(5000, 'x'), start_);
  events_.outage(std::string(500, 's'), Reason::kConnect, start_);
  for (const Event& event : take()) {
    EXPECT_EQ(std::string(event.server.data()), std::string(111, 's'));
    EXPECT_LE(std::string(event.message.data()).size(), 247U);
  }
}

// Nobody takes them: the newest stay.
TEST_F(EventsTest, TheOldestGoFirst) {
  for (int i = 0; i < 100; ++i) {
    events_.outage("db" + std::to_string(i), Reason::kLost, start_ + i * 20 * kSecond);
    events_.recovered("db", start_ + (i * 20 + 1) * kSecond);
  }
  const std::vector<Event> all = take();
  ASSERT_EQ(all.size(), Events::kMost);
  EXPECT_STREQ(all[0].server.data(), "db68");
  std::uint32_t suppressed = 0;
  for (const Event& event : all) suppressed += event.suppressed;
  EXPECT_EQ(suppressed, 200 - Events::kMost);
}

TEST_F(EventsTest, EachIsTakenOnceByManyThreads) {
  std::atomic<std::size_t> taken{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      Event event;
      while (!done || events_.any()) {
        if (events_.next(&event)) {
          ++taken;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  std::size_t told = 0;
  for (int i = 0; i < 300; ++i) {
    events_.outage("db", Reason::kLost, start_ + i * 20 * kSecond);
    events_.recovered("db", start_ + (i * 20 + 1) * kSecond);
    told += 2;
    while (events_.any()) std::this_thread::yield();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, told);
}

// A child knows that there is an outage; its parent's events it does not tell.
TEST_F(EventsTest, AChildBeginsWithoutEvents) {
  ASSERT_TRUE(watch_forks());
  events_.outage("db", Reason::kConnect, start_);
  const pid_t child = fork();
  if (child == 0) {
    Event event;
    bool good = !events_.is_degraded() && !events_.next(&event);
    events_.outage("db", Reason::kConnect, start_ + 20 * kSecond);
    good = good && events_.is_degraded() && events_.next(&event);
    good = good && event.kind == Event::Kind::kOutage;
    _exit(good && !events_.any() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(take().size(), 1U);
}

// A server that stalls and answers: whoever saw it answer may be faster here than who saw it stall.
TEST_F(EventsTest, TheEndMayBeToldBeforeTheBeginning) {
  events_.recovered("db", start_);
  EXPECT_FALSE(events_.is_degraded());
  events_.outage("db", Reason::kTimeout, start_);
  EXPECT_FALSE(events_.is_degraded());
  EXPECT_TRUE(take().empty());
  events_.outage("db", Reason::kConnect, start_ + 20 * kSecond);
  EXPECT_TRUE(events_.is_degraded());
  EXPECT_EQ(take().size(), 1U);
}

// Some errors repeat what was sent: keys are nobody's business.
TEST_F(EventsTest, NoKeyIsTold) {
  events_.refused(
      Reason::kProtocol, "db",
      "ERR unknown command 'EVALSHA', with args beginning with: '8f3a' '1' 'sq:{ann}:x'", start_);
  const std::vector<Event> all = take();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_STREQ(all[0].message.data(),
               "Redis at db: it refuses requests: ERR unknown command 'EVALSHA'");
}

}  // namespace
}  // namespace saqiya::redis

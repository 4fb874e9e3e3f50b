#include "core/redis/breaker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

namespace saqiya::redis {
namespace {

constexpr Micros kStart = 5 * kMicrosPerSecond;

TEST(Breaker, IsClosedAtFirst) {
  Breaker breaker;
  EXPECT_FALSE(breaker.is_open());
  EXPECT_FALSE(breaker.try_claim(kStart));
  EXPECT_FALSE(breaker.succeeded(kStart));
}

TEST(Breaker, OpensOnceAndTellsWhy) {
  Breaker breaker;
  EXPECT_TRUE(breaker.failed(Reason::kAuth, kStart));
  EXPECT_TRUE(breaker.is_open());
  EXPECT_EQ(breaker.reason(), Reason::kAuth);
  EXPECT_GE(breaker.retry_at(), kStart);
  EXPECT_LE(breaker.retry_at(), kStart + 10'000);
  const std::uint64_t claim = breaker.try_claim(kStart + 10'000);
  EXPECT_NE(claim, 0U);
  EXPECT_FALSE(breaker.failed(Reason::kConnect, kStart + 10'000, claim));
  EXPECT_EQ(breaker.reason(), Reason::kConnect);
}

TEST(Breaker, OneAttemptAtATime) {
  Breaker breaker;
  breaker.failed(Reason::kConnect, kStart);
  const Micros due = breaker.retry_at();
  EXPECT_FALSE(breaker.try_claim(due - 1));
  EXPECT_TRUE(breaker.try_claim(due));
  EXPECT_FALSE(breaker.try_claim(due));
  EXPECT_FALSE(breaker.try_claim(due + Breaker::kLongestProbe));
  EXPECT_TRUE(breaker.succeeded(due + 5));
  EXPECT_FALSE(breaker.is_open());
  EXPECT_FALSE(breaker.succeeded(due + 6));
}

TEST(Breaker, AClaimThatNobodyEndsExpires) {
  Breaker breaker;
  breaker.failed(Reason::kConnect, kStart);
  ASSERT_TRUE(breaker.try_claim(kStart + 10'000));
  EXPECT_TRUE(breaker.try_claim(kStart + 10'000 + 2 * Breaker::kLongestProbe));
}

TEST(Breaker, PausesDoubleUpToAlmostASecondForEver) {
  Breaker breaker;
  Micros now = kStart;
  Micros longest = 10'000;
  std::set<Micros> pauses;
  breaker.failed(Reason::kConnect, now);
  for (int i = 0; i < 100; ++i) {
    const Micros pause = breaker.retry_at() - now;
    EXPECT_GE(pause, 0);
    EXPECT_LE(pause, longest);
    if (longest == Breaker::kLongestPause) {
      EXPECT_GE(pause, longest / 10 * 9);
    }
    pauses.insert(pause);
    now = breaker.retry_at();
    const std::uint64_t claim = breaker.try_claim(now);
    ASSERT_NE(claim, 0U);
    EXPECT_FALSE(breaker.failed(Reason::kConnect, now, claim));
    longest = std::min(2 * longest, Breaker::kLongestPause);
  }
  EXPECT_GT(pauses.size(), 50u);  // they are random
}

TEST(Breaker, AttemptsFromBeforeItOpenedCountOnce) {
  Breaker breaker;
  for (int i = 0; i < 1000; ++i) breaker.failed(Reason::kConnect, kStart);
  EXPECT_LE(breaker.retry_at(), kStart + 10'000);
}

TEST(Breaker, ASilentServerMayBeTriedAtOnce) {
  Breaker breaker;
  EXPECT_TRUE(breaker.fell_silent(Reason::kTimeout, kStart));
  EXPECT_FALSE(breaker.fell_silent(Reason::kTimeout, kStart));
  EXPECT_TRUE(breaker.try_claim(kStart));
}

// Whatever a server does after each handshake, it is not tried more and more often.
TEST(Breaker, AServerThatNeverLastsIsBackedOffFrom) {
  for (const bool silent : {false, true}) {
    Breaker breaker;
    Micros now = kStart;
    int attempts = 0;
    while (now < kStart + 60 * kMicrosPerSecond) {
      if (silent) {
        breaker.fell_silent(Reason::kTimeout, now);
      } else {
        breaker.failed(Reason::kReadOnly, now);
      }
      now = std::max(now, breaker.retry_at());
      ASSERT_TRUE(breaker.try_claim(now));
      ++attempts;
      breaker.succeeded(now);
    }
    EXPECT_LT(attempts, 100);
  }
}

TEST(Breaker, AServerThatLastedIsTriedSoonAgain) {
  Breaker breaker;
  Micros now = kStart;
  std::uint64_t claim = 0;
  for (int i = 0; i < 20; ++i) {
    breaker.failed(Reason::kConnect, now, claim);
    now = breaker.retry_at();
    claim = breaker.try_claim(now);
    ASSERT_NE(claim, 0U);
  }
  breaker.succeeded(now);
  now += 10 * kMicrosPerSecond;
  EXPECT_TRUE(breaker.failed(Reason::kConnect, now));
  EXPECT_LE(breaker.retry_at(), now + 10'000);
}

TEST(Breaker, ThreadsGetOneClaimAmongThem) {
  for (int round = 0; round < 50; ++round) {
    Breaker breaker;
    breaker.failed(Reason::kConnect, kStart);
    std::atomic<int> claims{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        if (breaker.try_claim(kStart + 10'000)) ++claims;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(claims, 1);
  }
}

TEST(Breaker, AClaimThatIsGivenUpIsSomebodyElses) {
  Breaker breaker;
  breaker.failed(Reason::kConnect, kStart);
  const std::uint64_t first = breaker.try_claim(kStart + 10'000);
  ASSERT_NE(first, 0U);
  ASSERT_EQ(breaker.try_claim(kStart + 10'000), 0U);
  breaker.give_up(first);
  EXPECT_TRUE(breaker.is_open());
  EXPECT_NE(breaker.try_claim(kStart + 10'000), 0U);
}

// Neither an attempt from before it opened nor one whose claim has expired ends another's.
TEST(Breaker, AClaimIsEndedByItsOwnerOnly) {
  Breaker breaker;
  breaker.failed(Reason::kConnect, kStart);
  const std::uint64_t first = breaker.try_claim(kStart + 10'000);
  const Micros later = kStart + 10'000 + 2 * Breaker::kLongestProbe;
  const std::uint64_t second = breaker.try_claim(later);
  ASSERT_NE(second, 0U);
  breaker.give_up(first);
  breaker.failed(Reason::kConnect, later, first);
  breaker.failed(Reason::kConnect, later);
  EXPECT_EQ(breaker.try_claim(later), 0U);
  breaker.give_up(second);
  EXPECT_NE(breaker.try_claim(later), 0U);
}

// C75: a hundred processes that lost their server at one instant do not come back together.
TEST(Breaker, ManyProcessesSpreadTheirAttempts) {
  constexpr Micros kFrom = kStart + 10 * kMicrosPerSecond;
  std::array<int, 4> quarters{};  // of a second: who came when
  for (int process = 0; process < 100; ++process) {
    Breaker breaker;
    Micros now = kStart;
    breaker.failed(Reason::kConnect, now);
    int attempts = 0;
    while (now < kFrom + kMicrosPerSecond) {
      now = breaker.retry_at();
      const std::uint64_t claim = breaker.try_claim(now);
      ASSERT_NE(claim, 0U);
      breaker.failed(Reason::kConnect, now, claim);
      if (now >= kFrom && now < kFrom + kMicrosPerSecond) {
        ++quarters[static_cast<std::size_t>((now - kFrom) / (kMicrosPerSecond / 4))];
        ++attempts;
      }
    }
    EXPECT_GE(attempts, 1);
    EXPECT_LE(attempts, 2);
  }
  for (const int came : quarters) {
    EXPECT_GE(came, 5);
    EXPECT_LE(came, 60);
  }
}

Place server(std::uint16_t port) {
  Place place;
  place.host = "10.0.0.1";
  place.port = port;
  return place;
}

TEST(Breakers, EachServerHasOne) {
  Breakers breakers;
  EXPECT_EQ(breakers.of(server(1)), breakers.of(server(1)));
  EXPECT_NE(breakers.of(server(1)), breakers.of(server(2)));
}

TEST(Breakers, ThoseOfServersThatAreGoneAreClosed) {
  Breakers breakers;
  for (std::uint16_t port = 1; port <= 3; ++port) {
    breakers.of(server(port))->failed(Reason::kConnect, kStart);
  }
  EXPECT_EQ(breakers.keep_only({server(2), server(4)}, kStart), 2U);
  EXPECT_FALSE(breakers.of(server(1))->is_open());
  EXPECT_TRUE(breakers.of(server(2))->is_open());
  EXPECT_FALSE(breakers.of(server(3))->is_open());
  EXPECT_EQ(breakers.keep_only({server(2), server(4)}, kStart), 0U);
}

}  // namespace
}  // namespace saqiya::redis

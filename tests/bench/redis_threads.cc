// Blocking checks over Redis from many threads that share one store, beside a bare hiredis round
// trip of the same EVALSHA; a server of its own, 1,000 users, different keys.
//
//     redis_threads [rounds [milliseconds]]
//
// Prints a line of JSON for each round, transport, load (mostly allowed, mostly refused) and number
// of threads, 0 being the one of hiredis. All microseconds:
//   rate                    checks per second
//   p50, p99                of one check
//   client_cpu, server_cpu  CPU per check, of this process and of the server
#include <hiredis/hiredis.h>
#include <saqiya/saqiya.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/redis/server.h"

namespace {

using saqiya::testing::RedisServer;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kUsers = 1'000;
constexpr int kThreads[] = {1, 4, 16, 64};

struct Load {
  const char* mostly;
  const char* policy;
};
constexpr Load kLoads[] = {{"allowed", "5/s burst 1000000"}, {"refused", "5/s burst 20"}};

void must(bool good) {
  if (!good) throw std::runtime_error("a call failed");
}

std::string user(std::size_t i) { return "user" + std::to_string(100'000 + i); }

// What one caller does, again and again, with one user after another.
using Step = std::function<void(std::size_t)>;

struct Figures {
  double rate = 0;
  double p50 = 0;
  double p99 = 0;
  double client_cpu = 0;
  double server_cpu = 0;
};

// Microseconds of CPU that this process has taken, and those of the server.
double client_us() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

double server_us(const RedisServer& server) {
  saqiya::testing::Client client = server.client();
  return 1e6 * (std::stod(client.info("used_cpu_user")) + std::stod(client.info("used_cpu_sys")));
}

// Each thread makes its own step; all of them then run for the time given.
Figures run(const RedisServer& server, int threads, std::chrono::milliseconds time,
            const std::function<Step()>& make_step) {
  std::atomic<int> ready{0};
  std::atomic<bool> stop{false};
  std::vector<std::vector<float>> taken(static_cast<std::size_t>(threads));
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      const Step step = make_step();
      std::vector<float>& mine = taken[static_cast<std::size_t>(t)];
      mine.reserve(1'000'000);
      auto x = static_cast<std::uint32_t>(t);
      ++ready;
      while (ready < threads) std::this_thread::yield();
      auto before = SteadyClock::now();
      while (!stop) {
        x = x * 1664525 + 1013904223;
        step((x >> 8) % kUsers);
        const auto after = SteadyClock::now();
        mine.push_back(std::chrono::duration<float, std::micro>(after - before).count());
        before = after;
      }
    });
  }
  while (ready < threads) std::this_thread::yield();
  const double server_before = server_us(server);
  const double client_before = client_us();
  const auto start = SteadyClock::now();
  std::this_thread::sleep_for(time);
  stop = true;
  for (std::thread& t : all) t.join();
  const double seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
  const double client = client_us() - client_before;
  const double served = server_us(server) - server_before;
  std::vector<float> times;
  for (const auto& some : taken) times.insert(times.end(), some.begin(), some.end());
  must(!times.empty());
  const auto at = [&](double share) {
    const auto nth =
        times.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(times.size() - 1));
    std::nth_element(times.begin(), nth, times.end());
    return static_cast<double>(*nth);
  };
  const auto count = static_cast<double>(times.size());
  return {count / seconds, at(0.5), at(0.99), client / count, served / count};
}

class Store {
 public:
  Store(const std::string& url, const char* policy) {
    saqiya_store_options options;
    saqiya_store_options_init(&options, sizeof options);
    options.deadline_us = 5'000'000;
    must(saqiya_store_open(url.c_str(), &options, &store_, nullptr) == SAQIYA_OK);
    saqiya_limiter_options limiter_options;
    saqiya_limiter_options_init(&limiter_options, sizeof limiter_options);
    limiter_options.flags = SAQIYA_LIMITER_NO_DENY_CACHE;  // the server decides each of them
    must(saqiya_limiter_create(store_, policy, &limiter_options, &limiter_, nullptr) == SAQIYA_OK);
  }
  ~Store() {
    saqiya_limiter_free(limiter_);
    saqiya_store_free(store_);
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  void check(std::size_t i) {
    const std::string key = user(i);
    saqiya_decision decision;
    must(saqiya_limiter_check(limiter_, key.data(), key.size(), 1, &decision, nullptr) ==
             SAQIYA_OK &&
         decision.reason == 0);
  }

 private:
  saqiya_store* store_ = nullptr;
  saqiya_limiter* limiter_ = nullptr;
};

// The words of the EVALSHA that one check sends, as the server sees them.
std::vector<std::string> command_of(const RedisServer& server, Store* store) {
  store->check(0);
  const std::unique_ptr<redisContext, void (*)(redisContext*)> monitor(
      redisConnectUnix(server.socket_path().c_str()), redisFree);
  must(monitor != nullptr && monitor->err == 0);
  freeReplyObject(redisCommand(monitor.get(), "MONITOR"));
  store->check(0);
  while (true) {
    void* reply = nullptr;
    must(redisGetReply(monitor.get(), &reply) == REDIS_OK);
    const std::string line = static_cast<redisReply*>(reply)->str;
    freeReplyObject(reply);
    // All of them are plain text between quotes.
    std::vector<std::string> words;
    std::size_t from = line.find('"');
    while (from != std::string::npos) {
      const std::size_t to = line.find('"', from + 1);
      words.push_back(line.substr(from + 1, to - from - 1));
      from = line.find('"', to + 1);
    }
    if (!words.empty() && words[0] == "EVALSHA") return words;
  }
}

// A bare client that sends the same.
Step hiredis_step(const std::string& path, std::uint16_t port, std::vector<std::string> words) {
  const std::shared_ptr<redisContext> context(
      path.empty() ? redisConnect("127.0.0.1", port) : redisConnectUnix(path.c_str()), redisFree);
  must(context != nullptr && context->err == 0);
  const std::size_t at = words[3].find(user(0));
  must(at != std::string::npos);
  return [context, at, words = std::move(words)](std::size_t i) mutable {
    words[3].replace(at, user(i).size(), user(i));
    std::vector<const char*> text;
    std::vector<std::size_t> sizes;
    for (const std::string& word : words) {
      text.push_back(word.data());
      sizes.push_back(word.size());
    }
    auto* reply = static_cast<redisReply*>(
        redisCommandArgv(context.get(), static_cast<int>(text.size()), text.data(), sizes.data()));
    must(reply != nullptr && reply->type == REDIS_REPLY_ARRAY);
    freeReplyObject(reply);
  };
}

void print(int round, bool local, const Load& load, int threads, const Figures& figures) {
  std::printf(
      "{\"round\": %d, \"transport\": \"%s\", \"mostly\": \"%s\", \"threads\": %d, \"rate\": %.0f, "
      "\"p50\": %.2f, \"p99\": %.2f, \"client_cpu\": %.2f, \"server_cpu\": %.2f}\n",
      round, local ? "unix" : "TCP", load.mostly, threads, figures.rate, figures.p50, figures.p99,
      figures.client_cpu, figures.server_cpu);
  std::fflush(stdout);
}

void measure(const RedisServer& server, int round, bool local, const Load& load,
             std::chrono::milliseconds time) {
  server.client()({"FLUSHALL", "SYNC"});
  Store store(local ? server.unix_url() : server.url(), load.policy);
  const auto ours = [&] { return [&](std::size_t i) { store.check(i); }; };
  const std::vector<std::string> words = command_of(server, &store);
  // Every user comes by, and those who are to be refused have used up what they had.
  run(server, 16, std::chrono::milliseconds(300), ours);
  const auto peer = [&] {
    return hiredis_step(local ? server.socket_path() : std::string(), server.port(), words);
  };
  print(round, local, load, 0, run(server, 1, time, peer));
  for (const int threads : kThreads) {
    print(round, local, load, threads, run(server, threads, time, ours));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::chrono::milliseconds time(argc > 2 ? std::atoi(argv[2]) : 500);
  try {
    const RedisServer server;
    for (int i = 0; i < 2 * rounds; ++i) {
      const int round = i / 2;
      const bool local = i % 2 == 0;
      for (const Load& load : kLoads) measure(server, round, local, load, time);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "redis_threads: %s\n", e.what());
    return 1;
  }
  return 0;
}

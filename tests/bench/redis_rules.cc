// What policies of several rules cost over Redis beside one token bucket: 1,000 users, 64 checks in
// flight through a queue, each asked again as soon as it is answered; one thread, one server of its
// own.
//
//     redis_rules [rounds [checks]]
//
// Prints a line of JSON for each policy, once mostly allowed and once mostly refused: nanoseconds
// per check, medians over the rounds, in which all policies take turns.
//   wall        between answers
//   client_cpu  this thread
//   server_cpu  the whole server process
//   script      inside EVALSHA
//   ratio       wall over that of the one rule, of the same round
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bench/queue_load.h"
#include "tests/redis/server.h"

namespace {

using saqiya::bench::clock_ns;
using saqiya::bench::kUsers;
using saqiya::bench::QueueLoad;
using saqiya::testing::RedisServer;

constexpr std::size_t kInFlight = 64;

struct Policy {
  const char* name;
  const char* allowed;
  const char* refused;
};

// The first one is what the others are compared with.
constexpr Policy kPolicies[] = {
    {"one bucket", "5/s burst 1000000", "5/s burst 20"},
    {"three buckets", "5/s burst 1000000; 100/min burst 1000000; 1000/day burst 1000000",
     "5/s burst 20; 100/min; 1000/day"},
    {"bucket, window, calendar",
     "5/s burst 1000000; fixed-window: 1000000/min; calendar: 1000000/day tz UTC",
     "5/s burst 20; fixed-window: 100/min; calendar: 1000/day tz UTC"},
};

using Figures = std::map<std::string, double>;

// Microseconds of CPU that the server has taken, all in all.
double server_us(saqiya::testing::Client* client) {
  return 1e6 * (std::stod(client->info("used_cpu_user")) + std::stod(client->info("used_cpu_sys")));
}

// And those inside EVALSHA.
double script_us(saqiya::testing::Client* client) {
  const std::string stat = client->info("cmdstat_evalsha");
  const std::string name = "usec=";
  return std::stod(stat.substr(stat.find(name) + name.size()));
}

Figures measure(const RedisServer& server, const char* policy, std::size_t checks) {
  saqiya::testing::Client client = server.client();
  client({"FLUSHALL", "SYNC"});
  QueueLoad load(server.url(), policy, kInFlight);
  // Every user comes by, and those who are to be refused have used up what they had.
  load.run(kUsers * 40);
  const double server_before = server_us(&client);
  const double script_before = script_us(&client);
  const double wall_before = clock_ns(CLOCK_MONOTONIC);
  const double cpu_before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  const std::size_t allowed = load.run(checks);
  const double cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
  const double wall = clock_ns(CLOCK_MONOTONIC) - wall_before;
  const double script = 1e3 * (script_us(&client) - script_before);
  const double server_cpu = 1e3 * (server_us(&client) - server_before);
  const auto n = static_cast<double>(checks);
  return {{"allowed_share", static_cast<double>(allowed) / n},
          {"wall", wall / n},
          {"client_cpu", cpu / n},
          {"server_cpu", server_cpu / n},
          {"script", script / n}};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const RedisServer& server, bool refused, int rounds, std::size_t checks) {
  constexpr std::size_t kCount = std::size(kPolicies);
  std::map<std::string, std::vector<double>> found[kCount];
  for (int round = 0; round < rounds; ++round) {
    double one = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      Figures figures =
          measure(server, refused ? kPolicies[i].refused : kPolicies[i].allowed, checks);
      if (i == 0) one = figures["wall"];
      figures["ratio"] = figures["wall"] / one;
      for (const auto& [figure, value] : figures) found[i][figure].push_back(value);
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    std::printf("{\"policy\": \"%s\", \"mostly\": \"%s\"", kPolicies[i].name,
                refused ? "refused" : "allowed");
    for (const auto& [figure, values] : found[i]) {
      std::printf(", \"%s\": %.2f", figure.c_str(), median(values));
    }
    std::printf("}\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::size_t checks = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 200'000;
  try {
    const RedisServer server;
    for (const bool refused : {false, true}) compare(server, refused, rounds, checks);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "redis_rules: %s\n", e.what());
    return 1;
  }
  return 0;
}

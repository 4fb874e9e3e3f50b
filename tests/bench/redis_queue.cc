// One closed loop over a server that somebody else has started.
//
//     redis_queue URL POLICY IN_FLIGHT CHECKS
//
// Prints a line of JSON: nanoseconds between answers (wall), of this thread's CPU (client_cpu), and
// the share that was allowed. Every user has come by before it is measured.
#include <cstdio>
#include <cstdlib>

#include "tests/bench/queue_load.h"

int main(int argc, char** argv) {
  using saqiya::bench::clock_ns;
  if (argc != 5) return 2;
  try {
    const std::size_t checks = std::strtoul(argv[4], nullptr, 10);
    saqiya::bench::QueueLoad load(argv[1], argv[2], std::strtoul(argv[3], nullptr, 10));
    load.run(saqiya::bench::kUsers * 40);
    std::printf("ready\n");
    std::fflush(stdout);
    if (std::getchar() == EOF) return 1;  // whoever measures the server takes its reading
    const double wall_before = clock_ns(CLOCK_MONOTONIC);
    const double cpu_before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const std::size_t allowed = load.run(checks);
    const double cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
    const double wall = clock_ns(CLOCK_MONOTONIC) - wall_before;
    const auto n = static_cast<double>(checks);
    std::printf("{\"wall\": %.1f, \"client_cpu\": %.1f, \"allowed\": %.4f}\n", wall / n, cpu / n,
                static_cast<double>(allowed) / n);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "redis_queue: %s\n", e.what());
    return 1;
  }
  return 0;
}

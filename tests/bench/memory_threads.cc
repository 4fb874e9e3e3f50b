// Two threads on one store and different keys, beside two processes that run the same loop on a
// store each. Prints checks per second of both, a line per round.
#include <saqiya/saqiya.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kWorkers = 2;
constexpr std::size_t kKeys = 5'000;  // of each worker
constexpr int kChecks = 2'000'000;
constexpr int kRounds = 9;

using Clock = std::chrono::steady_clock;

double seconds_of_loop(saqiya_limiter* limiter, const std::vector<std::string>& keys) {
  const auto start = Clock::now();
  std::uint32_t x = 1;
  for (int i = 0; i < kChecks; ++i) {
    x = x * 1664525 + 1013904223;
    const std::string& key = keys[(x >> 8) % kKeys];
    saqiya_decision d;
    saqiya_limiter_check(limiter, key.data(), key.size(), 1, &d, nullptr);
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::string> keys_of(int worker) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kKeys; ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "user:%d:%013zu", worker, i);
    keys.emplace_back(text);
  }
  return keys;
}

saqiya_limiter* make_limiter() {
  saqiya_store* store = nullptr;
  saqiya_limiter* limiter = nullptr;
  if (saqiya_store_open("memory://", nullptr, &store, nullptr) != SAQIYA_OK ||
      saqiya_limiter_create(store, "1000/h burst 100000000", nullptr, &limiter, nullptr) !=
          SAQIYA_OK) {
    std::abort();
  }
  saqiya_store_free(store);
  return limiter;
}

// Sum of the workers' own rates: how long they overlap does not matter.
double rate(const std::vector<double>& seconds) {
  double sum = 0;
  for (const double s : seconds) sum += kChecks / s;
  return sum;
}

double with_threads() {
  saqiya_limiter* limiter = make_limiter();
  std::vector<double> seconds(kWorkers);
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      const std::vector<std::string> keys = keys_of(w);
      ++ready;
      while (ready < kWorkers) std::this_thread::yield();
      seconds[static_cast<std::size_t>(w)] = seconds_of_loop(limiter, keys);
    });
  }
  for (std::thread& t : threads) t.join();
  saqiya_limiter_free(limiter);
  return rate(seconds);
}

double with_processes() {
  struct Shared {
    std::atomic<int> ready;
    double seconds[kWorkers];
  };
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto* shared = new (memory) Shared{};
  for (int w = 0; w < kWorkers; ++w) {
    if (fork() == 0) {
      saqiya_limiter* limiter = make_limiter();
      const std::vector<std::string> keys = keys_of(w);
      ++shared->ready;
      while (shared->ready < kWorkers) std::this_thread::yield();
      shared->seconds[w] = seconds_of_loop(limiter, keys);
      _exit(0);
    }
  }
  while (wait(nullptr) > 0) {
  }
  const double result = rate({shared->seconds, shared->seconds + kWorkers});
  munmap(memory, sizeof(Shared));
  return result;
}

}  // namespace

int main() {
  std::printf("two_processes_per_s two_threads_per_s\n");
  for (int round = 0; round < kRounds; ++round) {
    const double processes = with_processes();
    const double threads = with_threads();
    std::printf("%.0f %.0f\n", processes, threads);
    std::fflush(stdout);
  }
  return 0;
}

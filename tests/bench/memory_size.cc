// Bytes per key of the memory store as malloc counts them, and the slowest single insert in time of
// its own thread (what others did to this machine meanwhile is not counted), while the store grows
// to ten million keys.
#include <malloc.h>
#include <saqiya/saqiya.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

double thread_us() {
  timespec ts{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) * 1e6 + static_cast<double>(ts.tv_nsec) / 1e3;
}

double allocated() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

}  // namespace

int main() {
  const double before = allocated();
  saqiya_store_options options;
  saqiya_store_options_init(&options, sizeof options);
  options.max_keys = 100'000'000;  // the bound is not what is measured
  saqiya_store* store = nullptr;
  saqiya_limiter* limiter = nullptr;
  if (saqiya_store_open("memory://", &options, &store, nullptr) != SAQIYA_OK ||
      saqiya_limiter_create(store, "1/d", nullptr, &limiter, nullptr) != SAQIYA_OK) {
    return 1;
  }
  std::printf("keys bytes_per_key worst_bytes_per_key_since slowest_insert_us inserts_over_10us\n");
  std::int64_t next_report = 10'000;
  double worst = 0;
  double slowest = 0;
  std::int64_t over_10us = 0;
  for (std::int64_t i = 1; i <= 10'000'000; ++i) {
    char key[32];
    const int length = std::snprintf(key, sizeof key, "user:%015lld", static_cast<long long>(i));
    const double start = thread_us();
    saqiya_limiter_take(limiter, key, static_cast<std::size_t>(length), 1);
    const double us = thread_us() - start;
    slowest = std::max(slowest, us);
    if (us > 10) ++over_10us;
    // Between reports, look at 200 sizes for the worst moment.
    if (i >= 10'000 && i % (next_report / 200) == 0) {
      worst = std::max(worst, (allocated() - before) / static_cast<double>(i));
    }
    if (i == next_report) {
      std::printf("%lld %.1f %.1f %.0f %lld\n", static_cast<long long>(i),
                  (allocated() - before) / static_cast<double>(i), worst, slowest,
                  static_cast<long long>(over_10us));
      std::fflush(stdout);
      next_report *= 10;
      worst = 0;
      slowest = 0;
      over_10us = 0;
    }
  }
  saqiya_limiter_free(limiter);
  saqiya_store_free(store);
  return 0;
}

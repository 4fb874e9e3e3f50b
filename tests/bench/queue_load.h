// A closed loop of checks through one queue: so many in flight, each asked again as soon as it is
// answered, over 1,000 users.
#pragma once

#include <saqiya/saqiya.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace saqiya::bench {

inline constexpr std::size_t kUsers = 1'000;

inline double clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

inline void must(int code) {
  if (code != SAQIYA_OK) throw std::runtime_error("a call of saqiya failed");
}

class QueueLoad {
 public:
  // Refusals are not remembered in the process: it is the server that is measured.
  QueueLoad(const std::string& url, const char* policy, std::size_t in_flight)
      : in_flight_(in_flight) {
    saqiya_store_options slow;
    saqiya_store_options_init(&slow, sizeof slow);
    slow.deadline_us = 10'000'000;
    saqiya_limiter_options options;
    saqiya_limiter_options_init(&options, sizeof options);
    options.flags = SAQIYA_LIMITER_NO_DENY_CACHE;
    options.failure = SAQIYA_FAILURE_ERROR;
    must(saqiya_store_open(url.c_str(), &slow, &store_, nullptr));
    must(saqiya_limiter_create(store_, policy, &options, &limiter_, nullptr));
    must(saqiya_queue_create(store_, nullptr, &queue_, nullptr));
    saqiya_request_init(&request_, sizeof request_);
    request_.op = SAQIYA_OP_CHECK;
    request_.limiter = limiter_;
    request_.cost = 1;
    for (std::size_t i = 0; i < kUsers; ++i) keys_.push_back("user" + std::to_string(100'000 + i));
  }
  ~QueueLoad() {
    saqiya_queue_free(queue_);
    saqiya_limiter_free(limiter_);
    saqiya_store_free(store_);
  }
  QueueLoad(const QueueLoad&) = delete;
  QueueLoad& operator=(const QueueLoad&) = delete;

  // Returns how many were allowed.
  std::size_t run(std::size_t checks) {
    std::size_t submitted = 0;
    std::size_t done = 0;
    std::size_t allowed = 0;
    for (; submitted < std::min(checks, in_flight_); ++submitted) submit();
    std::vector<saqiya_completion> completions(in_flight_);
    while (done < checks) {
      must(saqiya_queue_process(queue_));
      std::size_t count = 0;
      must(saqiya_queue_drain(queue_, completions.data(), completions.size(), &count));
      for (std::size_t i = 0; i < count; ++i) {
        const saqiya_decision& decision = completions[i].decision;
        if (decision.reason != 0) throw std::runtime_error("a check failed");
        if (decision.outcome == SAQIYA_ALLOWED) ++allowed;
        if (submitted < checks) {
          submit();
          ++submitted;
        }
      }
      done += count;
      if (count == 0) must(saqiya_queue_wait(queue_, 1'000'000));
    }
    return allowed;
  }

 private:
  void submit() {
    x_ = x_ * 1664525 + 1013904223;
    const std::string& key = keys_[(x_ >> 8) % kUsers];
    request_.key = key.data();
    request_.key_len = key.size();
    must(saqiya_queue_submit(queue_, &request_));
  }

  const std::size_t in_flight_;
  saqiya_store* store_ = nullptr;
  saqiya_limiter* limiter_ = nullptr;
  saqiya_queue* queue_ = nullptr;
  saqiya_request request_;
  std::vector<std::string> keys_;
  std::uint32_t x_ = 1;
};

}  // namespace saqiya::bench

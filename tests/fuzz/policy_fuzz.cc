// Policy text: read or refused with a position inside the text; what was read is within the ranges,
// and its canonical text gives the same policy. C157.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/rate.h"

namespace {

void require(bool holds, const char* what, std::string_view text) {
  if (holds) return;
  std::fprintf(stderr, "%s: \"%.*s\"\n", what, static_cast<int>(text.size()), text.data());
  std::abort();
}

bool same(const saqiya::Policy& a, const saqiya::Policy& b) {
  return a.unlimited == b.unlimited && a.text == b.text &&
         (a.unlimited ||
          (a.bucket.capacity == b.bucket.capacity && a.bucket.tokens == b.bucket.tokens &&
           a.bucket.period == b.bucket.period && a.bucket.span == b.bucket.span));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  saqiya::Policy policy;
  saqiya::PolicyError error;
  if (!saqiya::parse_policy(text, &policy, &error)) {
    require(error.position <= text.size(), "a position outside", text);
    require(!error.message.empty() && error.message.size() < 248, "no message", text);
    return 0;
  }
  const saqiya::TokenBucket& rule = policy.bucket;
  if (!policy.unlimited) {
    require(0 <= rule.capacity && rule.capacity <= saqiya::kMaxCount, "capacity", text);
    require(1 <= rule.tokens && 1 <= rule.period, "rate", text);
    require(rule.period <= saqiya::kMaxSpan && rule.span.q <= saqiya::kMaxSpan, "span", text);
  }
  saqiya::Policy again;
  require(saqiya::parse_policy(policy.text, &again, &error), "canonical text refused", text);
  require(same(policy, again), "canonical text differs", text);
  return 0;
}

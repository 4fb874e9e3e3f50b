// Rules as numbers, to and from JavaScript.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arguments.h"

namespace saqiya::node {

struct LimiterDeleter {
  void operator()(saqiya_limiter* limiter) const { saqiya_limiter_free(limiter); }
};
using LimiterPointer = std::unique_ptr<saqiya_limiter, LimiterDeleter>;

// The rules of a policy, and what their texts live in.
class Rules {
 public:
  // An array of rules, each text or [algorithm, capacity, tokens, period_us, queue, unit,
  // anchor_day, zone or undefined]. Text is read by the store, which creates nothing that lasts.
  // False with an exception pending.
  bool read(Environment& environment, napi_value value, saqiya_store* store);

  const saqiya_rule* data() const { return rules_.data(); }
  std::size_t size() const { return rules_.size(); }

 private:
  bool read_text(Environment& environment, napi_value value, saqiya_store* store);
  bool read_numbers(Environment& environment, napi_value value);

  std::vector<saqiya_rule> rules_;
  std::vector<std::unique_ptr<std::string>> zones_;
  std::vector<LimiterPointer> texts_;
};

// A limiter's rules, each in the form above.
napi_value make_rules(napi_env env, const saqiya_limiter* limiter);

}  // namespace saqiya::node

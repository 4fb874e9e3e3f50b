#include "core/limiter.h"

#include "core/http/headers.h"
#include "core/key.h"

namespace saqiya {

Limiter::Limiter(std::shared_ptr<Store> store, Policy policy, std::string name, Micros deadline)
    : store_(std::move(store)),
      policy_(std::move(policy)),
      name_(std::move(name)),
      is_bucket_(policy_.rules.size() == 1 && policy_.rules.front().is_bucket()),
      deadline_(deadline > 0 ? deadline : store_->deadline()) {
  for (std::size_t i = 0; i < policy_.rules.size(); ++i) {
    const std::string rule = rule_name(policy_, i);
    identities_.push_back(policy_identity(name_, policy_.text) + ":" + rule);
    bindings_.push_back(store_->bind(identities_.back()));
    http_items_.push_back(http::item_prefix(*this, i));
  }
  http_policy_ = http::policy_field(*this);
  if (is_bucket_) {
    bucket_ = policy_.rules.front().bucket;
    unit_charge_ = make_charge(bucket_, 1, 0);
  }
}

bool is_valid_name(std::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  for (const char c : name) {
    if (c < 0x20 || c > 0x7e) return false;
  }
  return true;
}

Decision unlimited_decision(Op op) {
  Decision d;
  const bool changes = op == Op::kRefund || op == Op::kSettle || op == Op::kRenew;
  d.outcome = changes ? Outcome::kDenied : Outcome::kAllowed;
  d.limit = kMaxCount;
  d.remaining = kMaxCount;
  return d;
}

Decision failed_decision(const Limiter& limiter, Op op, std::int64_t cost, Reason reason) {
  const std::int64_t capacity = limiter.bucket().capacity;
  const bool never = (op == Op::kCheck || op == Op::kPeek) && (cost > capacity || capacity == 0);
  if (!never) return unavailable(reason);
  Decision d;
  d.outcome = Outcome::kNever;
  d.limit = capacity;
  d.retry_after = kForever;
  return d;
}

}  // namespace saqiya

#include "core/limiter.h"

#include "core/http/headers.h"
#include "core/key.h"

namespace saqiya {

Limiter::Limiter(std::shared_ptr<Store> store, Policy policy, std::string name, Micros deadline)
    : store_(std::move(store)),
      policy_(std::move(policy)),
      name_(std::move(name)),
      identity_(policy_identity(name_, policy_.text)),
      deadline_(deadline > 0 ? deadline : store_->deadline()) {
  if (!policy_.unlimited) {
    http_policy_ = http::policy_field(name_, policy_.bucket);
    http_item_ = http::item_prefix(name_);
  }
  unit_charge_ = make_charge(policy_.bucket, 1, 0);
  binding_ = store_->bind(*this);
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
  d.outcome = op == Op::kRefund ? Outcome::kDenied : Outcome::kAllowed;
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

#include "core/limiter.h"

#include "core/http/headers.h"
#include "core/key.h"

namespace saqiya {

namespace {

std::vector<std::string> identities_of(const std::string& name, const Policy& policy) {
  std::vector<std::string> identities;
  for (std::size_t i = 0; i < policy.rules.size(); ++i) {
    identities.push_back(policy_identity(name, policy.text) + ":" + rule_name(policy, i));
  }
  return identities;
}

}  // namespace

Limiter::Limiter(std::shared_ptr<Store> store, Policy policy, LimiterOptions options)
    : store_(std::move(store)),
      policy_(std::move(policy)),
      name_(std::move(options.name)),
      is_bucket_(policy_.rules.size() == 1 && policy_.rules.front().is_bucket()),
      identities_(identities_of(name_, policy_)),
      deadline_(options.deadline > 0 ? options.deadline : store_->deadline()),
      failure_(options.failure) {
  prepare();
  remembers_denials_ = is_bucket_ && options.deny_cache && store_->remembers_denials();
  if (failure_ != FailureMode::kLocal || is_unlimited()) return;
  if (const std::shared_ptr<Store> local = store_->local_table()) {
    Policy rules = options.fallback ? *options.fallback : share_of(policy_, options.share);
    fallback_.reset(new Limiter(local, std::move(rules), fallback_identities(options), *this));
  }
}

Limiter::Limiter(std::shared_ptr<Store> store, Policy policy, std::vector<std::string> identities,
                 const Limiter& of)
    : store_(std::move(store)),
      policy_(std::move(policy)),
      name_(of.name_),
      is_bucket_(policy_.rules.size() == 1 && policy_.rules.front().is_bucket()),
      identities_(std::move(identities)),
      deadline_(of.deadline_) {
  prepare();
}

// Those who share their state on the server share it in the local table, too, as far as they have
// the same rules there.
std::vector<std::string> Limiter::fallback_identities(const LimiterOptions& options) const {
  std::vector<std::string> identities;
  for (std::size_t i = 0; i < identities_.size(); ++i) {
    identities.push_back(options.fallback ? identities_[i] + "@" + options.fallback->text
                                          : identities_[i] + "@" + std::to_string(options.share));
  }
  return identities;
}

void Limiter::prepare() {
  for (std::size_t i = 0; i < identities_.size(); ++i) {
    bindings_.push_back(store_->bind(identities_[i]));
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

// A limiter: a policy bound to a store. Any thread may use it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/decision.h"
#include "core/rate.h"
#include "core/share.h"
#include "core/siphash.h"
#include "core/store.h"

namespace saqiya {

// What becomes of checks that a remote store does not answer: see failure.h. The numbers are those
// of saqiya_failure.
enum class FailureMode : std::uint32_t { kLocal = 1, kOpen = 2, kClosed = 3, kError = 4 };

struct LimiterOptions {
  std::string name;     // empty when unnamed
  Micros deadline = 0;  // 0 takes the store's
  FailureMode failure = FailureMode::kError;
  std::uint32_t share = kWholeShare;  // kLocal: millionths of the policy
  std::optional<Policy> fallback;     // kLocal: instead of a share of it; has as many rules
  bool deny_cache = true;
};

// Immutable but for one flag, that of denials.
class Limiter : public std::enable_shared_from_this<Limiter> {
 public:
  Limiter(std::shared_ptr<Store> store, Policy policy, LimiterOptions options);
  Limiter(std::shared_ptr<Store> store, Policy policy, std::string name, Micros deadline)
      : Limiter(std::move(store), std::move(policy),
                LimiterOptions{.name = std::move(name), .deadline = deadline, .fallback = {}}) {}

  const Policy& policy() const { return policy_; }
  std::span<const Rule> rules() const { return policy_.rules; }
  bool is_unlimited() const { return policy_.is_unlimited(); }
  // Whether the policy is one token bucket, for which there is a shorter way everywhere.
  bool is_bucket() const { return is_bucket_; }
  // Of a policy that is one token bucket.
  const TokenBucket& bucket() const { return bucket_; }
  const std::string& name() const { return name_; }
  Store& store() const { return *store_; }
  const std::shared_ptr<Store>& shared_store() const { return store_; }
  Micros deadline() const { return deadline_; }

  FailureMode failure() const { return failure_; }
  // What decides while the store does not: a limiter on the store's local table. Null unless the
  // mode is kLocal and the store has one.
  const Limiter* fallback() const { return fallback_.get(); }

  // Whether refusals may be remembered (redis/deny_cache.h): of one token bucket of which nothing
  // is ever given back.
  bool remembers_denials() const { return remembers_denials_.load(std::memory_order_relaxed); }
  void stop_remembering_denials() const {
    remembers_denials_.store(false, std::memory_order_relaxed);
  }

  // "policy:rule" as it stands in key names, escaped: "login:b", or "k3jx2a:b" when unnamed;
  // "login:b1s" and "login:f1d" of a policy of several rules. Of every rule.
  std::span<const std::string> identities() const { return identities_; }
  // What a rule's keys are hashed or named with; filled by the store.
  const Binding& binding(std::size_t rule = 0) const { return bindings_[rule]; }

  // The rate fields' constant parts: see http/headers.h.
  const std::string& http_policy() const { return http_policy_; }
  const std::string& http_item(std::size_t rule) const { return http_items_[rule]; }

  // The charge of a policy that is one token bucket; of cost 1 without waiting it is made once.
  Charge charge(std::int64_t cost, Micros max_wait) const {
    return cost == 1 && max_wait == 0 ? unit_charge_ : make_charge(bucket(), cost, max_wait);
  }

 private:
  // The fallback of another: under its name, with the keys of these identities.
  Limiter(std::shared_ptr<Store> store, Policy policy, std::vector<std::string> identities,
          const Limiter& of);
  void prepare();
  std::vector<std::string> fallback_identities(const LimiterOptions& options) const;

  std::shared_ptr<Store> store_;
  Policy policy_;
  std::string name_;
  bool is_bucket_;
  TokenBucket bucket_;  // the first rule's, near at hand
  std::vector<std::string> identities_;
  std::vector<Binding> bindings_;
  std::string http_policy_;
  std::vector<std::string> http_items_;
  Charge unit_charge_;
  Micros deadline_;
  FailureMode failure_ = FailureMode::kError;
  mutable std::atomic<bool> remembers_denials_{false};
  std::unique_ptr<const Limiter> fallback_;
};

// Names are 1 to 64 printable ASCII characters.
bool is_valid_name(std::string_view name);

// The answer of an unlimited policy to any request; no store is asked. No ticket of it gives
// anything.
Decision unlimited_decision(Op op = Op::kCheck);

// The answer when the store failed, of a policy that is one token bucket (Group::fail() has all
// others): unavailable, but never to a cost that no state would allow.
Decision failed_decision(const Limiter& limiter, Op op, std::int64_t cost, Reason reason);

}  // namespace saqiya

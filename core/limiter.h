// A limiter: a policy bound to a store. Immutable after creation, so any thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/decision.h"
#include "core/rate.h"
#include "core/siphash.h"
#include "core/store.h"

namespace saqiya {

class Limiter : public std::enable_shared_from_this<Limiter> {
 public:
  // name: empty when unnamed. deadline: 0 takes the store's.
  Limiter(std::shared_ptr<Store> store, Policy policy, std::string name, Micros deadline);

  const Policy& policy() const { return policy_; }
  const TokenBucket& bucket() const { return policy_.bucket; }
  const std::string& name() const { return name_; }
  Store& store() const { return *store_; }
  const std::shared_ptr<Store>& shared_store() const { return store_; }
  Micros deadline() const { return deadline_; }

  // "policy:rule" as it stands in key names, escaped: "login:b", or "k3jx2a:b" when unnamed.
  const std::string& identity() const { return identity_; }
  // The rate fields' constant parts: see http/headers.h.
  const std::string& http_policy() const { return http_policy_; }
  const std::string& http_item() const { return http_item_; }

  // What this limiter's keys are hashed or named with; filled by the store.
  const Binding& binding() const { return binding_; }
  // The charge of cost 1 without waiting, made once.
  const Charge& unit_charge() const { return unit_charge_; }
  Charge charge(std::int64_t cost, Micros max_wait) const {
    return cost == 1 && max_wait == 0 ? unit_charge_ : make_charge(policy_.bucket, cost, max_wait);
  }

 private:
  std::shared_ptr<Store> store_;
  Policy policy_;
  std::string name_;
  std::string identity_;
  std::string http_policy_;
  std::string http_item_;
  Binding binding_;
  Charge unit_charge_;
  Micros deadline_;
};

// Names are 1 to 64 printable ASCII characters.
bool is_valid_name(std::string_view name);

// The answer of an unlimited policy to any request; no store is asked. A refund gives nothing.
Decision unlimited_decision(Op op = Op::kCheck);

// The answer when the store failed: unavailable, but never to a cost that no state would allow.
Decision failed_decision(const Limiter& limiter, Op op, std::int64_t cost, Reason reason);

}  // namespace saqiya

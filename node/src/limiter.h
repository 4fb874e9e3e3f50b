// Limiters, and the calls that are answered at once: stores in the process.
#pragma once

#include "handle.h"
#include "store.h"

namespace saqiya::node {

class Limiter final : public Counted {
 public:
  static constexpr napi_type_tag kTag = {0x6e0d93f8a7254bc1, 0xb45a1c7e28f60d9b};

  Limiter(Environment& environment, Store* store, saqiya_limiter* limiter)
      : environment_(environment), store_(store), limiter_(limiter) {
    store_->ref();
  }

  // Null once this limiter or its store was closed.
  saqiya_limiter* get() const { return store_->get() != nullptr ? limiter_ : nullptr; }
  Environment& environment() const { return environment_; }
  void close() {
    saqiya_limiter_free(limiter_);
    limiter_ = nullptr;
  }

 private:
  ~Limiter() override {
    saqiya_limiter_free(limiter_);
    store_->unref();
  }

  Environment& environment_;
  Store* store_;
  saqiya_limiter* limiter_;
};

// createLimiter(store, text | rules, name | undefined, deadlineUs, flags, failure, sharePpm,
//               fallback text | undefined) =>
//   { handle, text, name, rules, httpPolicy, httpItems,
//     check(key[, cost]), checkHttp(key, cost), checkWait(key, cost, maxWaitUs), peek(key, cost),
//     askParts(op, key, cost, maxWaitUs, parts),
//     change(op, key, cost, ...ticket), reset(key), pause(attempt, leftUs) => us,
//     http(), httpFields(flags), httpBody(), close() }
// rules: as rules.h has them. parts, ticket: as parts.h has them; the calls without parts are for
// limiters of one rule that has no leases. The decision calls write record 0; pause and the http
// calls read it. Numbers of 0 stand for defaults.
napi_value create_limiter(napi_env env, napi_callback_info info);

}  // namespace saqiya::node

// Stores.
#pragma once

#include "handle.h"

namespace saqiya::node {

class Store final : public Counted {
 public:
  static constexpr napi_type_tag kTag = {0x1f7b2c9ad4e84f03, 0x8c61e5b20d937a4e};

  explicit Store(saqiya_store* store) : store_(store) {}
  // Null once closed.
  saqiya_store* get() const { return store_; }
  bool has_event() const { return store_ != nullptr && saqiya_store_has_event(store_) != 0; }
  void close() {
    saqiya_store_free(store_);
    store_ = nullptr;
  }

 private:
  ~Store() override { saqiya_store_free(store_); }

  saqiya_store* store_;
};

// createStore(url, clock | undefined, flags, maxKeys, deadlineUs, prefix | undefined,
//             secret | undefined, connections) =>
//   { handle, isLocal, stats(), hasEvent(), nextEvent(), close() }
// 0 stands for a default. nextEvent gives [kind, reason, server, message, suppressed, wallUs,
// durationUs, decisions], or undefined; hasEvent is false of a store that was closed.
napi_value create_store(napi_env env, napi_callback_info info);

}  // namespace saqiya::node

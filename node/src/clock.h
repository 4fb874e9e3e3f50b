// Manual clocks.
#pragma once

#include "handle.h"

namespace saqiya::node {

class Clock final : public Counted {
 public:
  static constexpr napi_type_tag kTag = {0x5a3c0f6d1b9e4a71, 0x9d2e8b7c6f105a34};

  explicit Clock(saqiya_clock* clock) : clock_(clock) {}
  saqiya_clock* get() const { return clock_; }

 private:
  ~Clock() override { saqiya_clock_free(clock_); }

  saqiya_clock* clock_;
};

// createClock(now_us) => { handle, set(us), setWall(us), advance(us), now() => us, wall() => us }
napi_value create_clock(napi_env env, napi_callback_info info);

}  // namespace saqiya::node

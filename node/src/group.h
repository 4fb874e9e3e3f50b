// Several limiters asked at once.
#pragma once

#include "limiter.h"

namespace saqiya::node {

// Items as JavaScript passes them: handle, key, cost, handle, key, cost, ... Borrows the keys.
struct Items {
  std::size_t count = 0;
  std::size_t rules = 0;  // of all items
  saqiya_item item[SAQIYA_MAX_ITEMS];
  Key key[SAQIYA_MAX_ITEMS];
  std::string scratch[SAQIYA_MAX_ITEMS];
};

// The arguments in front of the items may be up to this many.
inline constexpr std::size_t kBeforeItems = 5;
using ItemArguments = Arguments<kBeforeItems + 3 * SAQIYA_MAX_ITEMS>;

// From arguments.value[first] on. False with an exception pending.
bool read_items(Environment& environment, const ItemArguments& arguments, std::size_t first,
                Items* items);

// What the C API says of items is one word; this tells what can be wrong with them.
napi_value raise_items(Environment& environment, int status);

// ask(op, maxWaitUs, parts, ...items): check, peek or refund on a store in this process. Writes
// record 0.
napi_value ask_items(napi_env env, napi_callback_info info);
// pause(attempt, leftUs, ...items) => us, or -1: see saqiya_acquire_pause_us; reads record 0.
napi_value pause_items(napi_env env, napi_callback_info info);

}  // namespace saqiya::node

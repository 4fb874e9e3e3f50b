// Hash slots of a Redis cluster, and which server has which.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/redis/config.h"
#include "core/redis/resp.h"

namespace saqiya::redis {

inline constexpr std::uint32_t kSlots = 16384;

// CRC16/XMODEM of the key's hash tag, or of the whole key when it has none.
std::uint16_t slot_of(std::string_view key);

// The answer to CLUSTER SLOTS.
struct SlotMap {
  static constexpr std::uint16_t kNobody = 0xffff;

  std::vector<Place> masters;
  std::vector<std::uint16_t> owner;  // of each slot, an index into masters; empty: not known yet

  bool empty() const { return owner.empty(); }
};

// False when it is no map. asked: where it comes from; an empty address in it means that.
bool parse_slots(const Reply& reply, const Place& asked, SlotMap* map);

}  // namespace saqiya::redis

#include "core/redis/slots.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace saqiya::redis {
namespace {

constexpr std::array<std::uint16_t, 256> make_table() {
  std::array<std::uint16_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
    table[i] = static_cast<std::uint16_t>(crc & 0xffff);
  }
  return table;
}

constexpr std::array<std::uint16_t, 256> kTable = make_table();

// Walks the flat list of a nested reply.
class Reader {
 public:
  explicit Reader(const Reply& reply) : reply_(reply), items_(reply.items()) {}

  bool array(std::int64_t* size) {
    if (at_ >= items_.size() || items_[at_].kind != ReplyItem::kArray) return false;
    *size = items_[at_++].number;
    return true;
  }
  bool number(std::int64_t least, std::int64_t most, std::int64_t* number) {
    if (at_ >= items_.size() || items_[at_].kind != ReplyItem::kInteger) return false;
    *number = items_[at_++].number;
    return *number >= least && *number <= most;
  }
  // Nil is the empty text.
  bool text(std::string_view* text) {
    if (at_ >= items_.size()) return false;
    const ReplyItem& item = items_[at_++];
    *text = item.kind == ReplyItem::kText ? reply_.text(item) : std::string_view();
    return item.kind == ReplyItem::kText || item.kind == ReplyItem::kNil;
  }
  // Whatever comes next, with all that is in it.
  bool skip(std::int64_t elements) {
    for (; elements > 0; --elements) {
      if (at_ >= items_.size()) return false;
      const ReplyItem& item = items_[at_++];
      if (item.kind == ReplyItem::kArray) elements += item.number;
    }
    return true;
  }

 private:
  const Reply& reply_;
  const std::span<const ReplyItem> items_;
  std::size_t at_ = 0;
};

}  // namespace

std::uint16_t slot_of(std::string_view key) {
  if (const std::size_t open = key.find('{'); open != std::string_view::npos) {
    const std::size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  std::uint32_t crc = 0;
  for (const char c : key) {
    crc = ((crc << 8) & 0xffff) ^ kTable[((crc >> 8) ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return static_cast<std::uint16_t>(crc % kSlots);
}

// Each range: first slot, last slot, the master, its replicas. Each server: address, port, and more
// that differs between versions.
bool parse_slots(const Reply& reply, const Place& asked, SlotMap* map) {
  SlotMap made;
  made.owner.assign(kSlots, SlotMap::kNobody);
  Reader reader(reply);
  std::int64_t ranges = 0;
  if (!reader.array(&ranges)) return false;
  for (; ranges > 0; --ranges) {
    std::int64_t fields = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
    std::int64_t server = 0;
    std::string_view host;
    std::int64_t port = 0;
    if (!reader.array(&fields) || fields < 3 || !reader.number(0, kSlots - 1, &first) ||
        !reader.number(first, kSlots - 1, &last) || !reader.array(&server) || server < 2 ||
        !reader.text(&host) || !reader.number(0, 65535, &port) ||
        !reader.skip(server - 2 + fields - 3)) {
      return false;
    }
    if (port == 0 || host == "?") continue;  // the server itself does not know
    Place place;
    place.host = host.empty() ? asked.host : std::string(host);
    place.port = static_cast<std::uint16_t>(port);
    auto at = std::find(made.masters.begin(), made.masters.end(), place);
    if (at == made.masters.end()) {
      if (made.masters.size() >= SlotMap::kNobody) return false;
      at = made.masters.insert(at, std::move(place));
    }
    const auto index = static_cast<std::uint16_t>(at - made.masters.begin());
    std::fill(made.owner.begin() + first, made.owner.begin() + last + 1, index);
  }
  if (made.masters.empty()) return false;
  *map = std::move(made);
  return true;
}

}  // namespace saqiya::redis

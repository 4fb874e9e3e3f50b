// How a cluster's map of slots is got and kept.
#include <algorithm>
#include <utility>

#include "core/redis/cluster.h"
#include "core/redis/front.h"

namespace saqiya::redis {
namespace {

// Between questions for the map while it is wrong somewhere.
constexpr Micros kRefresh = 100'000;
// Without a map the next server is asked after so long, whatever the one before it does: of several
// that are named some may be silent, and requests wait.
constexpr Micros kHedge = 20'000;

}  // namespace

// Servers that are no masters any more are forgotten once nothing waits for them.
void Cluster::adopt(SlotMap map, Micros now) {
  std::vector<Link*> owners;
  owners.reserve(map.masters.size());
  for (const Place& place : map.masters) owners.push_back(link_to(place));
  map_ = std::move(map);
  owners_ = std::move(owners);
  stale_ = false;
  failures_ = 0;
  ask_at_ = now + kRefresh;
  std::erase_if(links_, [&](const auto& link) {
    const bool unused = link->is_idle() && link->turned().empty() && !link->is_asked_for_map() &&
                        std::find(owners_.begin(), owners_.end(), link.get()) == owners_.end();
    return unused;
  });
  while (!unrouted_.empty()) {
    const std::uint64_t seq = unrouted_.first;
    calls_.remove(&calls_.at(seq));
    route(seq);
  }
  const std::string name = name_of(map_.masters.front());
  for (std::size_t i = config_.breakers.keep_only(map_.masters, now); i > 0; --i) {
    config_.events.recovered(name, now);
  }
}

void Cluster::learn(std::uint16_t slot, const Place& place) {
  stale_ = true;
  if (map_.empty()) return;
  auto at = std::find(map_.masters.begin(), map_.masters.end(), place);
  if (at == map_.masters.end()) {
    if (map_.masters.size() >= SlotMap::kNobody) return;
    map_.masters.reserve(map_.masters.size() + 1);
    at = map_.masters.end();
    owners_.push_back(link_to(place));
    at = map_.masters.insert(at, place);
  }
  map_.owner[slot] = static_cast<std::uint16_t>(at - map_.masters.begin());
}

bool Cluster::some_server_is_down() const {
  return std::any_of(owners_.begin(), owners_.end(),
                     [](const Link* link) { return !link->can_serve(); });
}

// Another one each time; connected ones first; never one whose breaker is open.
Link* Cluster::whom_to_ask() {
  for (const bool ready : {true, false}) {
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      Link* const link = owners_[(asked_ + i) % owners_.size()];
      if (!link->can_serve() || link->is_ready() != ready || link->is_asked_for_map()) continue;
      asked_ += i + 1;
      return link;
    }
  }
  const std::vector<Place>& seeds = config_.endpoint.places;
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    Link* const link = link_to(seeds[(asked_ + i) % seeds.size()]);
    if (!link->can_serve() || link->is_asked_for_map()) continue;
    asked_ += i + 1;
    return link;
  }
  return nullptr;
}

void Cluster::keep_map(Micros now) {
  bool asked = false;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    SlotMap map;
    const std::optional<bool> answered = links_[i]->take_map(&map);
    if (answered == true) return adopt(std::move(map), now);
    if (answered == false) {
      ++failures_;
      failure_ = links_[i]->map_failure();
      stale_ = true;
    }
    asked = asked || links_[i]->is_asked_for_map();
  }
  if (map_.empty()) {
    if (unrouted_.empty()) return;
    // Servers that are there but give no map, all of them.
    if (failures_ > config_.endpoint.places.size()) return give_up_on_map(failure_);
    // One that failed is followed by the next at once.
    if (asked && now < ask_at_) return;
  } else if (now < ask_at_ || (!stale_ && !some_server_is_down())) {
    return;
  }
  ask_at_ = now + (map_.empty() ? kHedge : kRefresh);
  if (Link* const link = whom_to_ask()) {
    link->ask_map();
  } else if (map_.empty() && !asked) {
    give_up_on_map(links_.front()->failure());
  }
}

void Cluster::give_up_on_map(Reason reason) {
  failures_ = 0;
  calls_.end_line(&unrouted_, reason);
}

}  // namespace saqiya::redis

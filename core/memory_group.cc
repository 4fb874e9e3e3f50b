// Requests of several rules: all their shards are taken, then every part looked at, and if all fit,
// charged.
#include <array>
#include <bitset>

#include "core/group.h"
#include "core/memory_steps.h"
#include "core/memory_words.h"
#include "core/step.h"

namespace saqiya {
namespace {

using Several = MemoryTable::Several;

// The parts that have entries, with what was found in them.
class Entries {
 public:
  // A key for each part.
  Entries(MemoryTable& table, std::span<Part* const> parts, std::span<const Hash128> keys)
      : table_(table), parts_(parts), several_(table, keys) {}

  void look_at_all() {
    for (std::size_t i = 0; i < parts_.size(); ++i) look_at(i, parts_[i]->ask);
  }

  // Throws std::bad_alloc having charged nothing.
  void charge_all() {
    Several::Set charged;
    for (std::size_t i = 0; i < parts_.size(); ++i) charged[i] = parts_[i]->ask.cost > 0;
    several_.make_room(charged);
    std::size_t i = 0;
    try {
      for (; i < parts_.size(); ++i) {
        const Part& part = *parts_[i];
        if (charged[i]) charge(part.rule(), part.ask, part.seen, part.now, &found_[i].state);
      }
    } catch (...) {
      while (i-- > 0) {
        if (charged[i]) take_back(i);
      }
      throw;
    }
    for (i = 0; i < parts_.size(); ++i) {
      if (charged[i]) keep(i);
    }
    several_.restore_bound();
  }

  void change_all(std::span<const Ticket> tickets) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = *parts_[i];
      look_at(i, {});
      part.changed = part.possible && tickets[part.place].epoch == table_.epoch() &&
                     apply(part.rule(), part.change, part.now, &found_[i].state);
      if (!part.changed) continue;
      keep(i);
      part.seen = look(part.rule(), {}, found_[i].state, part.now, 0);
    }
  }

  void erase_all() {
    for (std::size_t i = 0; i < parts_.size(); ++i) several_.erase(i);
  }

 private:
  struct Found {
    State state;
    std::uint32_t block_weight = 0;
  };

  void look_at(std::size_t i, const Ask& ask) {
    Part& part = *parts_[i];
    const Rule& rule = part.rule();
    Words words;
    const bool stored = several_.get(i, &words);
    found_[i] = {to_state(rule, words), words.block_weight()};
    const Micros floor = stored ? 0 : several_.floor(i, rule.uses_wall_clock());
    part.seen = look(rule, ask, found_[i].state, part.now, floor);
  }

  void keep(std::size_t i) {
    several_.put(i, to_words(parts_[i]->rule(), found_[i].state), found_[i].block_weight);
  }

  // What was charged, but not kept yet: only blocks have changed in place.
  void take_back(std::size_t i) {
    const Part& part = *parts_[i];
    State& state = found_[i].state;
    if (state.list == nullptr) return;
    if (found_[i].block_weight == 0) {
      delete state.list;
      return;
    }
    const Ticket ticket =
        make_ticket(part.rule(), part.total, part.ask, part.seen, part.now, table_.epoch());
    Change change;
    if (make_change(part.rule(), ticket, 0, &change)) apply(part.rule(), change, part.now, &state);
    keep(i);
  }

  MemoryTable& table_;
  const std::span<Part* const> parts_;
  Several several_;
  std::array<Found, Several::kMost> found_;
};

}  // namespace

void MemorySteps::execute_group(const Request& request, Answer* answer) {
  Group group(request, needs_lease(request) ? new_lease() : 0);
  // One reading of each clock for all.
  const Micros monotonic_now = monotonic();
  const Micros wall_now = wall();
  std::array<Hash128, Several::kMost> keys;
  std::array<Part*, Several::kMost> leaders;
  std::size_t count = 0;
  for (std::size_t i = 0; i < group.parts().size(); ++i) {
    if (!group.is_leader(i)) continue;
    Part& part = group.parts()[i];
    part.now = part.rule().uses_wall_clock() ? wall_now : monotonic_now;
    keys[count] = hash(*part.limiter, part.rule_index, part.key);
    leaders[count++] = &part;
  }
  bool charged = false;
  if (count > 0) {
    Entries entries(table_, {leaders.data(), count}, {keys.data(), count});
    switch (request.op) {
      case Op::kCheck:
      case Op::kPeek:
        entries.look_at_all();
        charged = group.all_fit();
        if (charged) entries.charge_all();
        break;
      case Op::kRefund:
      case Op::kSettle:
      case Op::kRenew:
        entries.change_all(request.tickets);
        break;
      case Op::kReset:
        entries.erase_all();
        break;
    }
  }
  group.finish(charged, table_.epoch(), answer);
}

}  // namespace saqiya

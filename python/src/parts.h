// What a decision of several rules holds: the decision and the ticket of each. Shared, by reference
// counting, by the Decisions of the whole, of its items and of its rules, so that a ticket that one
// of them gave back is spent for all.
#ifndef SAQIYA_PYTHON_PARTS_H
#define SAQIYA_PYTHON_PARTS_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "saqiya/saqiya.h"

namespace saqiya::python {

inline constexpr std::size_t kMaxParts = std::size_t{SAQIYA_MAX_RULES} * SAQIYA_MAX_ITEMS;

struct Parts {
  std::atomic<std::uint32_t> references;
  std::uint32_t count;
  bool told;  // false: the decisions are not known, only the tickets are
  // In the same block, `count` of each.
  saqiya_decision* decisions;
  saqiya_ticket* tickets;
  std::atomic<bool>* spent;
  std::uint8_t* items;  // the item that each belongs to; those of an item follow each other
};

// All zero, with one reference; null when there is no memory (no exception is set).
Parts* new_parts(std::size_t count);
Parts* share(Parts* parts);
void release(Parts* parts);

// Writes the numbers of items and rules into the decisions, which C leaves out of some.
void number(Parts* parts);

// What `count` rules say together, by the rules of saqiya_decision: see its member `rule`.
saqiya_decision combine(const saqiya_decision* each, std::size_t count);

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_PARTS_H

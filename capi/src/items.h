// Items of a caller as core takes them, and the one way in which requests reach a store and wait.
#pragma once

#include <array>
#include <span>

#include "core/group.h"
#include "handles.h"

namespace saqiya::capi {

// Several limiters and keys, checked. Borrows the keys and the limiters.
class Items {
 public:
  // False when they are not items of one store that can be decided together. Whose costs do not
  // matter are not looked at. May throw std::bad_alloc.
  bool read(const saqiya_item* items, std::size_t count, bool costs_matter);

  std::span<const Item> list() const { return {items_.data(), count_}; }
  Store& store() const { return items_[0].limiter->store(); }
  const std::shared_ptr<Store>& shared_store() const { return items_[0].limiter->shared_store(); }
  // Of all items: how many tickets there are.
  std::size_t rule_count() const { return rule_count_; }
  // All of them, so that no store need be asked.
  bool is_unlimited() const { return unlimited_; }

  // Fills in limiter, key and cost, or the items when there are several.
  void put_into(Request* request) const;

 private:
  std::array<Item, kMaxItems> items_;
  std::size_t count_ = 0;
  std::size_t rule_count_ = 0;
  bool unlimited_ = true;
};

// How much room the caller's arrays have for what each rule says: as far as can be told when the
// items are none.
std::size_t room_of(const saqiya_item* items, std::size_t count);

// What an unlimited policy says: into `each` and the tickets, too, where they are wanted. There is
// one rule for each item.
Decision answer_unlimited(Op op, std::span<Decision> each, std::span<Ticket> tickets);

}  // namespace saqiya::capi

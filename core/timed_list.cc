#include "core/timed_list.h"

#include <algorithm>

namespace saqiya {

static_assert(sizeof(TimedList) == 48);

TimedList* TimedList::allocate(Kind kind, std::size_t capacity) try {
  if (capacity >= kNone) return nullptr;
  const auto room = static_cast<std::uint32_t>(capacity);
  void* block = ::operator new(bytes_for(static_cast<std::uint32_t>(kind), room));
  return ::new (block) TimedList(kind, room);
} catch (const std::bad_alloc&) {
  return nullptr;
}

void TimedList::add(TimedList** list, Kind kind, Micros gone, const Entry& entry) {
  if (*list == nullptr) {
    *list = allocate(kind, 2);
    if (*list == nullptr) throw std::bad_alloc();
    (*list)->insert(entry);
    return;
  }
  TimedList* current = *list;
  const Live live = current->live_after(gone);
  const std::uint32_t kept = current->size() - live.first;
  if (kind == Kind::kLog && kept > 0 && current->last() == entry.at) {
    current->drop_before(live);
    current->set_cost(kept - 1, current->cost(kept - 1) + entry.cost);
    return;
  }
  // Grow when the room is nearly all in use; shrink when nearly none of it is.
  const bool is_at_end = current->end_ == current->capacity_;
  const bool must_grow = is_at_end && current->capacity_ - kept <= current->capacity_ / 8;
  const bool should_shrink = std::size_t{kept} * 4 + 16 < current->capacity_;
  if (must_grow || should_shrink) {
    TimedList* fresh = allocate(kind, std::size_t{kept} + kept / 2 + 2);
    if (fresh == nullptr && must_grow && kept == current->capacity_) throw std::bad_alloc();
    if (fresh != nullptr) {
      const std::size_t words = std::size_t{kept} * fresh->words_;
      std::memcpy(fresh->entry(0), current->entry(live.first), words * sizeof(std::uint32_t));
      fresh->end_ = kept;
      fresh->total_ = live.used;
      fresh->note_first();
      fresh->note_last();
      fresh->insert(entry);
      delete current;
      *list = fresh;
      return;
    }
  }
  current->drop_before(live);
  if (current->end_ == current->capacity_) current->move_down();
  current->insert(entry);
}

void TimedList::trim(Micros gone) { drop_before(live_after(gone)); }

void TimedList::note_first() {
  first_at_ = empty() ? 0 : at(0);
  first_cost_ = empty() ? 0 : cost(0);
}

void TimedList::drop_before(const Live& live) {
  if (live.first == 0) return;
  begin_ += live.first;
  total_ = live.used;
  if (empty()) {
    begin_ = end_ = 0;
    last_at_ = 0;
  }
  note_first();
}

void TimedList::move_down() {
  const std::uint32_t count = size();
  const std::uint32_t* from = entry(0);
  begin_ = 0;
  end_ = count;
  std::memmove(entry(0), from, std::size_t{count} * words_ * sizeof(std::uint32_t));
}

void TimedList::write(std::uint32_t i, const Entry& value) {
  std::uint32_t* words = entry(i);
  std::memcpy(words, &value.at, sizeof value.at);
  words[2] = value.cost;
  if (words_ == static_cast<std::uint32_t>(Kind::kLeases)) {
    std::memcpy(words + 3, &value.id, sizeof value.id);
  }
}

void TimedList::insert(const Entry& given) {
  const std::uint32_t count = size();
  Entry value = given;
  if (count > 0) value.at = std::max(value.at, last() - kMaxSpread);
  // Nearly always at the end.
  const std::uint32_t i = last() <= value.at ? count : lower_bound(value.at + 1);
  ++end_;
  shift(i + 1, i, count - i);
  write(i, value);
  total_ += value.cost;
  if (i == 0) note_first();
  if (i == count) last_at_ = value.at;
}

std::uint32_t TimedList::lower_bound(Micros at) const {
  std::uint32_t low = 0;
  std::uint32_t high = size();
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (this->at(middle) < at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::uint32_t TimedList::find(Micros at) const {
  const std::uint32_t i = lower_bound(at);
  return i < size() && this->at(i) == at ? i : kNone;
}

std::uint32_t TimedList::find(std::uint64_t id, Micros likely_at) const {
  for (std::uint32_t i = lower_bound(likely_at); i < size() && at(i) == likely_at; ++i) {
    if (this->id(i) == id) return i;
  }
  // It has been renewed, or is gone.
  for (std::uint32_t i = 0; i < size(); ++i) {
    if (this->id(i) == id) return i;
  }
  return kNone;
}

void TimedList::set_cost(std::uint32_t i, std::uint32_t cost) {
  total_ += std::int64_t{cost} - this->cost(i);
  if (cost > 0) {
    entry(i)[2] = cost;
    if (i == 0) first_cost_ = cost;
    return;
  }
  // Close the gap from the nearer end.
  if (i < size() / 2) {
    shift(1, 0, i);
    ++begin_;
  } else {
    shift(i, i + 1, size() - i - 1);
    --end_;
  }
  if (empty()) begin_ = end_ = 0;
  note_first();
  note_last();
}

void TimedList::move(std::uint32_t i, Micros at) {
  const std::uint32_t newest = i + 1 < size() ? size() - 1 : i - 1;  // of the others
  if (size() > 1) at = std::max(at, this->at(newest) - kMaxSpread);
  const Entry moved{at, cost(i), id(i)};
  const std::uint32_t after = lower_bound(at + 1);
  std::uint32_t to = after;
  if (after > i) {
    to = after - 1;
    shift(i, i + 1, to - i);
  } else {
    shift(to + 1, to, i - to);
  }
  write(to, moved);
  note_first();
  note_last();
}

}  // namespace saqiya

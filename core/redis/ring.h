// A growing ring whose elements keep their sequence number: at(seq) for begin() <= seq < end().
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace saqiya::redis {

template <typename T>
class Ring {
 public:
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return end_; }
  std::size_t size() const { return static_cast<std::size_t>(end_ - begin_); }
  bool empty() const { return begin_ == end_; }

  T& at(std::uint64_t seq) { return slots_[seq & mask_]; }
  const T& at(std::uint64_t seq) const { return slots_[seq & mask_]; }
  T& front() { return at(begin_); }
  const T& front() const { return at(begin_); }
  T& back() { return at(end_ - 1); }

  // The new last element; it holds what an element before it left there.
  T& push() {
    reserve(size() + 1);
    return slots_[end_++ & mask_];
  }
  // Up to this size no push() allocates.
  void reserve(std::size_t size) {
    while (size > slots_.size()) grow();
  }
  void pop_front() { ++begin_; }
  void pop_back() { --end_; }
  void clear() { begin_ = end_; }

 private:
  void grow() {
    const std::size_t room = slots_.empty() ? 64 : slots_.size() * 2;
    std::vector<T> slots(room);
    for (std::uint64_t seq = begin_; seq != end_; ++seq) {
      slots[seq & (room - 1)] = std::move(at(seq));
    }
    slots_.swap(slots);
    mask_ = room - 1;
  }

  std::vector<T> slots_;
  std::uint64_t mask_ = 0;
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace saqiya::redis

#include "parts.h"

#include <Python.h>

#include <cstring>
#include <new>

namespace saqiya::python {
namespace {

__extension__ using Wide = __int128;

// The order in which outcomes bind.
int rank(std::int32_t outcome) {
  switch (outcome) {
    case SAQIYA_NEVER:
      return 3;
    case SAQIYA_UNAVAILABLE:
      return 2;
    case SAQIYA_DENIED:
      return 1;
    default:
      return 0;
  }
}

bool has_less_left(const saqiya_decision& a, const saqiya_decision& b) {
  return Wide{a.remaining} * (b.limit > 0 ? b.limit : 1) <
         Wide{b.remaining} * (a.limit > 0 ? a.limit : 1);
}

bool binds_more(const saqiya_decision& a, const saqiya_decision& b) {
  if (rank(a.outcome) != rank(b.outcome)) return rank(a.outcome) > rank(b.outcome);
  if (a.outcome == SAQIYA_DENIED) return a.retry_after_us > b.retry_after_us;
  return a.outcome == SAQIYA_ALLOWED && has_less_left(a, b);
}

}  // namespace

Parts* new_parts(std::size_t count) {
  constexpr std::size_t kEach =
      sizeof(saqiya_decision) + sizeof(saqiya_ticket) + sizeof(std::atomic<bool>) + 1;
  const std::size_t size = sizeof(Parts) + count * kEach;
  void* block = PyMem_RawMalloc(size);
  if (block == nullptr) return nullptr;
  std::memset(block, 0, size);
  auto* parts = new (block) Parts;
  parts->references.store(1, std::memory_order_relaxed);
  parts->count = static_cast<std::uint32_t>(count);
  parts->told = true;
  parts->decisions = reinterpret_cast<saqiya_decision*>(parts + 1);
  parts->tickets = reinterpret_cast<saqiya_ticket*>(parts->decisions + count);
  parts->spent = reinterpret_cast<std::atomic<bool>*>(parts->tickets + count);
  parts->items = reinterpret_cast<std::uint8_t*>(parts->spent + count);
  return parts;
}

Parts* share(Parts* parts) {
  parts->references.fetch_add(1, std::memory_order_relaxed);
  return parts;
}

void release(Parts* parts) {
  if (parts->references.fetch_sub(1, std::memory_order_acq_rel) == 1) PyMem_RawFree(parts);
}

void number(Parts* parts) {
  std::int32_t rule = 0;
  for (std::uint32_t i = 0; i < parts->count; ++i) {
    rule = i > 0 && parts->items[i] == parts->items[i - 1] ? rule + 1 : 0;
    parts->decisions[i].item = parts->items[i];
    parts->decisions[i].rule = rule;
  }
}

saqiya_decision combine(const saqiya_decision* each, std::size_t count) {
  saqiya_decision bound = each[0];
  std::int64_t delay = bound.delay_us;
  for (std::size_t i = 1; i < count; ++i) {
    if (each[i].delay_us > delay) delay = each[i].delay_us;
    if (binds_more(each[i], bound)) bound = each[i];
  }
  bound.delay_us = bound.outcome == SAQIYA_ALLOWED ? delay : 0;
  return bound;
}

}  // namespace saqiya::python

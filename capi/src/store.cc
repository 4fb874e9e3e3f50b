// Clocks and stores.
#include <algorithm>
#include <string>

#include "handles.h"

namespace {

using saqiya::capi::clear;
using saqiya::capi::fail;
using saqiya::capi::guard;
using saqiya::capi::init_sized;
using saqiya::capi::read_sized;
using saqiya::capi::write_sized;

constexpr std::uint64_t kLongestSecret = 1024;
constexpr std::uint32_t kKnownFlags = SAQIYA_STORE_TESTING | SAQIYA_STORE_HASH_SUBJECTS;

// Null when it can be told, else what is wrong. Ranges are open_store's to check.
const char* convert(const saqiya_store_options& in, saqiya::StoreOptions* out) {
  if ((in.flags & ~kKnownFlags) != 0 || in.reserved32 != 0) return "unknown option flags are set";
  out->testing = (in.flags & SAQIYA_STORE_TESTING) != 0;
  out->hash_subjects = (in.flags & SAQIYA_STORE_HASH_SUBJECTS) != 0;
  if (in.clock != nullptr) out->clock = in.clock->clock;
  if (in.max_keys != 0) out->max_keys = in.max_keys;
  if (in.deadline_us != 0) out->deadline = in.deadline_us;
  if (in.prefix != nullptr) out->prefix = in.prefix;
  if (in.secret == nullptr && in.secret_len != 0) return "the secret is null but has a length";
  if (in.secret != nullptr) {
    if (in.secret_len > kLongestSecret) return "the secret must be at most 1,024 bytes";
    out->secret.assign(static_cast<const char*>(in.secret),
                       static_cast<std::size_t>(in.secret_len));
  }
  if (in.connections != 0) out->connections = in.connections;
  return nullptr;
}

int status_of(saqiya::OpenFault fault) {
  switch (fault) {
    case saqiya::OpenFault::kUrl:
      return SAQIYA_BAD_URL;
    case saqiya::OpenFault::kOption:
      return SAQIYA_INVALID;
    case saqiya::OpenFault::kSystem:
      return SAQIYA_SYSTEM;
  }
  return SAQIYA_INTERNAL;
}

}  // namespace

extern "C" {

int saqiya_clock_create_manual(int64_t now_us, saqiya_clock** clock) {
  if (clock == nullptr) return SAQIYA_INVALID;
  *clock = nullptr;
  if (now_us < 0 || now_us > saqiya::kMaxNow) return SAQIYA_INVALID;
  return guard([&] {
    auto made = std::make_unique<saqiya_clock>();
    made->clock = std::make_shared<saqiya::ManualClock>(now_us);
    *clock = made.release();
    return SAQIYA_OK;
  });
}

int saqiya_clock_set(saqiya_clock* clock, int64_t now_us) {
  return clock != nullptr && clock->clock->set(now_us) ? SAQIYA_OK : SAQIYA_INVALID;
}

int saqiya_clock_set_wall(saqiya_clock* clock, int64_t wall_us) {
  return clock != nullptr && clock->clock->set_wall(wall_us) ? SAQIYA_OK : SAQIYA_INVALID;
}

int saqiya_clock_advance(saqiya_clock* clock, int64_t by_us) {
  return clock != nullptr && clock->clock->advance(by_us) ? SAQIYA_OK : SAQIYA_INVALID;
}

int saqiya_clock_now(const saqiya_clock* clock, int64_t* monotonic_us, int64_t* wall_us) {
  clear(monotonic_us);
  clear(wall_us);
  if (clock == nullptr) return SAQIYA_INVALID;
  if (monotonic_us != nullptr) *monotonic_us = clock->clock->monotonic();
  if (wall_us != nullptr) *wall_us = clock->clock->wall();
  return SAQIYA_OK;
}

void saqiya_clock_free(saqiya_clock* clock) { delete clock; }

void saqiya_store_options_init(saqiya_store_options* options, size_t size) {
  init_sized(options, size);
}

int saqiya_store_open(const char* url, const saqiya_store_options* options, saqiya_store** store,
                      saqiya_error* error) {
  clear(error);
  if (store == nullptr) return fail(error, SAQIYA_INVALID, "the store pointer is null");
  *store = nullptr;
  if (url == nullptr) return fail(error, SAQIYA_INVALID, "the URL is null");
  return guard(error, [&] {
    saqiya::StoreOptions converted;
    if (options != nullptr) {
      saqiya_store_options known;
      if (!read_sized(options, &known)) {
        return fail(error, SAQIYA_INVALID, "the options were not initialised by this version");
      }
      if (const char* wrong = convert(known, &converted)) {
        return fail(error, SAQIYA_INVALID, wrong);
      }
    }
    saqiya::OpenError wrong;
    auto made = std::make_unique<saqiya_store>();
    made->store = saqiya::open_store(url, converted, &wrong);
    if (made->store == nullptr) return fail(error, status_of(wrong.fault), wrong.message);
    *store = made.release();
    return static_cast<int>(SAQIYA_OK);
  });
}

void saqiya_store_free(saqiya_store* store) { delete store; }

int saqiya_store_is_local(const saqiya_store* store) {
  return store != nullptr && store->store->is_local() ? 1 : 0;
}

void saqiya_store_stats_init(saqiya_store_stats* stats, size_t size) { init_sized(stats, size); }

int saqiya_store_get_stats(const saqiya_store* store, saqiya_store_stats* stats) {
  saqiya_store_stats found;
  saqiya_store_stats_init(&found, sizeof found);
  int code = SAQIYA_INVALID;
  if (store != nullptr) {
    code = guard([&] {
      const saqiya::StoreStats now = store->store->stats();
      found.keys = now.keys;
      found.bytes = now.bytes;
      found.evictions = now.evictions;
      found.requests = now.requests;
      found.batches = now.batches;
      found.connects = now.connects;
      found.failures = now.failures;
      found.allowed = now.allowed;
      found.denied = now.denied;
      found.cached = now.cached;
      found.local_allowed = now.local_allowed;
      found.local_denied = now.local_denied;
      found.opened = now.opened;
      found.closed = now.closed;
      found.outages = now.outages;
      found.degraded = now.degraded;
      std::copy(now.latency.begin(), now.latency.end(), found.latency);
      return SAQIYA_OK;
    });
  }
  return write_sized(found, stats) ? code : SAQIYA_INVALID;
}

void saqiya_event_init(saqiya_event* event, size_t size) { init_sized(event, size); }

int saqiya_store_has_event(const saqiya_store* store) {
  return store != nullptr && store->store->has_event() ? 1 : 0;
}

int saqiya_store_next_event(saqiya_store* store, saqiya_event* event) {
  saqiya_event found;
  saqiya_event_init(&found, sizeof found);
  if (!write_sized(found, event) || store == nullptr) return SAQIYA_INVALID;
  saqiya::Event next;
  if (store->store->next_event(&next)) {
    found.kind = static_cast<std::uint32_t>(next.kind);
    found.reason = static_cast<std::int32_t>(next.reason);
    found.suppressed = next.suppressed;
    found.wall_us = next.wall;
    found.duration_us = next.duration;
    found.decisions = next.decisions;
    std::copy(next.server.begin(), next.server.end(), found.server);
    std::copy(next.message.begin(), next.message.end(), found.message);
  }
  return write_sized(found, event) ? SAQIYA_OK : SAQIYA_INVALID;
}

}  // extern "C"

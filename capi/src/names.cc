// Names and messages of the numbered codes, one list each.
#include <cstring>
#include <iterator>

#include "handles.h"

namespace {

struct Entry {
  const char* name;
  const char* message;
};

constexpr Entry kStatus[] = {
    {"ok", "no error"},
    {"invalid", "an argument is null, out of range or of another store"},
    {"bad_policy", "the policy is malformed or outside the ranges"},
    {"bad_url", "the store URL is malformed or of an unknown kind"},
    {"no_memory", "out of memory"},
    {"queue_full", "the queue is full: drain completions first"},
    {"closed", "the queue was closed"},
    {"too_small", "the buffer is too small"},
    {"system", "the operating system refused a resource"},
    {"internal", "a fault in saqiya: please report it"},
};
static_assert(std::size(kStatus) == SAQIYA_INTERNAL + 1);

constexpr Entry kOutcome[] = {
    {"none", ""}, {"allowed", ""}, {"denied", ""}, {"never", ""}, {"unavailable", ""},
};
static_assert(std::size(kOutcome) == SAQIYA_UNAVAILABLE + 1);

constexpr Entry kSource[] = {
    {"store", ""}, {"cache", ""}, {"local", ""}, {"open", ""}, {"closed", ""},
};
static_assert(std::size(kSource) == SAQIYA_SOURCE_CLOSED + 1);

constexpr Entry kReason[] = {
    {"none", ""},
    {"connect", "no connection to the store could be made"},
    {"resolve", "the store's host name could not be resolved"},
    {"auth", "the store refused the user, the password or the database"},
    {"timeout", "the store did not answer before the deadline"},
    {"lost", "the connection to the store broke before the answer came"},
    {"refused", "the store refuses requests at the moment"},
    {"read_only", "the store is a read-only replica"},
    {"permission", "the store's access rules forbid a command"},
    {"server_memory", "the store is out of memory"},
    {"corrupt", "the key holds a value that is not a limiter's"},
    {"protocol", "the store's answer could not be understood"},
    {"busy", "every connection to the store was busy"},
    {"cancelled", "the queue was closed"},
};
static_assert(std::size(kReason) == SAQIYA_REASON_CANCELLED + 1);

constexpr Entry kUnknown = {"unknown", "unknown code"};

template <std::size_t N>
const Entry& find(const Entry (&list)[N], int32_t code) {
  return code >= 0 && static_cast<std::size_t>(code) < N ? list[code] : kUnknown;
}

}  // namespace

extern "C" {

const char* saqiya_status_name(int32_t status) { return find(kStatus, status).name; }
const char* saqiya_status_message(int32_t status) { return find(kStatus, status).message; }
const char* saqiya_outcome_name(int32_t outcome) { return find(kOutcome, outcome).name; }
const char* saqiya_source_name(int32_t source) { return find(kSource, source).name; }
const char* saqiya_reason_name(int32_t reason) { return find(kReason, reason).name; }
const char* saqiya_reason_message(int32_t reason) { return find(kReason, reason).message; }
int saqiya_reason_is_undone(int32_t reason) {
  return saqiya::is_certainly_undone(static_cast<saqiya::Reason>(reason)) ? 1 : 0;
}
const char* saqiya_version(void) { return SAQIYA_VERSION_STRING; }

}  // extern "C"

namespace saqiya::capi {

int fail(saqiya_error* error, int code, std::string_view message, std::int32_t position) {
  if (error == nullptr) return code;
  std::memset(error, 0, sizeof *error);
  error->code = code;
  error->position = position;
  const std::size_t length = std::min(message.size(), sizeof error->message - 1);
  std::memcpy(error->message, message.data(), length);
  return code;
}

}  // namespace saqiya::capi

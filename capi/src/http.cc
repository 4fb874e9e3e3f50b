// Decisions as HTTP.
#include <string>

#include "handles.h"

namespace {

using saqiya::capi::clear;
using saqiya::capi::copy_as;
using saqiya::capi::guard;

saqiya::Decision as_decision(const saqiya_decision& in) {
  saqiya::Decision out;
  copy_as(in, &out);
  return out;
}

int write(const std::string& text, char* buffer, std::size_t size, std::size_t* len) {
  *len = text.size();
  if (buffer == nullptr || size <= text.size()) {
    if (buffer != nullptr && size > 0) buffer[0] = '\0';
    return SAQIYA_TOO_SMALL;
  }
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return SAQIYA_OK;
}

}  // namespace

extern "C" {

int saqiya_http_get_numbers(const saqiya_limiter* limiter, const saqiya_decision* decision,
                            saqiya_http_numbers* numbers) {
  clear(numbers);
  if (limiter == nullptr || decision == nullptr || numbers == nullptr) return SAQIYA_INVALID;
  return guard([&] {
    copy_as(saqiya::http::numbers(*limiter->limiter, as_decision(*decision)), numbers);
    return SAQIYA_OK;
  });
}

const char* saqiya_http_policy(const saqiya_limiter* limiter) {
  return limiter != nullptr ? limiter->limiter->http_policy().c_str() : "";
}

const char* saqiya_http_item(const saqiya_limiter* limiter, size_t rule) {
  if (limiter == nullptr || rule >= limiter->limiter->rules().size()) return "";
  return limiter->limiter->http_item(rule).c_str();
}

int saqiya_http_fields(const saqiya_limiter* limiter, const saqiya_decision* decision,
                       uint32_t flags, char* buffer, size_t size, size_t* len) {
  clear(len);
  if (limiter == nullptr || decision == nullptr || len == nullptr ||
      (flags & ~static_cast<uint32_t>(SAQIYA_HTTP_LEGACY | SAQIYA_HTTP_DRAFT)) != 0) {
    return SAQIYA_INVALID;
  }
  return guard([&] {
    saqiya::http::Choice choice;
    if (flags != 0) {
      choice.legacy = (flags & SAQIYA_HTTP_LEGACY) != 0;
      choice.draft = (flags & SAQIYA_HTTP_DRAFT) != 0;
    }
    return write(saqiya::http::fields(*limiter->limiter, as_decision(*decision), choice), buffer,
                 size, len);
  });
}

int saqiya_http_body(const saqiya_limiter* limiter, const saqiya_decision* decision, char* buffer,
                     size_t size, size_t* len) {
  clear(len);
  if (limiter == nullptr || decision == nullptr || len == nullptr) return SAQIYA_INVALID;
  return guard([&] {
    return write(saqiya::http::body(*limiter->limiter, as_decision(*decision)), buffer, size, len);
  });
}

}  // extern "C"

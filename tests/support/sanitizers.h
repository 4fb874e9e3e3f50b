// Whether this build runs under a sanitizer: tests of size then run smaller, tests of malloc's own
// numbers leave the comparison with malloc out.
#pragma once

// GCC tells it by macros, clang by features.
#ifndef __has_feature
#define __has_feature(feature) 0
#endif

namespace saqiya::test {

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitized = true;
#else
inline constexpr bool kAddressSanitized = false;
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = kAddressSanitized;
#endif

}  // namespace saqiya::test

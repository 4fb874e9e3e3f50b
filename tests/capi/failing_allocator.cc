#include "tests/capi/failing_allocator.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local int countdown = 0;  // 0: normal
thread_local bool failed = false;

bool fails_now() {
  if (countdown == 0 || --countdown != 0) return false;
  failed = true;
  return true;
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (fails_now()) throw std::bad_alloc();
  size = std::max<std::size_t>(size, 1);
  void* const memory =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* openssl_malloc(std::size_t size, const char*, int) {
  return fails_now() ? nullptr : std::malloc(size);
}
void* openssl_realloc(void* memory, std::size_t size, const char*, int) {
  return fails_now() ? nullptr : std::realloc(memory, size);
}
void openssl_free(void* memory, const char*, int) { std::free(memory); }

// Before OpenSSL allocates anything, or it refuses.
const bool openssl_agreed =
    CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free) == 1;

}  // namespace

namespace saqiya::test {

void fail_allocation(int n) {
  failed = false;
  countdown = n;
}

bool allocation_failed() {
  countdown = 0;
  return failed;
}

bool openssl_allocations_fail_too() { return openssl_agreed; }

}  // namespace saqiya::test

void* operator new(std::size_t size) { return allocate(size, 1); }
void* operator new[](std::size_t size) { return allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

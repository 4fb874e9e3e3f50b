// Allocations that fail on demand: operator new in the whole program, and OpenSSL's malloc.
#pragma once

namespace saqiya::test {

// The n-th allocation of this thread from now on fails, once.
void fail_allocation(int n);
// Back to normal. True when that allocation was reached, so that it failed.
bool allocation_failed();
// False when OpenSSL would not take our functions.
bool openssl_allocations_fail_too();

}  // namespace saqiya::test

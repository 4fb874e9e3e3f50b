// Random bytes of the operating system.
#pragma once

#include <cstddef>
#include <cstdint>

namespace saqiya {

// False when the operating system refuses.
bool fill_random(void* out, std::size_t size);

// For names that must differ between processes, children of a fork among them. Throws
// std::bad_alloc when the operating system refuses, which it does not once it has given any.
std::uint64_t random_number();

}  // namespace saqiya

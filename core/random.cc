#include "core/random.h"

#include <sys/random.h>

#include <cerrno>
#include <new>

namespace saqiya {

bool fill_random(void* out, std::size_t size) {
  auto* p = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = getrandom(p, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    p += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (!fill_random(&number, sizeof number)) throw std::bad_alloc();
  return number;
}

}  // namespace saqiya

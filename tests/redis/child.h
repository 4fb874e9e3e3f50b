// Children of forks.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/sanitizers.h"

namespace saqiya::testing {

// AddressSanitizer's allocator does not survive a fork in the midst of another thread's malloc, as
// glibc's does: a child then hangs in malloc. There the parent is quiet while it forks.
inline constexpr int kThreadsBesideForks = test::kAddressSanitized ? 0 : 8;
// ThreadSanitizer's does not either, but there a child hung only once in some 60,000.
inline constexpr int kForks = test::kSanitized ? 100 : 1000;

// Runs `body` in a child; its result is the exit code. A child that hangs is killed and fails.
template <typename Body>
pid_t in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(100);
    ::_exit(body());
  }
  return pid;
}

inline int exit_code(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace saqiya::testing

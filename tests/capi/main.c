/* The C API as a C99 program uses it, against the shared library. Exit code 0: everything held. */
#include <stdio.h>
#include <string.h>

#include "check.h"

static int failures = 0;
static int checks = 0;

void check_that(int holds, const char *what, const char *file, int line) {
  ++checks;
  if (holds) return;
  ++failures;
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
}

void check_equal(int64_t got, int64_t want, const char *what, const char *file, int line) {
  check_that(got == want, what, file, line);
  if (got != want) fprintf(stderr, "  got %lld, want %lld\n", (long long)got, (long long)want);
}

void check_text(const char *got, const char *want, const char *file, int line) {
  check_that(got != NULL && strcmp(got, want) == 0, want, file, line);
  if (got == NULL || strcmp(got, want) != 0) fprintf(stderr, "  got %s\n", got ? got : "(null)");
}

int is_zero(const void *data, uint64_t size) {
  const unsigned char *bytes = (const unsigned char *)data;
  uint64_t i;
  for (i = 0; i < size; ++i) {
    if (bytes[i] != 0) return 0;
  }
  return 1;
}

int main(void) {
  test_layout();
  test_names();
  test_clocks_and_stores();
  test_options();
  test_limiters();
  test_tickets();
  test_queues();
  test_http();
  test_rules();
  test_items_together();
  test_acquire();
  printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 && checks > 300 ? 0 : 1;
}

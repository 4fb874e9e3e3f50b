#include "setup.h"

#include <string.h>

#include "check.h"

setup setup_open(const char *policy) {
  setup s;
  saqiya_store_options options;
  memset(&s, 0, sizeof s);
  CHECK_EQ(saqiya_clock_create_manual(1000000000, &s.clock), SAQIYA_OK);
  saqiya_store_options_init(&options, sizeof options);
  options.clock = s.clock;
  CHECK_EQ(saqiya_store_open("memory://", &options, &s.store, NULL), SAQIYA_OK);
  CHECK_EQ(saqiya_limiter_create(s.store, policy, NULL, &s.limiter, NULL), SAQIYA_OK);
  return s;
}

void setup_free(setup *s) {
  saqiya_limiter_free(s->limiter);
  saqiya_store_free(s->store);
  saqiya_clock_free(s->clock);
}

/* A limiter on a memory store with a manual clock at 1,000 s. */
#ifndef SAQIYA_TESTS_CAPI_SETUP_H
#define SAQIYA_TESTS_CAPI_SETUP_H

#include <saqiya/saqiya.h>

typedef struct setup {
  saqiya_clock* clock;
  saqiya_store* store;
  saqiya_limiter* limiter;
} setup;

setup setup_open(const char* policy);
void setup_free(setup* s);

#endif

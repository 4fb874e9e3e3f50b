/* The least that a test in C needs: CHECK counts and prints what does not hold. */
#ifndef SAQIYA_TESTS_CAPI_CHECK_H
#define SAQIYA_TESTS_CAPI_CHECK_H

#include <stdint.h>

void check_that(int holds, const char* what, const char* file, int line);
void check_equal(int64_t got, int64_t want, const char* what, const char* file, int line);
void check_text(const char* got, const char* want, const char* file, int line);
/* 1 when all size bytes are zero. */
int is_zero(const void* data, uint64_t size);

#define CHECK(condition) check_that((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
#define CHECK_EQ(got, want) \
  check_equal((int64_t)(got), (int64_t)(want), #got " == " #want, __FILE__, __LINE__)
#define CHECK_TEXT(got, want) check_text((got), (want), __FILE__, __LINE__)

/* The parts of the program, one file each. */
void test_names(void);
void test_clocks_and_stores(void);
void test_options(void);
void test_limiters(void);
void test_tickets(void);
void test_queues(void);
void test_http(void);
void test_layout(void);
void test_rules(void);
void test_items_together(void);
void test_acquire(void);

#endif

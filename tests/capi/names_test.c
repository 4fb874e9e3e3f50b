/* Names and messages of the numbered codes. */
#include <saqiya/saqiya.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static void check_list(const char *(*name)(int32_t), int32_t count) {
  int32_t i;
  int32_t k;
  for (i = 0; i < count; ++i) {
    const char *text = name(i);
    CHECK(text != NULL && text[0] != '\0' && strcmp(text, "unknown") != 0);
    CHECK_EQ(strspn(text, "abcdefghijklmnopqrstuvwxyz_"), strlen(text));
    for (k = 0; k < i; ++k) CHECK(strcmp(text, name(k)) != 0);
  }
  CHECK_TEXT(name(count), "unknown");
  CHECK_TEXT(name(-1), "unknown");
  CHECK_TEXT(name(INT32_MIN), "unknown");
  CHECK_TEXT(name(INT32_MAX), "unknown");
}

void test_names(void) {
  char version[32];
  int32_t i;
  check_list(saqiya_status_name, SAQIYA_INTERNAL + 1);
  check_list(saqiya_outcome_name, SAQIYA_UNAVAILABLE + 1);
  check_list(saqiya_source_name, SAQIYA_SOURCE_CLOSED + 1);
  check_list(saqiya_reason_name, SAQIYA_REASON_CANCELLED + 1);
  CHECK_TEXT(saqiya_status_name(SAQIYA_INVALID), "invalid");
  CHECK_TEXT(saqiya_status_name(SAQIYA_NO_MEMORY), "no_memory");
  CHECK_TEXT(saqiya_outcome_name(SAQIYA_NEVER), "never");
  CHECK_TEXT(saqiya_source_name(SAQIYA_SOURCE_STORE), "store");
  CHECK_TEXT(saqiya_source_name(SAQIYA_SOURCE_CLOSED), "closed");
  CHECK_TEXT(saqiya_reason_name(SAQIYA_REASON_TIMEOUT), "timeout");
  for (i = 0; i <= SAQIYA_INTERNAL; ++i) CHECK(strlen(saqiya_status_message(i)) > 3);
  for (i = 1; i <= SAQIYA_REASON_CANCELLED; ++i) CHECK(strlen(saqiya_reason_message(i)) > 3);
  CHECK_TEXT(saqiya_reason_message(SAQIYA_REASON_NONE), "");
  CHECK(saqiya_reason_is_undone(SAQIYA_REASON_CONNECT) == 1);
  CHECK(saqiya_reason_is_undone(SAQIYA_REASON_BUSY) == 1);
  CHECK(saqiya_reason_is_undone(SAQIYA_REASON_SERVER_MEMORY) == 1);
  CHECK(saqiya_reason_is_undone(SAQIYA_REASON_NONE) == 0);
  CHECK(saqiya_reason_is_undone(SAQIYA_REASON_TIMEOUT) == 0);
  CHECK(saqiya_reason_is_undone(SAQIYA_REASON_CORRUPT) == 0);
  CHECK(saqiya_reason_is_undone(99) == 0);
  CHECK(saqiya_status_message(99) != NULL && saqiya_reason_message(-5) != NULL);
  sprintf(version, "%d.%d.%d", SAQIYA_VERSION_MAJOR, SAQIYA_VERSION_MINOR, SAQIYA_VERSION_PATCH);
  CHECK_TEXT(saqiya_version(), version);
}

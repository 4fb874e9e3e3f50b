/* example.c: seven requests against a limit of 5 per second.
 *
 *     cc example.c $(pkg-config --cflags --libs saqiya) -o example
 *     ./example [memory:// | redis://localhost | unix:///run/redis.sock]
 */
#include <saqiya/saqiya.h>
#include <stdio.h>

int main(int argc, char **argv) {
  saqiya_store *store = NULL;
  saqiya_limiter *limiter = NULL;
  saqiya_error error;
  saqiya_decision d;
  int i;

  if (saqiya_store_open(argc > 1 ? argv[1] : "memory://", NULL, &store, &error) != SAQIYA_OK ||
      saqiya_limiter_create(store, "5/s", NULL, &limiter, &error) != SAQIYA_OK) {
    fprintf(stderr, "example: %s\n", error.message);
    saqiya_store_free(store);
    return 1;
  }
  for (i = 1; i <= 7; i++) {
    saqiya_limiter_check(limiter, "user:42", 7, 1, &d, NULL);
    printf("request %d: %s", i, saqiya_outcome_name(d.outcome));
    if (d.outcome == SAQIYA_ALLOWED) printf(", %lld left", (long long)d.remaining);
    if (d.outcome == SAQIYA_DENIED) printf(", again in %lld us", (long long)d.retry_after_us);
    if (d.outcome == SAQIYA_UNAVAILABLE) printf(" (%s)", saqiya_reason_message(d.reason));
    printf("\n");
  }
  saqiya_limiter_free(limiter);
  saqiya_store_free(store);
  return 0;
}

/* saqiya.h: exact rate limiting, in the process and on Redis.
 *
 * This header is the contract and the reference. What is not in it is not API.
 *
 *     saqiya_store *store = NULL;
 *     saqiya_limiter *limiter = NULL;
 *     saqiya_decision d;
 *     saqiya_store_open("memory://", NULL, &store, NULL);
 *     saqiya_limiter_create(store, "5/s burst 20", NULL, &limiter, NULL);
 *     saqiya_limiter_check(limiter, "user:42", 7, 1, &d, NULL);
 *     if (d.outcome == SAQIYA_ALLOWED) { ... }
 *
 * Conventions
 *
 *  1. Names. Types are saqiya_noun, functions saqiya_noun_verb, the handle comes first.
 *  2. Status. Functions return SAQIYA_OK (0) or another saqiya_status, results go to
 *     out-parameters. A denial is not an error, nor is a store that fails: the call returns
 *     SAQIYA_OK and the decision's outcome is SAQIYA_DENIED or SAQIYA_UNAVAILABLE. A status other
 *     than SAQIYA_OK means misuse or a lack of memory; outputs are then zeroed and no handle is
 *     produced. Arguments are checked in release builds too.
 *  3. Error detail. Functions that read text take an optional saqiya_error, owned by the caller.
 *  4. Ownership. Every _open or _create has a _free, which accepts NULL and never fails. A limiter
 *     and a queue keep their store alive, a store its clock: free in any order. Strings passed in
 *     are copied. Strings returned live as long as the handle they came from.
 *  5. Text is UTF-8 with a closing zero. Keys are pointer and length and may hold any byte; by
 *     convention they are UTF-8 too. A key pointer may be NULL when the length is 0. Key lengths
 *     go to SAQIYA_MAX_KEY.
 *  6. Time. Every time and duration is a signed 64-bit count of microseconds and its name ends in
 *     _us.
 *  7. Threads. Clocks, stores and limiters may be used from any number of threads at once. A queue
 *     belongs to one thread at a time. Freeing must not race with another use of the same handle.
 *     The library starts no threads and installs no signal handlers. Signals do not end a call that
 *     waits for Redis: it returns with the answer, or at its deadline.
 *  8. Fork. Handles made before fork() work in the child with no call. The child starts with an
 *     empty memory table and connects anew; what the parent had submitted to a queue stays the
 *     parent's. fork() waits until no thread is inside OpenSSL (a step of TLS; a second at most).
 *  9. Structs. Option structs begin with their size: call their _init first, with sizeof, as in
 *     saqiya_rule_init(&rule, sizeof rule); zero then means default. A larger struct from a newer
 *     caller is accepted while its unknown bytes are zero, and never more is written than its size.
 *     saqiya_decision, saqiya_ticket, saqiya_completion and saqiya_http_numbers have no size field
 *     and are frozen.
 * 10. The library prints nothing, never aborts or exits, and reads no environment variables (its
 *     resolver for host names heeds LOCALDOMAIN and RES_OPTIONS, as the system's does; time zones
 *     are looked for where TZDIR says, the system's certificate authorities where SSL_CERT_FILE and
 *     SSL_CERT_DIR say).
 */
#ifndef SAQIYA_SAQIYA_H
#define SAQIYA_SAQIYA_H

#include <stddef.h>
#include <stdint.h>

#define SAQIYA_VERSION_MAJOR 0
#define SAQIYA_VERSION_MINOR 1
#define SAQIYA_VERSION_PATCH 0
#define SAQIYA_VERSION_STRING "0.1.0"

#ifndef SAQIYA_API
#if defined(__GNUC__)
#define SAQIYA_API __attribute__((visibility("default")))
#else
#define SAQIYA_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* -- Status, outcomes, reasons ---------------------------------------------------------------- */

typedef enum saqiya_status {
  SAQIYA_OK = 0,
  SAQIYA_INVALID = 1,    /* caller: an argument is null, out of range or of the wrong handle */
  SAQIYA_BAD_POLICY = 2, /* caller: the policy is malformed or outside the ranges */
  SAQIYA_BAD_URL = 3,    /* caller: the store URL is malformed or of an unknown kind */
  SAQIYA_NO_MEMORY = 4,  /* machine: allocation failed; nothing was changed */
  SAQIYA_QUEUE_FULL = 5, /* load: the queue holds as many requests as its capacity allows */
  SAQIYA_CLOSED = 6,     /* caller: the queue was closed */
  SAQIYA_TOO_SMALL = 7,  /* caller: the buffer is too small; the needed size is reported */
  SAQIYA_SYSTEM = 8,     /* machine: the operating system refused a descriptor or randomness */
  SAQIYA_INTERNAL = 9    /* saqiya: a fault of ours; please report it */
} saqiya_status;

/* Outcome 0 is none: a zeroed decision never admits. */
typedef enum saqiya_outcome {
  SAQIYA_NONE = 0,
  SAQIYA_ALLOWED = 1,    /* charged; go on (after delay_us, if that is not 0) */
  SAQIYA_DENIED = 2,     /* not charged; the same request passes after retry_after_us */
  SAQIYA_NEVER = 3,      /* not charged; the cost is above the capacity: no wait will help */
  SAQIYA_UNAVAILABLE = 4 /* the store failed, nothing was decided; see reason */
} saqiya_outcome;

/* Which way a decision was made. While Redis does not answer, the limiter's failure policy decides
 * (saqiya_failure). */
typedef enum saqiya_source {
  SAQIYA_SOURCE_STORE = 0, /* by the store; also of SAQIYA_NEVER and SAQIYA_UNAVAILABLE */
  SAQIYA_SOURCE_CACHE = 1, /* denied: Redis refused this key a moment ago, and would again */
  SAQIYA_SOURCE_LOCAL = 2, /* Redis did not answer: by a table in this process */
  SAQIYA_SOURCE_OPEN = 3,  /* Redis did not answer: allowed unseen; all numbers are 0 */
  SAQIYA_SOURCE_CLOSED = 4 /* Redis did not answer: denied; of the numbers only retry_after_us is
                              set, 1 to 5 s: ask again then */
} saqiya_source;

/* Why Redis gave no answer: of SAQIYA_UNAVAILABLE and of the sources LOCAL, OPEN and CLOSED.
 * "Unknown" means that the charge may have been made there. Where a value is CORRUPT, reset
 * overwrites it. */
typedef enum saqiya_reason {
  SAQIYA_REASON_NONE = 0,
  SAQIYA_REASON_CONNECT = 1,    /* no connection could be made; not charged */
  SAQIYA_REASON_RESOLVE = 2,    /* the host name could not be resolved; not charged */
  SAQIYA_REASON_AUTH = 3,       /* user, password or database were refused; not charged */
  SAQIYA_REASON_TIMEOUT = 4,    /* the deadline passed; unknown */
  SAQIYA_REASON_LOST = 5,       /* the connection broke before the answer came; unknown */
  SAQIYA_REASON_REFUSED = 6,    /* the server cannot serve now (LOADING, BUSY, ...); not charged */
  SAQIYA_REASON_READ_ONLY = 7,  /* the server is a replica; not charged */
  SAQIYA_REASON_PERMISSION = 8, /* the server's access rules forbid a command; not charged */
  SAQIYA_REASON_SERVER_MEMORY = 9, /* the server is out of memory; not charged */
  SAQIYA_REASON_CORRUPT = 10,      /* the key holds a value that is not ours; not charged */
  SAQIYA_REASON_PROTOCOL = 11,     /* the answer could not be understood; unknown */
  SAQIYA_REASON_BUSY = 12,         /* could not be sent before the deadline; not charged */
  SAQIYA_REASON_CANCELLED = 13     /* the queue was closed; unknown if it had been sent */
} saqiya_reason;

/* Short lower-case names ("invalid", "denied", "timeout"); a number outside gives "unknown". */
SAQIYA_API const char *saqiya_status_name(int32_t status);
SAQIYA_API const char *saqiya_status_message(int32_t status);
SAQIYA_API const char *saqiya_outcome_name(int32_t outcome);
SAQIYA_API const char *saqiya_source_name(int32_t source); /* "store", "cache", "local", ... */
SAQIYA_API const char *saqiya_reason_name(int32_t reason);
SAQIYA_API const char *saqiya_reason_message(int32_t reason);
/* 1 when what failed for this reason has certainly changed nothing, so that a refund may be tried
 * again: CONNECT, RESOLVE, AUTH, REFUSED, READ_ONLY, SERVER_MEMORY, BUSY. */
SAQIYA_API int saqiya_reason_is_undone(int32_t reason);

/* The library's version, "0.1.0"; the header's is SAQIYA_VERSION_STRING. */
SAQIYA_API const char *saqiya_version(void);

typedef struct saqiya_error {
  int32_t code;      /* a saqiya_status */
  int32_t position;  /* byte offset in the text that was read, or -1 */
  char message[248]; /* one sentence, no newline; never holds a password */
} saqiya_error;

/* -- Limits and constants --------------------------------------------------------------------- */

#define SAQIYA_MAX_KEY 65536       /* bytes in a key */
#define SAQIYA_MAX_NAME 64         /* bytes in a limiter's name */
#define SAQIYA_MAX_RULES 8         /* rules in a policy */
#define SAQIYA_MAX_ITEMS 16        /* limiters asked at once: saqiya_check_all */
#define SAQIYA_NO_WAIT INT64_C(-1) /* as max_wait_us: do not wait, not even in a queue */
#define SAQIYA_MAX_COST INT64_C(9007199254740991) /* 2^53 - 1; also the largest capacity */
#define SAQIYA_UNLIMITED SAQIYA_MAX_COST          /* limit and remaining of an unlimited policy */
#define SAQIYA_FOREVER INT64_MAX                  /* retry_after_us of SAQIYA_NEVER */

/* -- Decisions and tickets -------------------------------------------------------------------- */

/* The answer to a check. All numbers are 0 when the outcome is SAQIYA_UNAVAILABLE. */
typedef struct saqiya_decision {
  int32_t outcome;        /* a saqiya_outcome */
  int32_t reason;         /* a saqiya_reason: why Redis did not answer; 0 when it did */
  int64_t limit;          /* what the rule that bound allows at the most */
  int64_t remaining;      /* what is left of it afterwards, rounded down: 0 <= remaining <= limit */
  int64_t retry_after_us; /* denied: first instant at which this very cost passes if nobody else
                             comes, > 0 (from the cache: at most that; closed: see
                             saqiya_source); never: SAQIYA_FOREVER; otherwise 0 */
  int64_t reset_after_us; /* time until all of it is there again if left alone, rounded up */
  int64_t delay_us;       /* allowed with a wait: sleep this long before going on */
  int32_t rule;   /* index of the rule that bound, from 0. Refused: of those that refused, the one
                     with the longest wait; allowed: the one with the least remaining share */
  int32_t item;   /* saqiya_check_all: index of the item whose rule that is */
  int32_t source; /* a saqiya_source */
  int32_t reserved32;
} saqiya_decision; /* 64 bytes, frozen */

/* What a charge can be given back by: one for each rule of the limiter. Treat as opaque; plain
 * data, no need to free. */
typedef struct saqiya_ticket {
  int64_t q; /* what was charged: an instant, q + r/n microseconds */
  uint32_t r;
  uint32_t n; /* 0: nothing was charged, nothing to give back */
  int64_t cost;
  uint64_t epoch;     /* the table that was charged; a ticket of another table gives nothing */
  uint32_t flags;     /* bit 0: spent; bit 1: a reservation (the charge had a delay) */
  uint32_t algorithm; /* a saqiya_algorithm */
  uint64_t lease;     /* concurrency: the lease's number */
} saqiya_ticket;      /* 48 bytes, frozen */

/* -- Clocks ----------------------------------------------------------------------------------- */

/* A store without a clock uses the system's: monotonic time in the process, the server's own TIME
 * on Redis. A manual clock is for tests and simulation; it moves only when told to.
 * Range of every reading: 0 ... 2^52 us. */
typedef struct saqiya_clock saqiya_clock;

/* Both readings (monotonic and wall) start at now_us. */
SAQIYA_API int saqiya_clock_create_manual(int64_t now_us, saqiya_clock **clock);
/* Sets both readings; going back is allowed. */
SAQIYA_API int saqiya_clock_set(saqiya_clock *clock, int64_t now_us);
/* Sets the wall reading alone. In the process only windows and calendars look at it. */
SAQIYA_API int saqiya_clock_set_wall(saqiya_clock *clock, int64_t wall_us);
/* Moves both readings; by_us may be negative. */
SAQIYA_API int saqiya_clock_advance(saqiya_clock *clock, int64_t by_us);
SAQIYA_API int saqiya_clock_now(const saqiya_clock *clock, int64_t *monotonic_us, int64_t *wall_us);
SAQIYA_API void saqiya_clock_free(saqiya_clock *clock);

/* -- Stores ----------------------------------------------------------------------------------- */

typedef struct saqiya_store saqiya_store;

enum {
  /* Redis only, for tests: the server uses the store's manual clock, sent with every batch, and
   * keys live for at least an hour of real time. Without it a manual clock is refused on Redis. */
  SAQIYA_STORE_TESTING = 1,
  /* Redis only: every subject is replaced by its digest in key names, not only long ones. */
  SAQIYA_STORE_HASH_SUBJECTS = 2
};

typedef struct saqiya_store_options {
  uint32_t size;       /* set by saqiya_store_options_init */
  uint32_t flags;      /* SAQIYA_STORE_... */
  saqiya_clock *clock; /* NULL: the system's */
  uint64_t max_keys;   /* memory, and Redis for its table in this process (SAQIYA_FAILURE_LOCAL):
                          bound on stored keys; 0: 10,000,000. At the bound the entries nearest
                          to full go first and are counted as evictions */
  int64_t deadline_us; /* Redis: everything one request may take, from name resolution to reply;
                          1,000 ... 3,600,000,000; 0: 100,000 */
  const char *prefix;  /* Redis: what every key begins with, without braces; NULL: "sq:" */
  const void *secret;  /* Redis: key of the digest (HMAC-SHA-256) of subjects that are hashed */
  uint64_t secret_len;
  uint32_t connections; /* Redis: connections shared by blocking callers, 1 ... 64; 0: 4 */
  uint32_t reserved32;
} saqiya_store_options;

SAQIYA_API void saqiya_store_options_init(saqiya_store_options *options, size_t size);

/* Opens a store. Makes no connection: that happens at the first request.
 *
 *   memory://                                                            this process
 *   redis://[[user][:password]@]host[:port][/database][?OPTIONS]         host may be [::1]
 *   unix://[[user][:password]@]/path/to/socket[?db=N&OPTIONS]
 *   redis+sentinel://[[user][:password]@]host[:port][,host[:port]...]/master[/database][?OPTIONS]
 *   redis+cluster://[[user][:password]@]host[:port][,host[:port]...][?OPTIONS]
 *
 * rediss://, rediss+sentinel:// and rediss+cluster:// are the same over TLS (1.2 or later; the
 * server's certificate and name are verified). Ports: 6379, of sentinels 26379. OPTIONS, joined
 * by "&":
 *
 *   client_name=NAME                                 CLIENT SETNAME of every connection
 *   ca=FILE  cert=FILE  key=FILE                     TLS: authorities instead of the system's; a
 *                                                    client certificate and its key (PEM)
 *   server_name=NAME  verify=no                      TLS: another name to expect; trust anyone
 *   sentinel_user=USER  sentinel_password=PASSWORD   how to log in to the sentinels
 *
 * Every part may be percent-encoded. Each memory:// store is a table of its own. */
SAQIYA_API int saqiya_store_open(const char *url, const saqiya_store_options *options,
                                 saqiya_store **store, saqiya_error *error);
SAQIYA_API void saqiya_store_free(saqiya_store *store);

/* 1 when decisions are made in this process without waiting (memory://), else 0. */
SAQIYA_API int saqiya_store_is_local(const saqiya_store *store);

typedef struct saqiya_store_stats {
  uint32_t size; /* set by saqiya_store_stats_init */
  uint32_t reserved32;
  uint64_t keys;      /* memory: entries held now */
  uint64_t bytes;     /* memory: bytes held for them */
  uint64_t evictions; /* memory: entries dropped at the bound before they were full */
  uint64_t requests;  /* Redis: requests sent */
  uint64_t batches;   /* Redis: scripts called */
  uint64_t connects;  /* Redis: connections made */
  uint64_t failures;  /* Redis: requests it did not answer, whatever was decided without it */
  /* Redis: checks (not peeks; check_all counts as one), by who decided and how. A "never" counts
     as denied. Those that ended unavailable are among failures only. */
  uint64_t allowed; /* by the server */
  uint64_t denied;
  uint64_t cached;        /* denied from the cache */
  uint64_t local_allowed; /* without the server: SAQIYA_SOURCE_LOCAL, OPEN, CLOSED */
  uint64_t local_denied;
  uint64_t opened;
  uint64_t closed;
  uint64_t outages;     /* Redis: how often it has gone away */
  uint64_t degraded;    /* Redis: 1 while a server is away, else 0 */
  uint64_t latency[16]; /* Redis: requests answered within 64 us, 128 us, ... from sending to
                           reply: latency[i] within 64 << i us and not within less; the last: all
                           that took longer */
} saqiya_store_stats;

SAQIYA_API void saqiya_store_stats_init(saqiya_store_stats *stats, size_t size);
/* In a child after fork() the counters go on from the parent's. */
SAQIYA_API int saqiya_store_get_stats(const saqiya_store *store, saqiya_store_stats *stats);

/* What an operator should be told, for the host program's log: the library prints nothing. At most
 * 5 events for a long outage, whatever the load. */
typedef enum saqiya_event_kind {
  SAQIYA_EVENT_NONE = 0,
  SAQIYA_EVENT_OUTAGE = 1,    /* a server does not answer: failure policies decide */
  SAQIYA_EVENT_RECOVERED = 2, /* it answers again. Of outages that follow one another within 10 s
                                 only the first is told, unless it lasts longer */
  SAQIYA_EVENT_REFUSED = 3    /* a server that answers refuses requests (memory, permission,
                                 a foreign value, a cluster, ...): once a minute for each reason */
} saqiya_event_kind;

typedef struct saqiya_event {
  uint32_t size;       /* set by saqiya_event_init */
  uint32_t kind;       /* a saqiya_event_kind */
  int32_t reason;      /* a saqiya_reason */
  uint32_t suppressed; /* events not told since the one before */
  int64_t wall_us;     /* when, since 1970 */
  int64_t duration_us; /* recovered: how long the outage was */
  uint64_t decisions;  /* recovered: requests that the server did not answer meanwhile */
  char server[112];    /* "host:port", or a socket's path; may be cut short */
  char message[248];   /* one sentence, no newline; never holds a password or a key */
} saqiya_event;

SAQIYA_API void saqiya_event_init(saqiya_event *event, size_t size);
/* 1 when there is an event to be taken; cheap enough to ask after every call. */
SAQIYA_API int saqiya_store_has_event(const saqiya_store *store);
/* Takes the oldest event; SAQIYA_OK with kind SAQIYA_EVENT_NONE when there is none. Up to 64 are
 * kept, the oldest go first. Any thread may take them; each is taken once. A child after fork()
 * begins without its parent's. */
SAQIYA_API int saqiya_store_next_event(saqiya_store *store, saqiya_event *event);

/* -- Limiters --------------------------------------------------------------------------------- */

typedef struct saqiya_limiter saqiya_limiter;

/* What becomes of checks and peeks that Redis does not answer (no connection, no reply within the
 * deadline, or an error). SAQIYA_NEVER stays that. Refunds, settlements, renewals and resets are
 * then unavailable, but for tickets that were made locally: they belong to the local table, during
 * the outage and after it. Of several limiters asked at once: with ERROR among them the answer is
 * unavailable, else with CLOSED denied; OPEN ones are passed over; LOCAL ones decide together. */
typedef enum saqiya_failure {
  /* Decided in this process by the same rules, of which it lets a share through: limits and rates
   * times failure_share_ppm / 1,000,000, rounded down, limits but not below 1. With N processes
   * and a share of 1/N all of them together keep the limit. In an outage of duration T at most
   * processes * share * (limit + rate * T) pass. The table outlives the outage, and what it
   * admitted is never charged to Redis. */
  SAQIYA_FAILURE_LOCAL = 1,
  SAQIYA_FAILURE_OPEN = 2,   /* allowed */
  SAQIYA_FAILURE_CLOSED = 3, /* denied; 503 in HTTP */
  SAQIYA_FAILURE_ERROR = 4   /* unavailable; the caller decides */
} saqiya_failure;

enum {
  /* Do not remember refusals (SAQIYA_SOURCE_CACHE). They are remembered for at most 1 s, under
   * policies of one token bucket: a key that is refused again and again then costs Redis one call
   * a second. A reset or refund by another process is seen when that second is over, one by this
   * process at once; a limiter that has refunded or settled does not remember any more. */
  SAQIYA_LIMITER_NO_DENY_CACHE = 1
};

/* The failure policy and the flags are of consequence on Redis only. */
typedef struct saqiya_limiter_options {
  uint32_t size;       /* set by saqiya_limiter_options_init */
  uint32_t flags;      /* SAQIYA_LIMITER_... */
  const char *name;    /* names the policy in keys and HTTP fields: 1 to SAQIYA_MAX_NAME printable
                          ASCII characters. Limiters of one name on one store share their state
                          and keep it when the limit changes. NULL: named by a digest of the text,
                          so unnamed limiters of one policy on one store share their state, too */
  int64_t deadline_us; /* Redis: 1,000 ... 3,600,000,000; 0: the store's */
  uint32_t failure;    /* a saqiya_failure; 0: SAQIYA_FAILURE_LOCAL */
  uint32_t failure_share_ppm; /* LOCAL: millionths of the limit that this process may let through,
                                 1 ... 1,000,000; 0: 1,000,000 */
  const char *fallback;       /* LOCAL: decide by this policy, of as many rules, instead of a
                                 share. NULL: by the share */
} saqiya_limiter_options;

SAQIYA_API void saqiya_limiter_options_init(saqiya_limiter_options *options, size_t size);

/* Creates a limiter from text; docs/policies.md has the whole grammar:
 *
 *   100/minute                      5/s burst 20                leaky-bucket: 10/s queue 50
 *   fixed-window: 100/min           sliding-window: 1000/hour   sliding-log: 5/15min
 *   calendar: 10000/month anchor 15 tz Africa/Cairo             concurrency: 20 ttl 30s
 *   5/s burst 20; 1000/day          unlimited
 *
 * The plain form is a token bucket: the count is the burst, too, unless a smaller or larger burst
 * is given. So a bare "100/minute" lets a full bucket of 100 pass at once and refills while they
 * are used: up to 199 within some minute. Use "100/minute burst 10" to stay nearer to the rate.
 *
 * Several rules are decided together: a request passes when all of them let it, and is charged to
 * all or to none. Their order does not matter. */
SAQIYA_API int saqiya_limiter_create(saqiya_store *store, const char *policy,
                                     const saqiya_limiter_options *options,
                                     saqiya_limiter **limiter, saqiya_error *error);

typedef enum saqiya_algorithm {
  SAQIYA_TOKEN_BUCKET = 1, /* also the leaky bucket, as a meter or (with queue) as a queue */
  SAQIYA_NO_LIMIT = 2,     /* unlimited; the only rule of its policy */
  SAQIYA_FIXED_WINDOW = 3, /* windows aligned to the epoch; up to twice the limit across an edge */
  SAQIYA_SLIDING_WINDOW = 4, /* two counters, the previous window's weighted by its overlap */
  SAQIYA_SLIDING_LOG = 5,    /* exact in every window; remembers every charge */
  SAQIYA_CALENDAR = 6,       /* days, weeks, months, years of a time zone */
  SAQIYA_CONCURRENCY = 7     /* how many at once; each holds a lease for at most its time to live */
} saqiya_algorithm;

typedef enum saqiya_calendar_unit {
  SAQIYA_DAY = 1,
  SAQIYA_WEEK = 2, /* from Monday */
  SAQIYA_MONTH = 3,
  SAQIYA_YEAR = 4
} saqiya_calendar_unit;

/* One rule as numbers. Zero for what the algorithm does not use.
 *
 * - capacity: the limit. Token bucket, fixed window, calendar: 0 ... 2^53 - 1; sliding window and
 *   log: 0 ... 2^32 - 1; concurrency: 0 ... 65,535. 0 refuses everything.
 * - tokens: token bucket: so many come back every period_us. After division of both by their
 *   greatest common divisor: 1 <= tokens < 2^32, 1 <= period_us <= 2^50, and capacity * period_us /
 *   tokens <= 2^50 (35.7 years to fill). 0 only with capacity 0.
 * - period_us: windows: their length, 1 ... 2^50; log: 1 ... 2^47; concurrency: a lease's time to
 *   live, 1 ... 2^47.
 * - queue: token bucket: so many more may wait for their turn: a check is then allowed with a
 *   delay. queue * period_us / tokens <= 2^50. */
typedef struct saqiya_rule {
  uint32_t size;      /* set by saqiya_rule_init */
  uint32_t algorithm; /* a saqiya_algorithm; 0: SAQIYA_TOKEN_BUCKET */
  int64_t capacity;
  int64_t tokens;
  int64_t period_us;
  int64_t queue;
  int32_t unit;       /* calendar: a saqiya_calendar_unit */
  int32_t anchor_day; /* calendar months: the day on which they begin, 1 ... 31 (a shorter month's
                         last day); 0: 1 */
  const char *zone;   /* calendar: an IANA time zone such as "Africa/Cairo", which this machine must
                         know; NULL: "UTC" */
} saqiya_rule;

SAQIYA_API void saqiya_rule_init(saqiya_rule *rule, size_t size);
/* count: 1 ... SAQIYA_MAX_RULES, all of the same size; no two of one algorithm and period. */
SAQIYA_API int saqiya_limiter_create_rules(saqiya_store *store, const saqiya_rule *rules,
                                           size_t count, const saqiya_limiter_options *options,
                                           saqiya_limiter **limiter, saqiya_error *error);
SAQIYA_API void saqiya_limiter_free(saqiya_limiter *limiter);

/* The canonical text of the policy ("5/s burst 20"); parsing it gives the same policy. */
SAQIYA_API const char *saqiya_limiter_policy(const saqiya_limiter *limiter);
/* The name given at creation, "" when there was none. */
SAQIYA_API const char *saqiya_limiter_name(const saqiya_limiter *limiter);
/* How many rules the policy has: 1 ... SAQIYA_MAX_RULES; also of an unlimited one, whose rule is
 * SAQIYA_NO_LIMIT. */
SAQIYA_API size_t saqiya_limiter_rule_count(const saqiya_limiter *limiter);
/* Fills *rule, which saqiya_rule_init has prepared. Its zone lives as long as the limiter. */
SAQIYA_API int saqiya_limiter_get_rule(const saqiya_limiter *limiter, size_t index,
                                       saqiya_rule *rule);

/* Asks for cost tokens (0 ... SAQIYA_MAX_COST) for the key. A request that is not allowed is never
 * charged. Cost 0 is allowed and changes nothing (never, when the limit is 0). A rule with a queue
 * may allow with a delay: sleep decision->delay_us before going on.
 * ticket: room for one of each rule, or NULL. Under concurrency the ticket is the lease: release it
 * by saqiya_limiter_refund.
 * On Redis the calling thread waits for the answer, at most until the deadline. */
SAQIYA_API int saqiya_limiter_check(saqiya_limiter *limiter, const void *key, size_t key_len,
                                    int64_t cost, saqiya_decision *decision, saqiya_ticket *ticket);

/* As check, and willing to wait: allowed when the tokens will be there within max_wait_us. They are
 * reserved now, first come first served; the caller sleeps decision->delay_us before going on. The
 * call itself does not sleep. max_wait_us: above 2^50 counts as 2^50; a rule's own queue is never
 * waited in for longer than it is; 0: as check; SAQIYA_NO_WAIT: without the queue's wait, too.
 * Only token buckets can be reserved: with any other rule in the policy max_wait_us counts as 0. */
SAQIYA_API int saqiya_limiter_check_wait(saqiya_limiter *limiter, const void *key, size_t key_len,
                                         int64_t cost, int64_t max_wait_us,
                                         saqiya_decision *decision, saqiya_ticket *ticket);

/* As check, and waits, asleep, for up to timeout_us (0 ... SAQIYA_FOREVER) until the request is
 * allowed and its delay is over. Where every rule is a token bucket the tokens are reserved: fair,
 * one call to the store. Else it sleeps until the instant at which the request would pass and tries
 * again; under concurrency, where a slot may be released early, it looks again at least every
 * 100 ms. Returns at once what can never be, or not in time, or when the store fails. The
 * decision's delay_us has been slept. The timeout is real time, whatever the store's clock. */
SAQIYA_API int saqiya_limiter_acquire(saqiya_limiter *limiter, const void *key, size_t key_len,
                                      int64_t cost, int64_t timeout_us, saqiya_decision *decision,
                                      saqiya_ticket *ticket);

/* What check would say, charging nothing. remaining and reset_after_us describe the untouched
 * state. */
SAQIYA_API int saqiya_limiter_peek(saqiya_limiter *limiter, const void *key, size_t key_len,
                                   int64_t cost, saqiya_decision *decision);

/* Gives back what the ticket's check took, as far as it still counts, and marks the ticket (one of
 * each rule) spent. Under concurrency: releases the lease. Outcome: allowed, something was given
 * back; denied, there was nothing left to give (too late, spent, or a reservation that others have
 * queued behind); unavailable, the store failed (not tried again; where it certainly did nothing,
 * as saqiya_reason_is_undone says, the tickets stay unspent).
 * remaining and reset_after_us describe the state afterwards. */
SAQIYA_API int saqiya_limiter_refund(saqiya_limiter *limiter, const void *key, size_t key_len,
                                     saqiya_ticket *ticket, saqiya_decision *decision);

/* Makes the charge of a check what it turned out to be: check an estimate first, settle the true
 * cost (0 ... SAQIYA_MAX_COST) when it is known. Less is given back as by refund; more is charged
 * whatever the limit says, so that later requests wait for it. Marks the ticket spent. In a policy
 * of several rules the lease of a concurrency rule stays as it is, unspent: release it when the
 * work is done. Outcome: allowed, done; denied, too late or spent: the charge no longer counts. */
SAQIYA_API int saqiya_limiter_settle(saqiya_limiter *limiter, const void *key, size_t key_len,
                                     saqiya_ticket *ticket, int64_t cost,
                                     saqiya_decision *decision);

/* Concurrency: lets the lease live for its rule's whole time to live from now on. Outcome: allowed,
 * it is still held; denied, it has expired or was released (its slot may be another's). */
SAQIYA_API int saqiya_limiter_renew(saqiya_limiter *limiter, const void *key, size_t key_len,
                                    const saqiya_ticket *ticket, saqiya_decision *decision);

/* Forgets the key: it is as if it had never come. decision may be NULL. What this process decided
 * locally is forgotten even when the store fails. */
SAQIYA_API int saqiya_limiter_reset(saqiya_limiter *limiter, const void *key, size_t key_len,
                                    saqiya_decision *decision);

typedef struct saqiya_key {
  const void *data;
  size_t len;
} saqiya_key;

/* Checks count keys with one cost each, in order; each is decided on its own. On Redis they travel
 * together. decisions has room for count; tickets is NULL or has room for count *
 * saqiya_limiter_rule_count: those of the first key, then of the second. */
SAQIYA_API int saqiya_limiter_check_many(saqiya_limiter *limiter, const saqiya_key *keys,
                                         size_t count, int64_t cost, saqiya_decision *decisions,
                                         saqiya_ticket *tickets);

/* The shortest form: tokens remaining (>= 0) when allowed, minus the wait in microseconds when
 * denied, else one of the constants below. */
#define SAQIYA_TAKE_MISUSE INT64_MIN
#define SAQIYA_TAKE_NEVER (INT64_MIN + 1)
#define SAQIYA_TAKE_UNAVAILABLE (INT64_MIN + 2)
SAQIYA_API int64_t saqiya_limiter_take(saqiya_limiter *limiter, const void *key, size_t key_len,
                                       int64_t cost);

/* -- Several limiters at once ------------------------------------------------------------------ */

typedef struct saqiya_item {
  saqiya_limiter *limiter; /* all of one store; unlimited ones are passed over */
  const void *key;
  uint64_t key_len;
  int64_t cost;
} saqiya_item;

/* Decides 1 ... SAQIYA_MAX_ITEMS requests together: all are charged, or none is. One call to the
 * store. Items of one limiter and key are added up. Two limiters of one name with different rules
 * on one key are SAQIYA_INVALID. The decision tells the rule that bound (item and rule);
 * retry_after_us is the longest of those that refuse. max_wait_us: as in check_wait. each, tickets:
 * NULL, or room for one for each rule of each item in turn (saqiya_limiter_rule_count): what each
 * rule alone says, charged when all were allowed. */
SAQIYA_API int saqiya_check_all(const saqiya_item *items, size_t count, int64_t max_wait_us,
                                saqiya_decision *decision, saqiya_decision *each,
                                saqiya_ticket *tickets);
/* The same without charging. */
SAQIYA_API int saqiya_peek_all(const saqiya_item *items, size_t count, saqiya_decision *decision,
                               saqiya_decision *each);
/* The same with waiting, as saqiya_limiter_acquire. */
SAQIYA_API int saqiya_acquire_all(const saqiya_item *items, size_t count, int64_t timeout_us,
                                  saqiya_decision *decision, saqiya_decision *each,
                                  saqiya_ticket *tickets);
/* Gives back what saqiya_check_all took, by its tickets, of all items (their costs do not matter).
 * Tickets of one item may also be refunded, settled or renewed alone. */
SAQIYA_API int saqiya_refund_all(const saqiya_item *items, size_t count, saqiya_ticket *tickets,
                                 saqiya_decision *decision);

/* For programs that wait in their own way: how long to sleep before the try after this one, the
 * `attempt`-th (from 0), when left_us may still be waited; -1: give up, the decision stands. */
SAQIYA_API int64_t saqiya_acquire_pause_us(const saqiya_item *items, size_t count,
                                           const saqiya_decision *decision, uint32_t attempt,
                                           int64_t left_us);

/* -- Queues: many requests at once, for event loops --------------------------------------------
 *
 * Submit any number of requests; process() sends and receives what the sockets allow, without ever
 * waiting; drain() hands out completions. Every submitted request completes exactly once, also at
 * close (reason cancelled), unless it was cancelled. A loop does:
 *
 *     submit ..., then once per turn: process, drain until it gives 0;
 *     wait until saqiya_queue_fd is readable or saqiya_queue_timeout_us has passed;
 *     process, drain, ...
 *
 * On a local store requests complete within submit. */
typedef struct saqiya_queue saqiya_queue;

typedef struct saqiya_queue_options {
  uint32_t size;      /* set by saqiya_queue_options_init */
  uint32_t capacity;  /* requests submitted and not drained, 1 ... 65,536; 0: 4,096 */
  uint32_t batch;     /* requests in a batch, 1 ... 512; 0: 64. A batch leaves before the turn ends
                         when it is full, or holds 16 and half of what was pending */
  uint32_t in_flight; /* batches on the wire at once, 1 ... 64; 0: 8 */
} saqiya_queue_options;

SAQIYA_API void saqiya_queue_options_init(saqiya_queue_options *options, size_t size);
SAQIYA_API int saqiya_queue_create(saqiya_store *store, const saqiya_queue_options *options,
                                   saqiya_queue **queue, saqiya_error *error);
/* Closes and frees; completions that were not drained are lost. */
SAQIYA_API void saqiya_queue_free(saqiya_queue *queue);

typedef enum saqiya_op {
  SAQIYA_OP_CHECK = 1,
  SAQIYA_OP_PEEK = 2,
  SAQIYA_OP_REFUND = 3,
  SAQIYA_OP_RESET = 4,
  SAQIYA_OP_SETTLE = 5,
  SAQIYA_OP_RENEW = 6
} saqiya_op;

typedef struct saqiya_request {
  uint32_t size;           /* set by saqiya_request_init */
  uint32_t op;             /* a saqiya_op */
  saqiya_limiter *limiter; /* of the queue's store */
  const void *key;         /* copied */
  uint64_t key_len;
  int64_t cost;             /* check, peek; settle: the true cost */
  int64_t max_wait_us;      /* check, peek */
  saqiya_ticket *ticket;    /* refund, settle: read and marked spent by submit, renew: read; one
                               of each rule (of each item). Else NULL */
  uint64_t user_data;       /* comes back with the completion */
  const saqiya_item *items; /* check, peek, refund of several at once, instead of limiter, key and
                               cost; copied. NULL: the one above */
  uint64_t item_count;
  /* Check, peek: NULL, or room as in saqiya_check_all. Written before the completion is drained;
     must stay until then, or until the request was cancelled or its queue freed. A limiter of
     several rules needs tickets here: completions have the one of a single rule. */
  saqiya_decision *each;
  saqiya_ticket *tickets;
} saqiya_request;

SAQIYA_API void saqiya_request_init(saqiya_request *request, size_t size);

/* SAQIYA_QUEUE_FULL when the capacity is reached. */
SAQIYA_API int saqiya_queue_submit(saqiya_queue *queue, const saqiya_request *request);

/* Drops what was submitted with this user_data (the newest, if several): it does not complete. What
 * was on the wire already is given back when its answer comes. SAQIYA_INVALID when there is none.
 */
SAQIYA_API int saqiya_queue_cancel(saqiya_queue *queue, uint64_t user_data);

/* Flushes what was submitted, reads what has arrived, ends what is past its deadline. */
SAQIYA_API int saqiya_queue_process(saqiya_queue *queue);

typedef struct saqiya_completion {
  uint64_t user_data;
  saqiya_decision decision;
  saqiya_ticket ticket; /* of an allowed check under one rule; else zero */
} saqiya_completion;    /* 120 bytes, frozen */

/* Takes up to max completions, oldest first. */
SAQIYA_API int saqiya_queue_drain(saqiya_queue *queue, saqiya_completion *completions, size_t max,
                                  size_t *count);

/* The one descriptor to watch for readability, the same for the queue's life (until a fork). */
SAQIYA_API int saqiya_queue_fd(const saqiya_queue *queue);
/* Call process again after this long at the latest; 0: now; -1: no need. */
SAQIYA_API int64_t saqiya_queue_timeout_us(const saqiya_queue *queue);
/* Requests submitted whose completions have not been drained. */
SAQIYA_API size_t saqiya_queue_pending(const saqiya_queue *queue);
/* For programs without a loop: waits until there is something to process, at most max_wait_us. */
SAQIYA_API int saqiya_queue_wait(saqiya_queue *queue, int64_t max_wait_us);
/* Ends every request that has not completed (reason cancelled); drain still works. */
SAQIYA_API int saqiya_queue_close(saqiya_queue *queue);

/* -- HTTP -------------------------------------------------------------------------------------- */

/* A decision as an HTTP answer, in whole seconds. */
typedef struct saqiya_http_numbers {
  int32_t status;        /* 200: go on; 429: refused; 503: the store is unavailable, whether
                            nothing was decided or the failure policy is CLOSED */
  int32_t has_limit;     /* 0: no rate fields at all (unlimited, unavailable, open, closed) */
  int64_t limit;         /* X-RateLimit-Limit */
  int64_t remaining;     /* X-RateLimit-Remaining; r of RateLimit */
  int64_t reset_s;       /* X-RateLimit-Reset: seconds until full, rounded up */
  int64_t retry_after_s; /* Retry-After: rounded up, at least 1; with 503 1 to 5; -1: absent */
  int64_t t_s;           /* t of RateLimit: seconds within which no more than r is there, rounded
                            up; -1: absent */
} saqiya_http_numbers;   /* 48 bytes, frozen */

SAQIYA_API int saqiya_http_get_numbers(const saqiya_limiter *limiter,
                                       const saqiya_decision *decision,
                                       saqiya_http_numbers *numbers);

enum {
  SAQIYA_HTTP_LEGACY = 1, /* X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset */
  SAQIYA_HTTP_DRAFT = 2   /* RateLimit, RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers) */
};

/* The constant RateLimit-Policy value of a limiter: "\"default\";q=20;w=4"; "" when unlimited.
 * Rules of a policy of several are told apart by their place:
 * "\"login-1\";q=5;w=1,\"login-2\";...". */
SAQIYA_API const char *saqiya_http_policy(const saqiya_limiter *limiter);
/* The constant beginning of its RateLimit value when this rule bound: "\"default\";r="; "" when
 * unlimited, or when there is no such rule. */
SAQIYA_API const char *saqiya_http_item(const saqiya_limiter *limiter, size_t rule);

/* Writes the fields as "Name: value\r\n" lines. Retry-After is always among them when it applies;
 * flags choose the others (0: all). *len is set to the length, also when the status is
 * SAQIYA_TOO_SMALL. The text ends with a zero that is not counted. 512 bytes are enough for a
 * policy of one rule, 2,048 for any. */
SAQIYA_API int saqiya_http_fields(const saqiya_limiter *limiter, const saqiya_decision *decision,
                                  uint32_t flags, char *buffer, size_t size, size_t *len);

/* Writes the JSON body of a refusal: {"error":"rate_limited",...} with 429,
 * {"error":"rate_limiter_unavailable",...} with 503, "" with 200. As above; 256 bytes are enough.
 */
SAQIYA_API int saqiya_http_body(const saqiya_limiter *limiter, const saqiya_decision *decision,
                                char *buffer, size_t size, size_t *len);

#ifdef __cplusplus
}
#endif

#endif /* SAQIYA_SAQIYA_H */

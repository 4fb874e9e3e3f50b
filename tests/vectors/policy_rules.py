"""Policies beyond single token buckets: texts, and policies as numbers, good and bad. Bad texts are
in policy_errors.py. Every expectation is written by hand. Numbers are told as in the traces.
"""

from __future__ import annotations

from typing import Any

S, MIN, H, D, W = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000, 604_800_000_000
COUNT_MAX = 2**53 - 1

RuleJson = dict[str, Any]


def bucket(capacity: int, tokens: int, period_us: int, queue: int = 0) -> RuleJson:
    """In a policy of one rule reduced, otherwise as written."""
    rate = {"tokens": tokens, "period_us": period_us} if capacity else {}
    more = {"queue": queue} if queue else {}
    return {"algorithm": "token-bucket", "capacity": capacity, **rate, **more}


def fixed(limit: int, period_us: int) -> RuleJson:
    return {"algorithm": "fixed-window", "limit": limit, "period_us": period_us}


def sliding(limit: int, period_us: int) -> RuleJson:
    return {"algorithm": "sliding-window", "limit": limit, "period_us": period_us}


def log(limit: int, period_us: int) -> RuleJson:
    return {"algorithm": "sliding-log", "limit": limit, "period_us": period_us}


def calendar(limit: int, unit: str, zone: str = "UTC", anchor: int = 1) -> RuleJson:
    more = {"unit": unit, "anchor": anchor, "zone": zone}
    return {"algorithm": "calendar", "limit": limit, **more}


def leases(limit: int, ttl_us: int) -> RuleJson:
    return {"algorithm": "concurrency", "limit": limit, "ttl_us": ttl_us}


# Text, rules, names of the rules in keys, canonical text.
ACCEPTED: list[tuple[str, list[RuleJson], str, str]] = [
    # a bucket with a queue
    ("leaky-bucket: 10/s queue 50", [bucket(1, 1, 100_000, 50)], "b", "10/s burst 1 queue 50"),
    (
        "leaky-bucket:10 per second QUEUE 50",
        [bucket(1, 1, 100_000, 50)],
        "b",
        "10/s burst 1 queue 50",
    ),
    ("leaky-bucket: 7/min queue 3", [bucket(1, 7, MIN, 3)], "b", "7/min burst 1 queue 3"),
    (
        "leaky-bucket: 10/s burst 4 queue 50",
        [bucket(4, 1, 100_000, 50)],
        "b",
        "10/s burst 4 queue 50",
    ),
    (
        "leaky-bucket: 10/s queue 50 burst 4",
        [bucket(4, 1, 100_000, 50)],
        "b",
        "10/s burst 4 queue 50",
    ),
    ("leaky-bucket: 10/s queue 0", [bucket(1, 1, 100_000)], "b", "10/s burst 1"),
    ("leaky-bucket: 0/s queue 5", [bucket(0, 0, 1, 5)], "b", ""),
    ("10/s queue 50", [bucket(10, 1, 100_000, 50)], "b", "10/s burst 10 queue 50"),
    ("10/s burst 1 queue 50", [bucket(1, 1, 100_000, 50)], "b", "10/s burst 1 queue 50"),
    (
        "token-bucket: 10/s queue 1_000",
        [bucket(10, 1, 100_000, 1000)],
        "b",
        "10/s burst 10 queue 1000",
    ),
    ("10/s burst 20 queue 0", [bucket(20, 1, 100_000)], "b", "10/s burst 20"),
    ("1/s queue 1125899906", [bucket(1, 1, S, 1_125_899_906)], "b", "1/s burst 1 queue 1125899906"),
    (
        "1000/us queue 9007199254740991",
        [bucket(1000, 1000, 1, COUNT_MAX)],
        "b",
        "1000/us burst 1000 queue 9007199254740991",
    ),
    # fixed windows
    ("fixed-window: 100/min", [fixed(100, MIN)], "f", "fixed-window: 100/min"),
    ("fixed-window:100 per minute", [fixed(100, MIN)], "f", "fixed-window: 100/min"),
    ("Fixed-Window : 100 / 60 S", [fixed(100, MIN)], "f", "fixed-window: 100/min"),
    ("fixed-window: 100/15min", [fixed(100, 15 * MIN)], "f", "fixed-window: 100/15min"),
    ("fixed-window: 1_000/1.5h", [fixed(1000, 90 * MIN)], "f", "fixed-window: 1000/90min"),
    ("fixed-window: 6/60s", [fixed(6, MIN)], "f", "fixed-window: 6/min"),
    ("fixed-window: 0/s", [fixed(0, S)], "f", "fixed-window: 0/s"),
    (
        "fixed-window: 9007199254740991/us",
        [fixed(COUNT_MAX, 1)],
        "f",
        "fixed-window: 9007199254740991/us",
    ),
    (
        "fixed-window: 1/1125899906842624us",
        [fixed(1, 2**50)],
        "f",
        "fixed-window: 1/1125899906842624us",
    ),
    ("fixed-window: 1/0.000001s", [fixed(1, 1)], "f", "fixed-window: 1/us"),
    # sliding windows
    ("sliding-window: 1000/hour", [sliding(1000, H)], "w", "sliding-window: 1000/h"),
    ("SLIDING-WINDOW: 1000 PER 1 HOUR", [sliding(1000, H)], "w", "sliding-window: 1000/h"),
    ("sliding-window: 4294967295/d", [sliding(2**32 - 1, D)], "w", "sliding-window: 4294967295/d"),
    ("sliding-window: 0/7d", [sliding(0, W)], "w", "sliding-window: 0/w"),
    (
        "sliding-window: 3/1125899906842624us",
        [sliding(3, 2**50)],
        "w",
        "sliding-window: 3/1125899906842624us",
    ),
    # sliding logs
    ("sliding-log: 5/15min", [log(5, 15 * MIN)], "l", "sliding-log: 5/15min"),
    ("sliding-log: 5 per 90 seconds", [log(5, 90 * S)], "l", "sliding-log: 5/90s"),
    (
        "sliding-log: 4294967295/140737488355328us",
        [log(2**32 - 1, 2**47)],
        "l",
        "sliding-log: 4294967295/140737488355328us",
    ),
    ("sliding-log: 0/ms", [log(0, 1000)], "l", "sliding-log: 0/ms"),
    # calendars
    (
        "calendar: 10000/month tz Africa/Cairo",
        [calendar(10000, "month", "Africa/Cairo")],
        "c",
        "calendar: 10000/month tz Africa/Cairo",
    ),
    (
        "calendar: 10_000 per month anchor 31 tz Africa/Cairo",
        [calendar(10000, "month", "Africa/Cairo", 31)],
        "c",
        "calendar: 10000/month anchor 31 tz Africa/Cairo",
    ),
    (
        "calendar: 10000/months TZ Africa/Cairo ANCHOR 15",
        [calendar(10000, "month", "Africa/Cairo", 15)],
        "c",
        "calendar: 10000/month anchor 15 tz Africa/Cairo",
    ),
    ("calendar: 10000/month", [calendar(10000, "month")], "c", "calendar: 10000/month tz UTC"),
    (
        "calendar: 10000/month anchor 1",
        [calendar(10000, "month")],
        "c",
        "calendar: 10000/month tz UTC",
    ),
    ("calendar: 50/day tz UTC", [calendar(50, "day")], "c", "calendar: 50/day tz UTC"),
    ("calendar: 50 per days", [calendar(50, "day")], "c", "calendar: 50/day tz UTC"),
    ("calendar: 50/d", [calendar(50, "day")], "c", "calendar: 50/day tz UTC"),
    (
        "calendar: 50/week tz Asia/Kathmandu",
        [calendar(50, "week", "Asia/Kathmandu")],
        "c",
        "calendar: 50/week tz Asia/Kathmandu",
    ),
    ("calendar: 50/w", [calendar(50, "week")], "c", "calendar: 50/week tz UTC"),
    (
        "Calendar: 1/Year tz America/Argentina/Buenos_Aires",
        [calendar(1, "year", "America/Argentina/Buenos_Aires")],
        "c",
        "calendar: 1/year tz America/Argentina/Buenos_Aires",
    ),
    (
        "calendar: 1 per years tz Etc/GMT+3",
        [calendar(1, "year", "Etc/GMT+3")],
        "c",
        "calendar: 1/year tz Etc/GMT+3",
    ),
    (
        "calendar: 0/day tz Etc/GMT-14",
        [calendar(0, "day", "Etc/GMT-14")],
        "c",
        "calendar: 0/day tz Etc/GMT-14",
    ),
    (
        "calendar: 9007199254740991/day",
        [calendar(COUNT_MAX, "day")],
        "c",
        "calendar: 9007199254740991/day tz UTC",
    ),
    # concurrency
    ("concurrency: 20 ttl 30s", [leases(20, 30 * S)], "n", "concurrency: 20 ttl 30s"),
    ("concurrency: 20 TTL 30 Seconds", [leases(20, 30 * S)], "n", "concurrency: 20 ttl 30s"),
    ("concurrency:20 ttl 1.5 min", [leases(20, 90 * S)], "n", "concurrency: 20 ttl 90s"),
    ("concurrency: 1 ttl 1h", [leases(1, H)], "n", "concurrency: 1 ttl 1h"),
    ("concurrency: 0 ttl 1s", [leases(0, S)], "n", "concurrency: 0 ttl 1s"),
    (
        "concurrency: 65_535 ttl 140737488355328us",
        [leases(65535, 2**47)],
        "n",
        "concurrency: 65535 ttl 140737488355328us",
    ),
    # several rules
    (
        "10 per second; 1000/hour",
        [bucket(10, 10, S), bucket(1000, 1000, H)],
        "b1s b1h",
        "10/s burst 10; 1000/h burst 1000",
    ),
    (
        "10/minute; 100/hour",
        [bucket(10, 10, MIN), bucket(100, 100, H)],
        "b1min b1h",
        "10/min burst 10; 100/h burst 100",
    ),
    (
        "5/s, 100/min",
        [bucket(5, 5, S), bucket(100, 100, MIN)],
        "b1s b1min",
        "5/s burst 5; 100/min burst 100",
    ),
    (
        "5/s | 100/min",
        [bucket(5, 5, S), bucket(100, 100, MIN)],
        "b1s b1min",
        "5/s burst 5; 100/min burst 100",
    ),
    (
        "5/s burst 20;100/min",
        [bucket(20, 5, S), bucket(100, 100, MIN)],
        "b1s b1min",
        "5/s burst 20; 100/min burst 100",
    ),
    (
        "5/s;100/min,1000/h|5000/d",
        [bucket(5, 5, S), bucket(100, 100, MIN), bucket(1000, 1000, H), bucket(5000, 5000, D)],
        "b1s b1min b1h b1d",
        "5/s burst 5; 100/min burst 100; 1000/h burst 1000; 5000/d burst 5000",
    ),
    (
        "100/15min; fixed-window: 1000/h",
        [bucket(100, 100, 15 * MIN), fixed(1000, H)],
        "b15min f1h",
        "100/15min burst 100; fixed-window: 1000/h",
    ),
    (
        "1/1.5h ;\t3/0.5s burst 9",
        [bucket(1, 1, 90 * MIN), bucket(9, 3, 500_000)],
        "b90min b500ms",
        "1/90min burst 1; 3/500ms burst 9",
    ),
    (
        "5/60s; 5/61s",
        [bucket(5, 5, MIN), bucket(5, 5, 61 * S)],
        "b1min b61s",
        "5/min burst 5; 5/61s burst 5",
    ),
    ("1/s; 2/2s", [bucket(1, 1, S), bucket(2, 2, 2 * S)], "b1s b2s", "1/s burst 1; 2/2s burst 2"),
    (
        "0/min; fixed-window: 0/h",
        [bucket(0, 0, MIN), fixed(0, H)],
        "b1min f1h",
        "0/min burst 0; fixed-window: 0/h",
    ),
    (
        "5/min burst 0; 7/h",
        [bucket(0, 5, MIN), bucket(7, 7, H)],
        "b1min b1h",
        "5/min burst 0; 7/h burst 7",
    ),
    (
        "100/min; fixed-window: 100/min; sliding-window: 100/min; sliding-log: 100/min",
        [bucket(100, 100, MIN), fixed(100, MIN), sliding(100, MIN), log(100, MIN)],
        "b1min f1min w1min l1min",
        "100/min burst 100; fixed-window: 100/min; sliding-window: 100/min; sliding-log: 100/min",
    ),
    (
        "leaky-bucket: 10/s queue 50; concurrency: 20 ttl 30s; "
        "calendar: 10000/month tz Africa/Cairo",
        [bucket(1, 10, S, 50), leases(20, 30 * S), calendar(10000, "month", "Africa/Cairo")],
        "b1s n cmonth",
        "10/s burst 1 queue 50; concurrency: 20 ttl 30s; calendar: 10000/month tz Africa/Cairo",
    ),
    (
        "calendar: 9/day; calendar: 8/week; calendar: 7/month; calendar: 6/year",
        [calendar(9, "day"), calendar(8, "week"), calendar(7, "month"), calendar(6, "year")],
        "cday cweek cmonth cyear",
        "calendar: 9/day tz UTC; calendar: 8/week tz UTC; "
        "calendar: 7/month tz UTC; calendar: 6/year tz UTC",
    ),
    (
        "fixed-window: 5/w; fixed-window: 5/d; fixed-window: 5/h; fixed-window: 5/min; "
        "fixed-window: 5/s; fixed-window: 5/ms; fixed-window: 5/us; fixed-window: 5/11us",
        [
            fixed(5, W),
            fixed(5, D),
            fixed(5, H),
            fixed(5, MIN),
            fixed(5, S),
            fixed(5, 1000),
            fixed(5, 1),
            fixed(5, 11),
        ],
        "f1w f1d f1h f1min f1s f1ms f1us f11us",
        "fixed-window: 5/w; fixed-window: 5/d; fixed-window: 5/h; fixed-window: 5/min; "
        "fixed-window: 5/s; fixed-window: 5/ms; fixed-window: 5/us; fixed-window: 5/11us",
    ),
    (
        "4/4503599627370496us burst 1; 1/s",
        [bucket(1, 4, 2**52), bucket(1, 1, S)],
        "b4503599627370496us b1s",
        "4/4503599627370496us burst 1; 1/s burst 1",
    ),
    (
        "1000000/s; 9007199254740991/9007199254740991us burst 1",
        [bucket(1_000_000, 1_000_000, S), bucket(1, COUNT_MAX, COUNT_MAX)],
        "b1s b9007199254740991us",
        "1000000/s burst 1000000; 9007199254740991/9007199254740991us burst 1",
    ),
]

# Policies as numbers, as the struct form takes them; the canonical text.
GIVEN_ACCEPTED: list[tuple[list[RuleJson], str]] = [
    ([bucket(20, 5, S)], "5/s burst 20"),
    ([bucket(1, 10, S, 50)], "10/s burst 1 queue 50"),
    ([bucket(100, 100, 15 * MIN)], "1/9s burst 100"),
    ([bucket(100, 100, 15 * MIN), fixed(1000, H)], "100/15min burst 100; fixed-window: 1000/h"),
    ([sliding(1000, H)], "sliding-window: 1000/h"),
    ([log(5, 15 * MIN)], "sliding-log: 5/15min"),
    (
        [calendar(10000, "month", "Africa/Cairo", 31)],
        "calendar: 10000/month anchor 31 tz Africa/Cairo",
    ),
    ([{"algorithm": "calendar", "limit": 3, "unit": "year"}], "calendar: 3/year tz UTC"),
    ([calendar(3, "day")], "calendar: 3/day tz UTC"),
    ([leases(20, 30 * S)], "concurrency: 20 ttl 30s"),
    (
        [log(5, S + 10**6 * i) for i in range(8)],
        "; ".join(f"sliding-log: 5/{i + 1 if i else ''}s" for i in range(8)),
    ),
]

# Policies as numbers; words the message must contain.
GIVEN_REFUSED: list[tuple[list[RuleJson], list[str]]] = [
    ([], ["1 to 8"]),
    ([log(5, S + i) for i in range(9)], ["1 to 8"]),
    ([bucket(20, 5, S, -1)], ["queue"]),
    ([bucket(1, 1, S, 1_125_899_907)], ["queue", "2^50"]),
    ([bucket(20, 5, S), bucket(30, 6, S)], ["rule 2", "same period"]),
    ([bucket(20, 5, S), fixed(30, 0)], ["rule 2", "period"]),
    ([leases(20, S), leases(20, 2 * S)], ["concurrency"]),
    ([fixed(-1, S)], ["negative"]),
    ([fixed(2**53, S)], ["2^53"]),
    ([fixed(1, -1)], ["at least 1"]),
    ([fixed(1, 2**50 + 1)], ["2^50"]),
    ([sliding(2**32, S)], ["2^32"]),
    ([log(2**32, S)], ["2^32"]),
    ([log(1, 2**47 + 1)], ["2^47"]),
    ([leases(65536, S)], ["65535"]),
    ([leases(1, 0)], ["time to live"]),
    ([leases(1, 2**47 + 1)], ["2^47", "time to live"]),
    ([calendar(2**53, "day")], ["2^53"]),
    ([calendar(1, "month", "Mars/Olympus")], ["Mars/Olympus"]),
    ([calendar(1, "month", "../UTC")], ["zone"]),
    ([calendar(1, "month", anchor=32)], ["31"]),
    ([calendar(1, "month", anchor=-1)], ["31"]),
    ([calendar(1, "day", anchor=2)], ["month"]),
    ([{"algorithm": "calendar", "limit": 3}], ["unit"]),
    ([{**calendar(1, "day"), "period_us": 1}], ["period"]),
    ([{**calendar(1, "day"), "tokens": 1}], ["tokens"]),
    ([{**fixed(1, S), "queue": 1}], ["queue"]),
    ([{**fixed(1, S), "unit": "day"}], ["unit"]),
    ([{**log(1, S), "zone": "UTC"}], ["zone"]),
    ([{**bucket(1, 1, S), "anchor": 1}], ["anchor"]),
]

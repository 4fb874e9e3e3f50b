"""Policy texts of single token buckets, good and bad, and such rules as numbers; all other policies
are in policy_rules.py and policy_errors.py. Every expectation is written by hand.

The reference reader and the model must agree with each row, or generating fails. A limit of 0
refuses everything whatever its rate, so only its capacity counts.
"""

from __future__ import annotations

from typing import Any

import policy_errors
import policy_rules

from support.model import RangeError, Rule
from support.policy_text import (
    PolicyRule,
    PolicyTextError,
    canonical_policy,
    names,
    parse_policy,
)

H, D, W = 3_600_000_000, 86_400_000_000, 604_800_000_000
COUNT_MAX = 2**53 - 1

# Text, capacity, tokens, period in microseconds, canonical text.
ACCEPTED: list[tuple[str, int, int, int, str]] = [
    ("5/s burst 20", 20, 1, 200_000, "5/s burst 20"),
    ("100/minute", 100, 1, 600_000, "100/min burst 100"),
    ("1000/h", 1000, 1, 3_600_000, "1000/h burst 1000"),
    ("3/s", 3, 3, 1_000_000, "3/s burst 3"),
    ("7/min", 7, 7, 60_000_000, "7/min burst 7"),
    ("1/s", 1, 1, 1_000_000, "1/s burst 1"),
    ("1/365d", 1, 1, 365 * D, "1/365d burst 1"),
    ("1000000000/s", 10**9, 1000, 1, "1000/us burst 1000000000"),
    ("1_000_000_000/s", 10**9, 1000, 1, "1000/us burst 1000000000"),
    ("10_000/day", 10_000, 1, 8_640_000, "10000/d burst 10000"),
    ("1_0/s", 10, 1, 100_000, "10/s burst 10"),
    ("007/s", 7, 7, 1_000_000, "7/s burst 7"),
    ("10 per second", 10, 1, 100_000, "10/s burst 10"),
    ("1 per 2 seconds", 1, 1, 2_000_000, "1/2s burst 1"),
    ("10per second", 10, 1, 100_000, "10/s burst 10"),
    ("10 PER 1 Second BURST 3", 3, 1, 100_000, "10/s burst 3"),
    ("100/15min", 100, 1, 9_000_000, "1/9s burst 100"),
    ("100/15 min", 100, 1, 9_000_000, "1/9s burst 100"),
    ("100 / 15 min", 100, 1, 9_000_000, "1/9s burst 100"),
    ("100 /15min", 100, 1, 9_000_000, "1/9s burst 100"),
    ("  5/s  ", 5, 1, 200_000, "5/s burst 5"),
    ("\t5\t/\ts\tburst\t20\t", 20, 1, 200_000, "5/s burst 20"),
    ("5/s   burst   20", 20, 1, 200_000, "5/s burst 20"),
    ("1/1.5h", 1, 1, 5_400_000_000, "16/d burst 1"),
    ("1/0.5s", 1, 1, 500_000, "2/s burst 1"),
    ("1/0.5 ms", 1, 1, 500, "2000/s burst 1"),
    ("1/0.000001s", 1, 1, 1, "1/us burst 1"),
    ("1/1.000000s", 1, 1, 1_000_000, "1/s burst 1"),
    ("3/2.5min", 3, 1, 50_000_000, "72/h burst 3"),
    ("1/0.25d", 1, 1, 6 * H, "4/d burst 1"),
    ("1/00.50h", 1, 1, H // 2, "2/h burst 1"),
    ("1/us", 1, 1, 1, "1/us burst 1"),
    ("4/us burst 9", 9, 4, 1, "4/us burst 9"),
    ("1/ms", 1, 1, 1_000, "1/ms burst 1"),
    ("1/sec", 1, 1, 1_000_000, "1/s burst 1"),
    ("1/second", 1, 1, 1_000_000, "1/s burst 1"),
    ("1/seconds", 1, 1, 1_000_000, "1/s burst 1"),
    ("1/m", 1, 1, 60_000_000, "1/min burst 1"),
    ("1/min", 1, 1, 60_000_000, "1/min burst 1"),
    ("1/minute", 1, 1, 60_000_000, "1/min burst 1"),
    ("1/3minutes", 1, 1, 180_000_000, "20/h burst 1"),
    ("1/h", 1, 1, H, "1/h burst 1"),
    ("1/hr", 1, 1, H, "1/h burst 1"),
    ("1/hour", 1, 1, H, "1/h burst 1"),
    ("1/2 hours", 1, 1, 2 * H, "12/d burst 1"),
    ("1/d", 1, 1, D, "1/d burst 1"),
    ("1/day", 1, 1, D, "1/d burst 1"),
    ("1/30days", 1, 1, 30 * D, "1/30d burst 1"),
    ("1/7d", 1, 1, W, "1/w burst 1"),
    ("1/w", 1, 1, W, "1/w burst 1"),
    ("1/week", 1, 1, W, "1/w burst 1"),
    ("1/4weeks", 1, 1, 4 * W, "1/4w burst 1"),
    ("1/24h", 1, 1, D, "1/d burst 1"),
    ("1/60s", 1, 1, 60_000_000, "1/min burst 1"),
    ("1/90 s", 1, 1, 90_000_000, "40/h burst 1"),
    ("1/1000us", 1, 1, 1_000, "1/ms burst 1"),
    ("1/1001us", 1, 1, 1_001, "1/1001us burst 1"),
    ("1/600.001s", 1, 1, 600_001_000, "1/600001ms burst 1"),
    ("5/S BURST 20", 20, 1, 200_000, "5/s burst 20"),
    ("1/MiNuTe", 1, 1, 60_000_000, "1/min burst 1"),
    ("1/US", 1, 1, 1, "1/us burst 1"),
    ("1/M", 1, 1, 60_000_000, "1/min burst 1"),
    ("token-bucket: 5/s burst 20", 20, 1, 200_000, "5/s burst 20"),
    ("token-bucket:5/s", 5, 1, 200_000, "5/s burst 5"),
    ("Token-Bucket : 5 per s", 5, 1, 200_000, "5/s burst 5"),
    ("leaky-bucket: 10/s", 10, 1, 100_000, "10/s burst 10"),
    ("LEAKY-BUCKET:7/min burst 2", 2, 7, 60_000_000, "7/min burst 2"),
    ("1/s burst 1_000", 1_000, 1, 1_000_000, "1/s burst 1000"),
    ("100/minute burst 10", 10, 1, 600_000, "100/min burst 10"),
    ("6000 per hour burst 100", 100, 1, 600_000, "100/min burst 100"),
    ("5/3s burst 100", 100, 1, 600_000, "100/min burst 100"),
    ("1/600ms burst 100", 100, 1, 600_000, "100/min burst 100"),
    ("11/13ms", 11, 11, 13_000, "11/13ms burst 11"),
    ("1000000007/s", 1_000_000_007, 1_000_000_007, 1_000_000, "1000000007/s burst 1000000007"),
    ("4294967295/us", 4294967295, 4294967295, 1, "4294967295/us burst 4294967295"),
    ("8589934590/2us", 8589934590, 4294967295, 1, "4294967295/us burst 8589934590"),
    ("9007199254740991/9007199254740991us burst 1", 1, 1, 1, "1/us burst 1"),
    ("1000/us burst 9007199254740991", COUNT_MAX, 1000, 1, "1000/us burst 9007199254740991"),
    ("1/1125899906842624us", 1, 1, 2**50, "1/1125899906842624us burst 1"),
    ("4/4503599627370496us burst 1", 1, 1, 2**50, "1/1125899906842624us burst 1"),
    ("1/s burst 1125899906", 1_125_899_906, 1, 1_000_000, "1/s burst 1125899906"),
    ("1/13031d", 1, 1, 13_031 * D, "1/13031d burst 1"),
    ("0/s", 0, 0, 0, ""),
    ("0/365d", 0, 0, 0, ""),
    ("0 per minute burst 0", 0, 0, 0, ""),
    ("5/s burst 0", 0, 0, 0, ""),
    ("0_0/s", 0, 0, 0, ""),
]

UNLIMITED = ["unlimited", "  unlimited\t", "Unlimited", "UNLIMITED"]

# Text, byte offset, words the message must contain.
REFUSED: list[tuple[str, int, list[str]]] = [
    # nothing, or not all of it
    ("", 0, []),
    (" ", 1, []),
    (" \t ", 3, []),
    ("5", 1, []),
    ("5 ", 2, []),
    ("5/", 2, []),
    ("5/ ", 3, []),
    ("5 per", 5, []),
    ("5 per ", 6, []),
    ("5/2", 3, []),
    ("5/2 ", 4, []),
    ("/s", 0, []),
    ("per s", 0, []),
    ("s", 0, []),
    ("5/s burst", 9, []),
    ("5/s burst ", 10, []),
    ("burst 5", 0, []),
    ("5/ burst 3", 3, []),
    ("token-bucket", 12, []),
    ("token-bucket:", 13, []),
    ("token-bucket 5/s", 13, []),
    ("token-bucket:: 5/s", 13, []),
    (": 5/s", 0, []),
    # too much of it
    ("5/s x", 4, []),
    ("5/s 20", 4, []),
    ("5/s /", 4, []),
    ("5/s.", 3, []),
    ("5/s burst 20 x", 13, []),
    ("5/s burst 20 30", 13, []),
    ("5/s burst 20 burst 30", 13, []),
    ("5/s burst 2.5", 11, []),
    ("5//s", 2, []),
    ("5/per s", 2, []),
    ("5 per per s", 6, []),
    ("5/s\n", 3, []),
    ("\n5/s", 0, []),
    ("5\r\n/s", 1, []),
    ("5/s\u000b", 3, []),
    ('"5/s"', 0, []),
    ("5/s#", 3, []),
    ("unlimited 5", 10, []),
    ("unlimited burst 5", 10, []),
    ("unlimited/s", 9, []),
    ("token-bucket: unlimited", 14, []),
    ("un limited", 0, []),
    ("unlimite", 0, []),
    # counts
    ("-5/s", 0, []),
    ("+5/s", 0, []),
    ("1.5/s", 1, []),
    (".5/s", 0, []),
    ("5e3/s", 1, []),
    ("1e9/s", 1, []),
    ("0x10/s", 1, []),
    ("5k/s", 1, []),
    ("_5/s", 0, []),
    ("5_/s", 1, []),
    ("5__0/s", 1, []),
    ("1 000/s", 2, []),
    ("1'000/s", 1, []),
    ("inf/s", 0, []),
    ("NaN/s", 0, []),
    ("five/s", 0, []),
    ("5/s burst -1", 10, []),
    ("5/s burst +1", 10, []),
    ("5/s burst x", 10, []),
    ("5/s burst _1", 10, []),
    ("5/s burst 1_", 11, []),
    ("5/s burst 1e3", 11, []),
    ("5/s burst=20", 9, []),
    ("5/s burst: 20", 9, []),
    # periods and units
    ("5/-1s", 2, []),
    ("5/+1s", 2, []),
    ("5/1e3s", 3, []),
    ("5/1.s", 4, []),
    ("5/1.", 4, []),
    ("5/.5s", 2, []),
    ("5/1..5s", 4, []),
    ("5/1.5.2s", 5, []),
    ("5/1. 5s", 4, []),
    ("5/1,5s", 3, []),
    ("5/_1s", 2, []),
    ("5/x", 2, []),
    ("5/ns", 2, []),
    ("5/fortnight", 2, []),
    ("5/secondss", 2, []),
    ("5/s2", 3, []),
    ("5/2x", 3, []),
    ("5/2 fortnights", 4, []),
    ("5/sburst 3", 2, []),
    ("5 persecond", 2, []),
    ("5 every s", 2, []),
    ("5 in s", 2, []),
    ("5 p s", 2, []),
    ("5s", 1, []),
    ("1/1h30min", 4, []),
    ("1/1 h 30 min", 6, []),
    ("1000/month", 5, ["calendar:", "30d"]),
    ("1000/months", 5, ["calendar:", "30d"]),
    ("1000 per Month", 9, ["calendar:", "30d"]),
    ("1/year", 2, ["calendar:", "30d"]),
    ("1/2 years", 4, ["calendar:", "30d"]),
    # letters outside ASCII, and the byte 0
    ("5/\u00b5s", 2, []),
    ("\uff15/s", 0, []),
    ("5\u00a0/s", 1, []),
    ("5/s\u00e9", 3, []),
    ("\u0665/s", 0, []),
    ("5\u2044s", 1, []),
    ("\ufeff5/s", 0, []),
    ("5/\U0001f40c", 2, []),
    ("5/s \u0000", 4, []),
    ("5/s\u0000", 3, []),
    ("\u00005/s", 0, []),
    ("5\u0000/s", 1, []),
    # algorithms that do not exist
    ("gcra: 5/s", 0, []),
    ("bucket: 5/s", 0, []),
    ("token_bucket: 5/s", 0, []),
    ("tokenbucket: 5/s", 0, []),
    ("token-buckets: 5/s", 0, []),
    # ranges: the offset is that of the number, the message names the limit
    ("9007199254740992/s", 0, ["2^53"]),
    ("18446744073709551616/s", 0, ["2^53"]),
    ("18446744073709551621/s", 0, ["2^53"]),
    ("340282366920938463463374607431768211461/s", 0, ["2^53"]),
    ("1" + "0" * 400 + "/s", 0, ["2^53"]),
    ("5/s burst 9007199254740992", 10, ["2^53"]),
    ("5/s burst 18446744073709551617", 10, ["2^53"]),
    ("5/s burst 99999999999999999999999999999999999999999", 10, ["2^53"]),
    ("4294967296/us", 0, ["2^32"]),
    ("4294967296000000/s burst 1", 0, ["2^32"]),
    ("4294967296/3us", 0, ["2^32"]),
    (" 9007199254740991/us burst 5", 1, ["2^32"]),
    ("0/s burst 5", 0, []),
    ("1/0s", 2, ["period"]),
    ("5 per 0 min", 6, ["period"]),
    ("1/0.0s", 2, ["period"]),
    ("1/0.0000001s", 2, ["microsecond"]),
    ("1/1.5us", 2, ["microsecond"]),
    ("1/0.0001ms", 2, ["microsecond"]),
    ("1/1.0000005s", 2, ["microsecond"]),
    ("1/1125899906842625us", 2, ["2^50"]),
    ("1 per 13032d", 6, ["2^50"]),
    ("1/1862w", 2, ["2^50"]),
    ("1/9007199254740991us", 2, ["2^50"]),
    ("1/18446744073709551617s", 2, ["2^50"]),
    ("1/18446744073709551617us", 2, ["2^50"]),
    ("1/1" + "0" * 400 + "w", 2, ["2^50"]),
    ("1/s burst 1125899907", 10, ["2^50"]),
    ("2/1125899906842623us burst 3", 27, ["2^50"]),
    ("5/s burst 9007199254740991", 10, ["2^50"]),
    ("1/s burst 2_000_000_000", 10, ["2^50"]),
]

# Rules as numbers, as they are given to the struct form: capacity, tokens, period in microseconds.
NUMBERS_ACCEPTED: list[tuple[tuple[int, int, int], tuple[int, int, int]]] = [
    ((20, 5, 1_000_000), (20, 1, 200_000)),
    ((1, 1, 1), (1, 1, 1)),
    ((3, 3, 1_000_000), (3, 3, 1_000_000)),
    ((1, 2**32 - 1, 1), (1, 2**32 - 1, 1)),
    ((1, 2**33 - 2, 2), (1, 2**32 - 1, 1)),
    ((1, 2**52, 2**50), (1, 4, 1)),
    ((1, 1, 2**50), (1, 1, 2**50)),
    ((1, 4, 2**52), (1, 1, 2**50)),
    ((2**32 - 1, 2**32 - 1, 2**50), (2**32 - 1, 2**32 - 1, 2**50)),
    ((2**50, 1, 1), (2**50, 1, 1)),
    ((2**53 - 1, 8, 1), (2**53 - 1, 8, 1)),
    ((2**53 - 1, 2**32 - 1, 1), (2**53 - 1, 2**32 - 1, 1)),
    ((0, 0, 1_000_000), (0, 0, 0)),
    ((0, 0, 1), (0, 0, 0)),
    ((0, 5, 1_000_000), (0, 0, 0)),
]
# Capacity, tokens, period; the range that was left.
NUMBERS_REFUSED: list[tuple[tuple[int, int, int], str]] = [
    ((-1, 1, 1), "capacity"),
    ((2**53, 2**32 - 1, 1), "capacity"),
    ((1, 0, 1_000_000), "tokens"),
    ((1, -1, 1_000_000), "tokens"),
    ((1, 2**32, 1), "tokens"),
    ((1, 2**32, 3), "tokens"),
    ((1, 2**53 - 1, 2), "tokens"),
    ((1, 1, 0), "period"),
    ((1, 1, -1_000_000), "period"),
    ((1, 1, 2**50 + 1), "period"),
    ((1, 3, 2**50 + 4), "period"),
    ((1, 1, 2**53 - 1), "period"),
    ((2, 1, 2**50), "span"),
    ((2**50 + 1, 1, 1), "span"),
    ((2**53 - 1, 7, 1), "span"),
    ((2**32 - 1, 2**32 - 2, 2**50 - 3), "span"),
]


class RowError(Exception):
    """A row and the reference reader or the model differ: one of the two is wrong."""


def tables() -> dict[str, Any]:
    """The rows as they go into policies.json, each held against the reader and the model."""
    return {
        "accepted": [
            *(_bucket(*row) for row in ACCEPTED),
            *(_accepted(*row) for row in policy_rules.ACCEPTED),
        ],
        "unlimited": [_unlimited(text) for text in UNLIMITED],
        "refused": [
            *(_refused(*row) for row in (*REFUSED, *policy_errors.REFUSED)),
            *(_explained(*row) for row in policy_errors.EXPLAINED),
        ],
        "numbers_accepted": [_numbers_accepted(*row) for row in NUMBERS_ACCEPTED],
        "numbers_refused": [_numbers_refused(*row) for row in NUMBERS_REFUSED],
        "given_accepted": [_given_accepted(*row) for row in policy_rules.GIVEN_ACCEPTED],
        "given_refused": [
            {"given": given, "mentions": words} for given, words in policy_rules.GIVEN_REFUSED
        ],
    }


def _same(row: object, by_hand: object, got: object) -> None:
    if by_hand != got:
        raise RowError(f"{row!r}: by hand {by_hand!r}, reference {got!r}")


def _read(text: str) -> list[PolicyRule]:
    try:
        return parse_policy(text)
    except PolicyTextError as error:
        raise RowError(f"{text!r}: {error} at {error.offset}") from error


def _bucket(text: str, capacity: int, tokens: int, period_us: int, text_out: str) -> dict[str, Any]:
    """A policy that is one token bucket; its numbers also stand in the row itself."""
    rule = policy_rules.bucket(capacity, tokens, period_us)
    row = _accepted(text, [rule], "b", text_out)
    return {**row, **{name: value for name, value in rule.items() if name != "algorithm"}}


def _accepted(
    text: str, rules: list[dict[str, Any]], rule_names: str, text_out: str
) -> dict[str, Any]:
    read = _read(text)
    _same(text, rules, [rule.json() for rule in read])
    _same(text, rule_names.split(), names(read))
    limits = [rule.limit for rule in read]
    # Of a fresh key the first rule is shown, or the one that refuses everything.
    row = {"text": text, "capacity": 0 if 0 in limits else limits[0], "rules": rules}
    row["names"] = rule_names.split()
    if not text_out:  # a single bucket of limit 0: any text that says so
        return row
    _same(text, text_out, canonical_policy(read))
    _same(text_out, read, _read(text_out))
    return {**row, "canonical": text_out}


def _unlimited(text: str) -> dict[str, Any]:
    _same(text, [], _read(text))
    return {"text": text, "canonical": "unlimited"}


def _refused(text: str, offset: int, mentions: list[str]) -> dict[str, Any]:
    try:
        rules = parse_policy(text)
    except PolicyTextError as error:
        _same(text, offset, error.offset)
        return {"text": text, "offset": offset, **({"mentions": mentions} if mentions else {})}
    raise RowError(f"{text!r} was read as {rules}")


def _explained(text: str, offset: int, message: str) -> dict[str, Any]:
    return {**_refused(text, offset, []), "message": message}


def _numbers_accepted(given: tuple[int, int, int], want: tuple[int, int, int]) -> dict[str, Any]:
    rule = Rule.make(*given)
    if want[0] == 0:
        _same(given, 0, rule.capacity)
        return {"given": list(given), "capacity": 0}
    _same(given, want, (rule.capacity, rule.tokens, rule.period_us))
    numbers = dict(zip(("capacity", "tokens", "period_us"), want, strict=True))
    return {"given": list(given), **numbers}


def _numbers_refused(given: tuple[int, int, int], limit: str) -> dict[str, Any]:
    try:
        rule = Rule.make(*given)
    except RangeError as error:
        _same(given, limit, error.limit)
        return {"given": list(given), "limit": limit}
    raise RowError(f"{given} was taken as {rule}")


def _given_accepted(given: list[dict[str, Any]], text_out: str) -> dict[str, Any]:
    """The canonical text means what was given, as far as it was not left to defaults."""
    for rule, made in zip(given, _read(text_out), strict=True):
        told = made.json()
        if rule["algorithm"] != "token-bucket":
            _same(given, rule, {name: told[name] for name in rule})
        else:
            numbers = Rule.make(rule["capacity"], rule["tokens"], rule["period_us"])
            _same(given, (numbers, rule.get("queue", 0)), (made.bucket, made.queue))
    return {"given": given, "canonical": text_out}

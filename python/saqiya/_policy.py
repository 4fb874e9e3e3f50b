"""Policies as programs write them: text, one rule as numbers, or several of either."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Union

from saqiya._units import Seconds, error, exact_micros, whole

# The numbers of saqiya_rule: algorithm, capacity, tokens, period_us, queue, unit, anchor_day, zone.
NativeRule = tuple[int, int, int, int, int, int, int, Union[str, None]]

_TOKEN_BUCKET, _FIXED_WINDOW, _SLIDING_WINDOW, _SLIDING_LOG, _CALENDAR, _CONCURRENCY = (
    1,
    3,
    4,
    5,
    6,
    7,
)
_UNITS = ("day", "week", "month", "year")
_ZONE = re.compile(r"[A-Za-z0-9_+\-/]+")


@dataclass(frozen=True)
class TokenBucket:
    """`tokens` more every `period`, at most `capacity`: TokenBucket(20, 5, 1.0) is "5/s burst 20".

    capacity: 0 ... 2**53 - 1; 0 refuses everything.
    tokens: 1 ... 2**32 - 1 after tokens and period are divided by what they have in common.
    period: seconds or a timedelta, a whole number of microseconds up to 35.7 years.
    queue: so many more may wait for their turn (a leaky bucket as a queue): a check is then allowed
        with a delay. TokenBucket(1, 10, 1.0, queue=50) is "leaky-bucket: 10/s queue 50".
    Limits outside these ranges raise SaqiyaError, here or when the limiter is made.
    """

    capacity: int
    tokens: int
    period: Seconds
    queue: int = 0

    def __post_init__(self) -> None:
        self._native()

    def _native(self) -> NativeRule:
        capacity = whole(self.capacity, "capacity")
        tokens = whole(self.tokens, "tokens")
        period_us = exact_micros(self.period, "period")
        queue = whole(self.queue, "queue")
        return (_TOKEN_BUCKET, capacity, tokens, period_us, queue, 0, 0, None)

    def _text(self) -> str:
        _, capacity, tokens, period_us, queue, *_ = self._native()
        text = f"{tokens}/{period_us}us burst {capacity}"
        return f"{text} queue {queue}" if queue > 0 else text


@dataclass(frozen=True)
class _Window:
    """A limit for each period."""

    limit: int
    period: Seconds

    _algorithm: ClassVar[int]
    _name: ClassVar[str]

    def __post_init__(self) -> None:
        self._native()

    def _native(self) -> NativeRule:
        limit, period_us = whole(self.limit, "limit"), exact_micros(self.period, "period")
        return (self._algorithm, limit, 0, period_us, 0, 0, 0, None)

    def _text(self) -> str:
        _, limit, _, period_us, *_ = self._native()
        return f"{self._name}: {limit}/{period_us}us"


@dataclass(frozen=True)
class FixedWindow(_Window):
    """At most `limit` in each window of length `period`: "fixed-window: 100/min".

    Windows are aligned to the epoch, as hours and days of UTC are.
    Across the edge of two windows up to twice the limit pass within a moment; SlidingWindow and
    SlidingLog do not have that.

    limit: 0 ... 2**53 - 1; 0 refuses everything.
    period: seconds or a timedelta, a whole number of microseconds up to 35.7 years.
    """

    _algorithm = _FIXED_WINDOW
    _name = "fixed-window"


@dataclass(frozen=True)
class SlidingWindow(_Window):
    """Two counters, the previous window's weighted by its overlap: "sliding-window: 1000/hour".

    Fewer than twice the limit pass in any window, and near the limit when traffic is even; it takes
    as little memory as a fixed window.

    limit: 0 ... 2**32 - 1; 0 refuses everything.
    period: seconds or a timedelta, a whole number of microseconds up to 35.7 years.
    """

    _algorithm = _SLIDING_WINDOW
    _name = "sliding-window"


@dataclass(frozen=True)
class SlidingLog(_Window):
    """At most `limit` in any window of length `period`, exactly: "sliding-log: 5/15min".

    Remembers every charge of the last period: 12 bytes each in the process, 8 on Redis.

    limit: 0 ... 2**32 - 1; 0 refuses everything.
    period: seconds or a timedelta, a whole number of microseconds up to 4.4 years.
    """

    _algorithm = _SLIDING_LOG
    _name = "sliding-log"


@dataclass(frozen=True)
class Calendar:
    """A quota of the calendar: Calendar(10_000, "month", zone="Africa/Cairo", anchor_day=15).

    The same as text: "calendar: 10000/month anchor 15 tz Africa/Cairo".

    limit: 0 ... 2**53 - 1; 0 refuses everything.
    unit: "day", "week" (from Monday), "month" or "year".
    zone: an IANA time zone that this machine knows; windows begin at its midnights.
    anchor_day: months only: the day on which they begin, 1 ... 31 (a shorter month's last day).
    """

    limit: int
    unit: str
    zone: str = "UTC"
    anchor_day: int = 1

    def __post_init__(self) -> None:
        self._native()

    def _native(self) -> NativeRule:
        if self.unit not in _UNITS:
            raise error("bad_policy", f"unit must be one of {', '.join(_UNITS)}: {self.unit!r}")
        if not isinstance(self.zone, str):
            raise TypeError(f"zone must be str, not {type(self.zone).__name__}")
        if not _ZONE.fullmatch(self.zone):
            raise error("bad_policy", f"unknown time zone: {self.zone!r}")
        anchor = whole(self.anchor_day, "anchor_day")
        if not 1 <= anchor <= 31:
            raise error("bad_policy", f"anchor_day must be from 1 to 31: {anchor}")
        if anchor != 1 and self.unit != "month":
            raise error("bad_policy", "anchor_day is for months only")
        limit, unit = whole(self.limit, "limit"), _UNITS.index(self.unit) + 1
        return (_CALENDAR, limit, 0, 0, 0, unit, anchor if self.unit == "month" else 0, self.zone)

    def _text(self) -> str:
        anchor = f" anchor {self.anchor_day}" if self.anchor_day != 1 else ""
        return f"calendar: {self.limit}/{self.unit}{anchor} tz {self.zone}"


@dataclass(frozen=True)
class Concurrency:
    """At most `limit` at once: Concurrency(20, 30) is "concurrency: 20 ttl 30s".

    An allowed check holds a slot until it is released; a holder that has died loses it after `ttl`.
    See Limiter.hold, release and renew.

    limit: 0 ... 65,535; 0 refuses everything.
    ttl: seconds or a timedelta, a whole number of microseconds up to 4.4 years.
    """

    limit: int
    ttl: Seconds

    def __post_init__(self) -> None:
        self._native()

    def _native(self) -> NativeRule:
        limit, ttl_us = whole(self.limit, "limit"), exact_micros(self.ttl, "ttl")
        return (_CONCURRENCY, limit, 0, ttl_us, 0, 0, 0, None)

    def _text(self) -> str:
        _, limit, _, ttl_us, *_ = self._native()
        return f"concurrency: {limit} ttl {ttl_us}us"


Rule = Union[TokenBucket, FixedWindow, SlidingWindow, SlidingLog, Calendar, Concurrency]
"""One rule as numbers."""

Policy = Union[str, Rule, Sequence[Union[str, Rule]]]
"""Text such as "5/s burst 20; 1000/day", a rule as numbers, or a list of rules of both kinds."""

_RULES = (TokenBucket, FixedWindow, SlidingWindow, SlidingLog, Calendar, Concurrency)


def native_policy(policy: Policy) -> str | tuple[NativeRule, ...]:
    """As the native Limiter takes it."""
    if isinstance(policy, str):
        return policy
    if isinstance(policy, _RULES):
        return (policy._native(),)
    if not isinstance(policy, (list, tuple)):
        wanted = "str, a rule or a list of them"
        raise TypeError(f"policy must be {wanted}, not {type(policy).__name__}")
    rules: list[NativeRule] = []
    texts: list[str] = []
    for rule in policy:
        if isinstance(rule, _RULES):
            rules.append(rule._native())
            texts.append(rule._text())
        elif isinstance(rule, str):
            texts.append(rule)
        else:
            raise TypeError(f"a rule must be str or a rule, not {type(rule).__name__}")
    # Texts are read by the native layer only. Both kinds together become one text: what names the
    # state of a rule is then the period as it was written, in either form.
    return tuple(rules) if len(rules) == len(texts) else "; ".join(texts)

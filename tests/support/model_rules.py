"""The reference models of all algorithms: what they have in common.

Each algorithm is a small class that holds the numbers of one rule and works on immutable states:
None, or what the algorithm keeps for a key. Everything is an exact integer or fraction; where the
rules say "the first instant at which", it is searched for, not computed by a formula.

    fixed windows, calendars, sliding windows    model_windows.py
    logs, leases                                 model_lists.py
    token buckets, with a queue                  model_bucket.py
    several rules, several keys, tickets         model_group.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

MAX_COUNT = 2**53 - 1  # limits and costs
MAX_SLIDING = 2**32 - 1  # limits and counts of sliding windows and logs
MAX_LEASES = 2**16 - 1
MAX_PERIOD_US = 2**50
MAX_LIST_PERIOD_US = 2**47  # logs, time to live of leases

State = Any  # immutable; None when there is none


@dataclass(frozen=True)
class Charge:
    """What a ticket remembers of one rule: which charge it was (`mark`) and its cost."""

    algorithm: str
    mark: Any  # bucket: the instant. Windows: end of the one charged. Log: instant. Leases: the id
    cost: int
    reserved: bool = False  # a bucket's charge with a delay


@dataclass(frozen=True)
class Verdict:
    """Whether a cost fits now; if not, after which time it will when nobody else comes."""

    retry_after_us: int = 0  # 0: it fits now
    delay_us: int = 0  # how long the caller is to wait before going on


class Algorithm(Protocol):
    """One rule. `max_wait` means something to token buckets only."""

    @property
    def name(self) -> str: ...
    @property
    def limit(self) -> int: ...
    @property
    def identity(self) -> str:
        """What tells the rules of one policy apart: the algorithm and its period."""

    def judge(self, state: State, cost: int, now: int, max_wait: int) -> Verdict:
        """For a cost of 1 up to the limit."""

    def charge(self, state: State, cost: int, now: int, ticket_id: int) -> tuple[State, Charge]:
        """A cost that fits."""

    def describe(self, state: State, now: int) -> tuple[int, int]:
        """remaining, reset_after_us."""

    def adjust(self, state: State, charge: Charge, actual: int, now: int) -> tuple[State] | None:
        """The charge becomes `actual`: the new state, or None when it no longer counts."""

    def renew(self, state: State, charge: Charge, now: int) -> tuple[State] | None: ...
    def trimmed(self, state: State, now: int) -> State:
        """The same state without what is dead at that instant; None when nothing is left."""


def clamp(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))


def make(rule: dict[str, Any]) -> Algorithm:
    """The model of a rule as the vectors tell it."""
    from . import model_bucket, model_lists, model_windows

    name = rule["algorithm"]
    if name == "token-bucket":
        return model_bucket.Bucket.make(
            rule["capacity"], rule["tokens"], rule["period_us"], rule.get("queue")
        )
    if name == "fixed-window":
        return model_windows.FixedWindow(rule["limit"], rule["period_us"])
    if name == "sliding-window":
        return model_windows.SlidingWindow(rule["limit"], rule["period_us"])
    if name == "calendar":
        return model_windows.Calendar(
            rule["limit"], rule["unit"], rule.get("anchor", 1), rule.get("zone", "UTC")
        )
    if name == "sliding-log":
        return model_lists.SlidingLog(rule["limit"], rule["period_us"])
    assert name == "concurrency"
    return model_lists.Concurrency(rule["limit"], rule["ttl_us"])

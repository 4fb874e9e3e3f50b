"""Words for writing scenarios: traces whose numbers are, as far as may be, written by hand.

`want=` takes one of allowed(), denied(), never(), given(), not_given(): numbers worked out by a
person, from the rules in the README. The generator fills in the rest from the model and stops when
the two disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

US, MS, S = 1, 1_000, 1_000_000
MIN, H, D = 60 * S, 3600 * S, 86_400 * S
YEAR = 365 * D
EPOCH = 1_790_000_000 * S  # a reading of today's order of size, for traces that want one

Step = dict[str, Any]
Want = dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    name: str
    comment: str
    rule: str | tuple[int, int, int]  # policy text, or capacity, tokens, period in microseconds
    steps: list[Step]
    case: tuple[str, ...] = ()


def trace(
    name: str,
    rule: str | tuple[int, int, int],
    comment: str,
    *steps: Step | list[Step],
    case: str = "",
) -> Scenario:
    flat: list[Step] = []
    for step in steps:
        flat.extend(step if isinstance(step, list) else [step])
    return Scenario(name, comment, rule, flat, tuple(case.split()))


def check(
    now: int,
    cost: int = 1,
    want: Want | None = None,
    *,
    wait: int = 0,
    key: str = "k",
    id: str = "",
) -> Step:
    """`id` names the charge for a later refund."""
    step: Step = {"now": now, "op": "check", "key": key, "cost": cost, "want": want or {}}
    if wait:
        step["max_wait_us"] = wait
    if id:
        step["id"] = id
    return step


def peek(now: int, cost: int = 1, want: Want | None = None, *, key: str = "k") -> Step:
    return {"now": now, "op": "peek", "key": key, "cost": cost, "want": want or {}}


def refund(now: int, id: str, want: Want | None = None, *, key: str = "k") -> Step:
    return {"now": now, "op": "refund", "key": key, "id": id, "want": want or {}}


def reset(now: int, want: Want | None = None, *, key: str = "k") -> Step:
    return {"now": now, "op": "reset", "key": key, "want": want or {}}


def rule(now: int, rule: str | tuple[int, int, int]) -> Step:
    """From here on the limiter of the same name has this rule."""
    return {"now": now, "op": "rule", "rule": rule}


def poll(
    now: int,
    n: int,
    every: int,
    admitted: int,
    want: Want | None = None,
    *,
    cost: int = 1,
    wait: int = 0,
    key: str = "k",
) -> Step:
    """n checks from `now` on, `every` microseconds apart; `want` is the last decision."""
    step = check(now, cost, want, wait=wait, key=key)
    return {**step, "repeat": n, "every_us": every, "expect_allowed": admitted}


def burst(now: int, n: int, admitted: int, want: Want | None = None, **more: Any) -> Step:
    """n checks at one instant."""
    return poll(now, n, 0, admitted, want, **more)


def allowed(remaining: int, reset: int, delay: int = 0) -> Want:
    return {
        "outcome": "allowed",
        "remaining": remaining,
        "retry_after_us": 0,
        "reset_after_us": reset,
        "delay_us": delay,
    }


def denied(remaining: int, retry: int, reset: int) -> Want:
    return {
        "outcome": "denied",
        "remaining": remaining,
        "retry_after_us": retry,
        "reset_after_us": reset,
        "delay_us": 0,
    }


def never(remaining: int, reset: int) -> Want:
    return {
        "outcome": "never",
        "remaining": remaining,
        "retry_after_us": None,
        "reset_after_us": reset,
        "delay_us": 0,
    }


def given(remaining: int, reset: int) -> Want:
    """A refund that gave something back; what the bucket holds afterwards."""
    return allowed(remaining, reset)


def not_given(remaining: int, reset: int) -> Want:
    """A refund that had nothing left to give."""
    return denied(remaining, 0, reset)

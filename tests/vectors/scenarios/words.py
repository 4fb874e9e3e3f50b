"""More words for scenarios: every algorithm, several rules, several limiters.

Rules are written with fixed(), sliding(), ... and come out in both forms, text and numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .dsl import MIN, MS, D, H, S, Step, Want

UNITS = (("d", D), ("h", H), ("min", MIN), ("s", S), ("ms", MS), ("us", 1))


@dataclass(frozen=True)
class Policy:
    text: str
    rules: tuple[dict[str, Any], ...]

    def json(self) -> dict[str, Any]:
        return {"text": self.text, "rules": list(self.rules)}


@dataclass(frozen=True)
class Case:
    """A trace under one limiter or more, of any algorithms."""

    name: str
    comment: str
    limiters: tuple[Policy, ...]
    steps: list[Step]
    case: tuple[str, ...] = ()
    grouped: bool = field(default=False)  # the limiters are told as a list


def span(us: int) -> str:
    """A period as it is written in a policy: "90s", "h"."""
    unit, size = next((u, m) for u, m in UNITS if us % m == 0)
    return f"{us // size if us != size else ''}{unit}"


def life(us: int) -> str:
    """A time to live: always with a number, "1h"."""
    return span(us) if span(us)[0].isdigit() else "1" + span(us)


def bucket(count: int, per: int, burst: int | None = None) -> Policy:
    text = f"{count}/{span(per)}" + ("" if burst is None else f" burst {burst}")
    capacity = count if burst is None else burst
    rule = {"algorithm": "token-bucket", "capacity": capacity, "tokens": count, "period_us": per}
    return Policy(text, (rule,))


def leaky(count: int, per: int, queue: int, burst: int | None = None) -> Policy:
    """A queue that leaves at exactly the rate."""
    text = f"leaky-bucket: {count}/{span(per)}"
    text += ("" if burst is None else f" burst {burst}") + f" queue {queue}"
    plain = bucket(count, per, 1 if burst is None else burst).rules[0]
    return Policy(text, ({**plain, "queue": queue},))


def fixed(limit: int, per: int) -> Policy:
    rule = {"algorithm": "fixed-window", "limit": limit, "period_us": per}
    return Policy(f"fixed-window: {limit}/{span(per)}", (rule,))


def sliding(limit: int, per: int) -> Policy:
    rule = {"algorithm": "sliding-window", "limit": limit, "period_us": per}
    return Policy(f"sliding-window: {limit}/{span(per)}", (rule,))


def log(limit: int, per: int) -> Policy:
    rule = {"algorithm": "sliding-log", "limit": limit, "period_us": per}
    return Policy(f"sliding-log: {limit}/{span(per)}", (rule,))


def leases(limit: int, ttl: int) -> Policy:
    rule = {"algorithm": "concurrency", "limit": limit, "ttl_us": ttl}
    return Policy(f"concurrency: {limit} ttl {life(ttl)}", (rule,))


def calendar(limit: int, unit: str, zone: str = "UTC", anchor: int = 1) -> Policy:
    text = f"calendar: {limit}/{unit}"
    text += f" anchor {anchor}" if anchor != 1 else ""
    text += f" tz {zone}" if zone != "UTC" else ""
    rule = {"algorithm": "calendar", "limit": limit, "unit": unit, "zone": zone}
    if unit == "month":
        rule["anchor"] = anchor
    return Policy(text, (rule,))


def policy(*parts: Policy) -> Policy:
    """One policy of the rules of several."""
    return Policy("; ".join(p.text for p in parts), tuple(r for p in parts for r in p.rules))


UNLIMITED = Policy("unlimited", ())


def trace(name: str, rule: Policy, comment: str, *steps: Step | list[Step], case: str = "") -> Case:
    return Case(name, comment, (rule,), flat(steps), tuple(case.split()))


def group(
    name: str, limiters: list[Policy], comment: str, *steps: Step | list[Step], case: str = ""
) -> Case:
    return Case(name, comment, tuple(limiters), flat(steps), tuple(case.split()), grouped=True)


def flat(steps: tuple[Step | list[Step], ...]) -> list[Step]:
    made: list[Step] = []
    for step in steps:
        made.extend(step if isinstance(step, list) else [step])
    return made


# -- Steps; check, peek, refund, reset and poll are those of dsl.py --------------------------------


def under(limiter: int, step: Step) -> Step:
    """The same step under another of the trace's limiters."""
    return {**step, "limiter": limiter}


def settle(now: int, id: str, cost: int, want: Want | None = None, *, key: str = "k") -> Step:
    return {"now": now, "op": "settle", "key": key, "id": id, "cost": cost, "want": want or {}}


def renew(now: int, id: str, want: Want | None = None, *, key: str = "k") -> Step:
    return {"now": now, "op": "renew", "key": key, "id": id, "want": want or {}}


def change(now: int, to: Policy) -> Step:
    """From here on the limiter of the same name has this policy."""
    return {"now": now, "op": "rule", "rule": to}


def probe(now: int, cost: int = 1, key: str = "k", retry: int | None = None) -> Step:
    """A check that is refused; refused still a microsecond before the instant it was told, and
    allowed at it. `retry` is that time, where it was worked out by hand."""
    return {"now": now, "op": "probe", "key": key, "cost": cost, "retry": retry, "want": {}}


def maybe(step: Step) -> Step:
    """Left out where the charge was refused, or where the clock may not be put back."""
    return {**step, "maybe": True}


Asked = tuple[int, str, int]  # limiter, key, cost


def check_all(
    now: int, *items: Asked, want: Want | None = None, wait: int = 0, id: str = ""
) -> Step:
    step: Step = {"now": now, "op": "check_all", "items": items, "want": want or {}}
    if wait:
        step["max_wait_us"] = wait
    if id:
        step["id"] = id
    return step


def peek_all(now: int, *items: Asked, want: Want | None = None, wait: int = 0) -> Step:
    return {**check_all(now, *items, want=want, wait=wait), "op": "peek_all"}


def refund_all(now: int, id: str, want: Want | None = None) -> Step:
    return {"now": now, "op": "refund_all", "id": id, "want": want or {}}


def of_item(item: int, step: Step) -> Step:
    """A refund, settlement or renewal of one item of a check_all."""
    return {**step, "item": item}


def bound(item: int, rule: int, want: Want) -> Want:
    """Also says which rule of which item bound."""
    return {**want, "item": item, "rule": rule}


def says(outcome: str, **more: Any) -> Want:
    return {"outcome": outcome, **more}


Maker = Callable[[int], Policy]  # from a limit

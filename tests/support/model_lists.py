"""The reference models that remember every charge: the sliding log, and leases (concurrency)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Optional

from .model_rules import MAX_LEASES, MAX_SLIDING, Charge, Verdict, clamp


class Entry(NamedTuple):
    dies: int  # counts until then
    cost: int
    mark: int  # log: the instant it was charged at; leases: the id


Entries = Optional[tuple[Entry, ...]]  # in any order; None is empty


def live(state: Entries, now: int) -> tuple[Entry, ...]:
    return tuple(entry for entry in state or () if entry.dies > now)


def total(entries: tuple[Entry, ...]) -> int:
    return sum(entry.cost for entry in entries)


def passes_at(entries: tuple[Entry, ...], cost: int, limit: int) -> int:
    """The first instant at which so few of the entries are left that the cost fits."""
    for instant in sorted(entry.dies for entry in entries):
        if total(live(entries, instant)) + cost <= limit:
            return instant
    raise AssertionError("a cost up to the limit fits once all are gone")


@dataclass(frozen=True)
class _Listed:
    limit: int
    period: int  # how long an entry counts

    def judge(self, state: Entries, cost: int, now: int, max_wait: int) -> Verdict:
        entries = live(self.read(state), now)
        if total(entries) + cost <= self.limit:
            return Verdict()
        return Verdict(passes_at(entries, cost, self.limit) - now)

    def describe(self, state: Entries, now: int) -> tuple[int, int]:
        entries = live(self.read(state), now)
        last = max((entry.dies for entry in entries), default=now)
        return max(0, self.limit - total(entries)), last - now

    def trimmed(self, state: Entries, now: int) -> Entries:
        return live(self.read(state), now) or None

    def read(self, state: Entries) -> Entries:
        return state


@dataclass(frozen=True)
class SlidingLog(_Listed):
    """At most `limit` in any `period`, exactly."""

    name: str = "sliding-log"

    @property
    def identity(self) -> str:
        return f"{self.name} {self.period}"

    def read(self, state: Entries) -> Entries:
        """What is stored is the instant of the charge: how long it counts is today's period."""
        return tuple(Entry(e.mark + self.period, e.cost, e.mark) for e in state or ())

    def charge(self, state: Entries, cost: int, now: int, ticket_id: int) -> tuple[Entries, Charge]:
        entries = live(self.read(state), now)
        at = max([now, *(entry.mark for entry in entries)])  # the clock may have gone back
        same = total(tuple(entry for entry in entries if entry.mark == at))
        others = tuple(entry for entry in entries if entry.mark != at)
        return (*others, Entry(at + self.period, same + cost, at)), Charge(self.name, at, cost)

    def adjust(
        self, state: Entries, charge: Charge, actual: int, now: int
    ) -> tuple[Entries] | None:
        entries = live(self.read(state), now)
        same = [entry for entry in entries if entry.mark == charge.mark]
        if not same:
            return None
        others = tuple(entry for entry in entries if entry.mark != charge.mark)
        cost = clamp(same[0].cost + actual - charge.cost, 0, MAX_SLIDING - total(others))
        return ((*others, same[0]._replace(cost=cost)) if cost > 0 else others or None,)

    def renew(self, state: Entries, charge: Charge, now: int) -> None:
        return None


@dataclass(frozen=True)
class Concurrency(_Listed):
    """At most `limit` at once: leases that are given back, or end by themselves after `period`."""

    name: str = "concurrency"

    @property
    def identity(self) -> str:
        return f"{self.name} {self.period}"

    def charge(self, state: Entries, cost: int, now: int, ticket_id: int) -> tuple[Entries, Charge]:
        lease = Entry(now + self.period, cost, ticket_id)
        return (*live(state, now), lease), Charge(self.name, ticket_id, cost)

    def adjust(
        self, state: Entries, charge: Charge, actual: int, now: int
    ) -> tuple[Entries] | None:
        entries = live(state, now)
        lease = next((entry for entry in entries if entry.mark == charge.mark), None)
        if lease is None:
            return None
        others = tuple(entry for entry in entries if entry.mark != charge.mark)
        cost = clamp(lease.cost + actual - charge.cost, 0, MAX_LEASES)
        return ((*others, lease._replace(cost=cost)) if cost > 0 else others or None,)

    def renew(self, state: Entries, charge: Charge, now: int) -> tuple[Entries] | None:
        entries = live(state, now)
        if all(entry.mark != charge.mark for entry in entries):
            return None
        dies = now + self.period
        return (tuple(e._replace(dies=dies) if e.mark == charge.mark else e for e in entries),)

"""The reference models that count in windows: fixed, calendar and sliding windows."""

from __future__ import annotations

from dataclasses import dataclass

from . import model_calendar
from .model_rules import MAX_COUNT, MAX_SLIDING, Charge, Verdict, clamp


@dataclass(frozen=True)
class Window:
    end: int  # the first instant that is not in it
    count: int


@dataclass(frozen=True)
class FixedWindow:
    """At most `limit` in each window; windows of `period` are aligned to the epoch.

    A window that was begun goes on until its own end, also when the clock went back or the period
    has changed since.
    """

    limit: int
    period: int
    name: str = "fixed-window"

    @property
    def identity(self) -> str:
        return f"{self.name} {self.period}"

    def end_of_window(self, now: int) -> int:
        return (now // self.period + 1) * self.period

    def current(self, state: Window | None, now: int) -> Window:
        if state is not None and now < state.end:
            return state
        return Window(self.end_of_window(now), 0)

    def judge(self, state: Window | None, cost: int, now: int, max_wait: int) -> Verdict:
        window = self.current(state, now)
        if window.count + cost <= self.limit:
            return Verdict()
        return Verdict(window.end - now)

    def charge(
        self, state: Window | None, cost: int, now: int, ticket_id: int
    ) -> tuple[Window, Charge]:
        window = self.current(state, now)
        return Window(window.end, window.count + cost), Charge(self.name, window.end, cost)

    def describe(self, state: Window | None, now: int) -> tuple[int, int]:
        window = self.current(state, now)
        return max(0, self.limit - window.count), window.end - now if window.count > 0 else 0

    def adjust(
        self, state: Window | None, charge: Charge, actual: int, now: int
    ) -> tuple[Window] | None:
        if state is None or state.end <= now or state.end != charge.mark or state.count == 0:
            return None  # a window that counts nothing is as good as none
        return (Window(state.end, clamp(state.count + actual - charge.cost, 0, MAX_COUNT)),)

    def renew(self, state: Window | None, charge: Charge, now: int) -> None:
        return None

    def trimmed(self, state: Window | None, now: int) -> Window | None:
        return None if state is None or state.end <= now or state.count == 0 else state


@dataclass(frozen=True)
class Calendar(FixedWindow):
    """The same with the days, weeks, months or years of a time zone. `period` is not used."""

    unit: str = "day"
    anchor: int = 1
    zone: str = "UTC"

    def __init__(self, limit: int, unit: str, anchor: int, zone: str) -> None:
        for name, value in (("limit", limit), ("period", 0), ("name", "calendar")):
            object.__setattr__(self, name, value)
        for name, text in (("unit", unit), ("anchor", anchor), ("zone", zone)):
            object.__setattr__(self, name, text)

    @property
    def identity(self) -> str:
        return f"{self.name} {self.unit}"

    def end_of_window(self, now: int) -> int:
        return model_calendar.window(self.unit, self.anchor, self.zone, now)[1]


@dataclass(frozen=True)
class Pair:
    """Two windows: the newer one ends at `end`, the older one where the newer begins."""

    end: int
    previous: int
    current: int


@dataclass(frozen=True)
class SlidingWindow:
    """The count of the window under way, and that of the one before in proportion to how much of
    it the last `period` still covers."""

    limit: int
    period: int
    name: str = "sliding-window"

    @property
    def identity(self) -> str:
        return f"{self.name} {self.period}"

    def rolled(self, state: Pair | None, now: int) -> Pair:
        """The two windows as they stand now. A pair goes on from its own end, whatever that is,
        until a whole window has passed in which nothing was charged."""
        if state is not None and now < state.end:
            return state
        if state is not None and now < state.end + self.period:
            return Pair(state.end + self.period, state.current, 0)
        return Pair((now // self.period + 1) * self.period, 0, 0)

    def used(self, state: Pair | None, now: int) -> int:
        pair = self.rolled(state, now)
        overlap = min(pair.end - now, self.period)
        return -(-pair.previous * overlap // self.period) + pair.current

    def fits(self, state: Pair | None, cost: int, now: int) -> bool:
        return self.used(state, now) + cost <= self.limit

    def judge(self, state: Pair | None, cost: int, now: int, max_wait: int) -> Verdict:
        """What is used only falls as time goes by, so the first instant is found by halving."""
        if self.fits(state, cost, now):
            return Verdict()
        refused, passes = now, self.rolled(state, now).end + self.period
        assert self.fits(state, cost, passes)
        while passes - refused > 1:
            middle = (refused + passes) // 2
            if self.fits(state, cost, middle):
                passes = middle
            else:
                refused = middle
        return Verdict(passes - now)

    def charge(
        self, state: Pair | None, cost: int, now: int, ticket_id: int
    ) -> tuple[Pair, Charge]:
        pair = self.rolled(state, now)
        return (
            Pair(pair.end, pair.previous, pair.current + cost),
            Charge(self.name, pair.end, cost),
        )

    def describe(self, state: Pair | None, now: int) -> tuple[int, int]:
        pair = self.rolled(state, now)
        remaining = max(0, self.limit - self.used(state, now))
        if pair.current > 0:
            return remaining, pair.end + self.period - now
        return remaining, pair.end - now if pair.previous > 0 else 0

    def adjust(
        self, state: Pair | None, charge: Charge, actual: int, now: int
    ) -> tuple[Pair] | None:
        if state is None or now >= state.end + self.period:
            return None
        pair, delta = self.rolled(state, now), actual - charge.cost
        if pair.previous == 0 and pair.current == 0:
            return None
        if charge.mark == pair.end:
            current = clamp(pair.current + delta, 0, MAX_SLIDING)
            return (Pair(pair.end, pair.previous, current),)
        if charge.mark == pair.end - self.period and pair.previous > 0:
            previous = clamp(pair.previous + delta, 0, MAX_SLIDING)
            return (Pair(pair.end, previous, pair.current),)
        return None

    def renew(self, state: Pair | None, charge: Charge, now: int) -> None:
        return None

    def trimmed(self, state: Pair | None, now: int) -> Pair | None:
        pair = self.rolled(state, now)
        return None if pair.previous == 0 and pair.current == 0 else state

"""How an acquire waits: by reservation where it can, else asleep until the next try."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import Union

from saqiya import _saqiya
from saqiya._saqiya import NO_WAIT, Decision

Key = Union[str, bytes]
Item = Union[tuple[_saqiya.Limiter, Key], tuple[_saqiya.Limiter, Key, int]]
"""Of the native layer: (limiter, key) or (limiter, key, cost)."""
Pause = Callable[[Decision, int, int], int]
"""(decision, attempt, microseconds left) -> microseconds to sleep before the next try, or -1."""


class _Countdown:
    def __init__(self, timeout_us: int) -> None:
        self._end = monotonic() + timeout_us / 1e6
        self.left_us = timeout_us

    def look(self) -> int:
        self.left_us = max(0, round((self._end - monotonic()) * 1e6))
        return self.left_us


def pause_of(items: Iterable[Item]) -> Pause:
    """For items of native limiters."""

    def pause(decision: Decision, attempt: int, left_us: int) -> int:
        return _saqiya.acquire_pause(items, decision, attempt, left_us)

    return pause


def acquire(
    ask: Callable[[int], Decision],
    give_back: Callable[[Decision], object],
    pause: Pause,
    timeout_us: int,
) -> Decision:
    """ask(max_wait_us) makes one try; an exception during a delay gives back what it took.

    A rule's queue may let a request in for longer than is left: only reservations are made for a
    time. That is given back, and what a try without waiting says stands.
    """
    countdown = _Countdown(timeout_us)
    attempt = 0
    while True:
        decision = ask(countdown.left_us or NO_WAIT)
        if decision and decision.delay_us > countdown.left_us:
            give_back(decision)
            decision = ask(NO_WAIT)
        if decision:
            if decision.delay_us > 0:
                try:
                    time.sleep(decision.delay)
                except BaseException:
                    give_back(decision)
                    raise
            return decision
        pause_us = pause(decision, attempt, countdown.look())
        if pause_us < 0:
            return decision
        time.sleep(pause_us / 1e6)
        countdown.look()
        attempt += 1


async def _sleep(seconds: float) -> None:
    """Never ends early: timers of some loops are rounded to milliseconds."""
    when = monotonic() + seconds
    while (left := when - monotonic()) > 0:
        await asyncio.sleep(max(left, 0.001))


async def acquire_async(
    ask: Callable[[int], Awaitable[Decision]],
    give_back: Callable[[Decision], object],
    pause: Pause,
    timeout_us: int,
) -> Decision:
    """The same on an event loop. give_back() does not wait: it comes before what is asked later."""
    countdown = _Countdown(timeout_us)
    attempt = 0
    while True:
        decision = await ask(countdown.left_us or NO_WAIT)
        if decision and decision.delay_us > countdown.left_us:
            give_back(decision)
            decision = await ask(NO_WAIT)
        if decision:
            if decision.delay_us > 0:
                try:
                    await _sleep(decision.delay)
                except BaseException:
                    give_back(decision)
                    raise
            return decision
        pause_us = pause(decision, attempt, countdown.look())
        if pause_us < 0:
            return decision
        await _sleep(pause_us / 1e6)
        countdown.look()
        attempt += 1

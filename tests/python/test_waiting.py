"""acquire(): by reservation where every rule is a token bucket, else by trying again."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import pytest
from conftest import StoreMaker
from test_threads import in_threads

from saqiya import AsyncLimiter, Limiter, Store, acquire_all, aio
from support.redis_server import RedisServer

# Policies that let one request in at once and the next within 0.2 s.
SOON = [
    "5/s burst 1",
    "leaky-bucket: 5/s queue 9",
    "fixed-window: 1/200ms",
    "sliding-window: 1/100ms",
    "sliding-log: 1/200ms",
    "concurrency: 1 ttl 200ms",
    "5/s burst 1; 12/2s burst 1",
    "5/s burst 1; sliding-log: 1/100ms; 100/min",
]
# Policies that would let the second in after a minute or more.
LATE = [
    "1/min",
    "fixed-window: 1/day",
    "sliding-window: 1/day",
    "sliding-log: 1/min",
    "calendar: 1/year",
    "concurrency: 1 ttl 1h",
    "1/min; 2/h",
    "10/s; sliding-log: 1/min",
]


# One request takes all of them for a minute at least.
BUSY = ["1/min", "leaky-bucket: 1/min queue 9", "1/min; 2/h", "concurrency: 1 ttl 1h"]


def real_store(kind: str, redis: RedisServer) -> Store:
    return Store() if kind == "memory" else Store(redis.url, deadline=10)


KINDS = pytest.mark.parametrize("kind", ["memory", "redis"])


@KINDS
@pytest.mark.parametrize("text", SOON)
def test_it_waits_until_it_is_allowed(kind: str, text: str, redis: RedisServer) -> None:
    limiter = Limiter(text, store=real_store(kind, redis))
    for _ in range(3):
        assert limiter.acquire("k", timeout=30)
    assert limiter.acquire("k", timeout=None)
    assert limiter.acquire("k", 10**9, timeout=None).outcome == "never"


@KINDS
@pytest.mark.parametrize("text", LATE)
def test_it_does_not_wait_in_vain(kind: str, text: str, redis: RedisServer) -> None:
    limiter = Limiter(text, store=real_store(kind, redis))
    while limiter.acquire("k", timeout=0):
        pass
    before = [rule.remaining for rule in limiter.peek("k").rules]
    started = time.monotonic()
    for timeout in (0, 0.0, 0.01):
        assert limiter.acquire("k", timeout=timeout).outcome == "denied"
    assert acquire_all([(limiter, "k")], timeout=0.01).outcome == "denied"
    assert time.monotonic() - started < 30
    assert [rule.remaining for rule in limiter.peek("k").rules] == before


@KINDS
@pytest.mark.parametrize("text", SOON)
def test_async_waiting(kind: str, text: str, redis: RedisServer) -> None:
    async def main() -> None:
        limiter = AsyncLimiter(text, store=real_store(kind, redis))
        decisions = await asyncio.gather(*(limiter.acquire("k", timeout=60) for _ in range(4)))
        assert all(decisions)
        assert await aio.acquire_all([(limiter, "k")], timeout=None)
        assert (await limiter.acquire("k", 10**9, timeout=None)).outcome == "never"

    asyncio.run(main())


@KINDS
@pytest.mark.parametrize("text", LATE)
def test_async_does_not_wait_in_vain(kind: str, text: str, redis: RedisServer) -> None:
    async def main() -> None:
        limiter = AsyncLimiter(text, store=real_store(kind, redis))
        while await limiter.acquire("k", timeout=0):
            pass
        assert (await limiter.acquire("k", timeout=0.01)).outcome == "denied"
        assert (await aio.acquire_all([(limiter, "k")], timeout=0.01)).outcome == "denied"

    asyncio.run(main())


@KINDS
def test_reservations_are_first_come_first_served(kind: str, redis: RedisServer) -> None:
    """One call to the store each, spaced exactly, in the order of the calls."""
    store = real_store(kind, redis)
    limiter = Limiter("1/h burst 1", store=store)
    limiter.check("k")
    delays = [limiter.reserve("k", 1, 10 * 3_600_000_000).delay for _ in range(5)]
    assert [round(delay / 3_600) for delay in delays] == [1, 2, 3, 4, 5]
    requests = store.stats().requests
    limiter = Limiter("100/s burst 1", store=store)
    order: list[tuple[float, float]] = []

    def work(_number: int) -> None:
        decision = limiter.acquire("k", timeout=60)
        order.append((time.monotonic(), decision.delay))

    in_threads(10, work)
    assert len({round(delay, 4) for _, delay in order}) == 10
    if kind == "redis":
        assert store.stats().requests - requests == 10


def test_the_gil_is_not_held(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("5/s burst 1", store=store)
    limiter.check("k")
    ticks = 0
    waiting = threading.Thread(target=lambda: limiter.acquire("k", timeout=10))
    waiting.start()
    while waiting.is_alive():
        ticks += 1
        time.sleep(0.001)
    assert ticks > 10


class Stop(Exception):
    pass


@pytest.mark.parametrize("text", BUSY)
def test_a_signal_ends_the_wait_and_gives_back(make_store: StoreMaker, text: str) -> None:
    store, _ = make_store()
    limiter = Limiter(text, store=store, name="n")
    assert limiter.check("k")
    before = limiter.peek("k").rules

    def stop(*_: Any) -> None:
        raise Stop

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(Stop):
            limiter.acquire("k", timeout=None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert limiter.peek("k").rules == before


@pytest.mark.parametrize("text", BUSY)
def test_cancelling_gives_back(make_store: StoreMaker, text: str) -> None:
    async def main() -> None:
        store, _ = make_store()
        limiter = AsyncLimiter(text, store=store, name="n")
        assert await limiter.check("k")
        before = (await limiter.peek("k")).rules
        for turns in range(24):
            call = (
                limiter.acquire("k", timeout=None)
                if turns % 2
                else aio.acquire_all([(limiter, "k")], timeout=None)
            )
            task = asyncio.create_task(call)
            for _ in range(turns // 2):
                await asyncio.sleep(0.0005 * (turns % 3))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # Before the next one comes: a reservation that others have queued behind is lost.
            deadline = time.monotonic() + 20
            while (await limiter.peek("k")).rules != before:
                assert time.monotonic() < deadline, turns
                await asyncio.sleep(0.001)

    asyncio.run(main())


def test_a_store_that_is_away_is_told_at_once() -> None:
    store = Store("redis://127.0.0.1:1", deadline=10)
    for text in ("5/s", "fixed-window: 1/s", "concurrency: 1 ttl 1s"):
        decision = Limiter(text, store=store, failure="error").acquire("k", timeout=None)
        assert (decision.outcome, decision.reason) == ("unavailable", "connect")

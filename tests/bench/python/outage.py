"""Latency of checks while their Redis goes away and comes back, deadline 100 ms.

outage.py threads|asyncio saqiya|redis-py killed|frozen

16 threads, or 64 tasks of one event loop, ask 3,200 times a second: each asks, waits for the answer
and then for a while. dying: the half second that begins when Redis goes; away: the two seconds
after that; back: from the first check that Redis decided again (if none did: from its return) until
a second after its return.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable
from itertools import count
from random import uniform
from time import perf_counter, sleep, time

from common import CLASSIC_SCRIPT, percentile, show
from support.redis_server import RedisServer

THREADS, TASKS = 16, 64
DEADLINE = 0.1  # s
RATE = 3_200  # checks per second of all callers, when they are answered at once
USERS = 1_000
DYING, AWAY, BACK = 0.5, 2.0, 1.0  # s
# Nobody is refused: all that is measured is asked of Redis.
PER_SECOND = 1_000
# redis-py gets the same time for each step, and no retries.
TIMES = {"socket_timeout": DEADLINE, "socket_connect_timeout": DEADLINE}

# True when Redis decided.
Check = Callable[[str], bool]
AsyncCheck = Callable[[str], Awaitable[bool]]


def saqiya_check(port: int) -> Check:
    from saqiya import Limiter, Store

    store = Store(f"redis://127.0.0.1:{port}", deadline=DEADLINE)
    limiter = Limiter(f"{PER_SECOND}/s", store=store)
    return lambda user: limiter.check(user).reason is None


def saqiya_async_check(port: int) -> AsyncCheck:
    from saqiya import AsyncLimiter, Store

    store = Store(f"redis://127.0.0.1:{port}", deadline=DEADLINE)
    limiter = AsyncLimiter(f"{PER_SECOND}/s", store=store)

    async def check(user: str) -> bool:
        return (await limiter.check(user)).reason is None

    return check


def redis_py_check(port: int) -> Check:
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    from redis import Redis, RedisError

    redis = Redis(host="127.0.0.1", port=port, retry=Retry(NoBackoff(), 0), **TIMES)
    script = redis.register_script(CLASSIC_SCRIPT)

    def check(user: str) -> bool:
        try:
            script(keys=[f"rl:{user}"], args=[PER_SECOND, PER_SECOND, time(), 1])
        except RedisError:
            return False
        return True

    return check


def redis_py_async_check(port: int) -> AsyncCheck:
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    from redis import RedisError

    redis = Redis(host="127.0.0.1", port=port, retry=Retry(NoBackoff(), 0), **TIMES)
    script = redis.register_script(CLASSIC_SCRIPT)

    async def check(user: str) -> bool:
        try:
            await script(keys=[f"rl:{user}"], args=[PER_SECOND, PER_SECOND, time(), 1])
        except RedisError:
            return False
        return True

    return check


def pause(callers: int) -> float:
    """Seconds; of random length, or callers that were held up together would go on in step."""
    return uniform(0.5, 1.5) * callers / RATE


class Callers:
    """They ask until they are told to stop."""

    def __init__(self, how: str, who: str, port: int) -> None:
        self.seen: list[tuple[float, float, bool]] = []  # begin, seconds, whether Redis decided
        self._done = threading.Event()
        self._numbers = count()
        if how == "threads":
            check = {"saqiya": saqiya_check, "redis-py": redis_py_check}[who](port)
            bodies = [lambda: self._ask(check)] * THREADS
        else:
            make = {"saqiya": saqiya_async_check, "redis-py": redis_py_async_check}[who]
            bodies = [lambda: asyncio.run(self._run_tasks(make(port)))]
        self._threads = [threading.Thread(target=body) for body in bodies]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _next_user(self) -> str:
        return f"user{next(self._numbers) % USERS:06}"

    def _ask(self, check: Check) -> None:
        while not self._done.is_set():
            user = self._next_user()
            begin = perf_counter()
            decided = check(user)
            self.seen.append((begin, perf_counter() - begin, decided))
            sleep(pause(THREADS))

    async def _run_tasks(self, check: AsyncCheck) -> None:
        await asyncio.gather(*(self._ask_awaiting(check) for _ in range(TASKS)))

    async def _ask_awaiting(self, check: AsyncCheck) -> None:
        while not self._done.is_set():
            user = self._next_user()
            begin = perf_counter()
            decided = await check(user)
            self.seen.append((begin, perf_counter() - begin, decided))
            await asyncio.sleep(pause(TASKS))


def main() -> None:
    how, who, end = sys.argv[1:]
    with RedisServer() as server:
        callers = Callers(how, who, server.port)
        sleep(0.5)
        gone = perf_counter()
        if end == "killed":
            server.kill()
        else:
            server.pause()
        sleep(DYING + AWAY)
        if end == "killed":
            server.start()
        else:
            server.resume()
        returned = perf_counter()
        sleep(BACK)
        callers.stop()
    seen = callers.seen

    def p99_us(begin: float, end: float) -> float:
        found = sorted(took for when, took, _ in seen if begin <= when < end)
        return percentile(found, 0.99) * 1e6

    first = min((when for when, _, decided in seen if decided and when > returned), default=None)
    result = {
        "dying_us": p99_us(gone, gone + DYING),
        "longest_us": max(took for when, took, _ in seen if gone - 1 < when < returned) * 1e6,
        "away_us": p99_us(gone + DYING, gone + DYING + AWAY),
        "back_us": p99_us(first or returned, returned + BACK),
    }
    if first is not None:  # left out when Redis decided none
        result["return_ms"] = (first - returned) * 1e3
    show(result)


if __name__ == "__main__":
    main()

"""Checks per second and latency of asyncio over Redis: 1,000 users, N tasks.

over_redis.py saqiya|redis-py|limits port allowed|limited tasks seconds [uvloop]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from time import perf_counter, process_time, time

from common import CLASSIC_SCRIPT, percentile, show, walk

USERS = 1_000
WARM_UP = 0.5  # s
RATE = 5  # per second
CAPACITY = {"allowed": 1_000_000_000, "limited": 10}

Check = Callable[[str], Awaitable[bool]]


async def saqiya_check(port: int, capacity: int) -> Check:
    from saqiya import AsyncLimiter, Store

    store = Store(f"redis://127.0.0.1:{port}", deadline=2)
    limiter = AsyncLimiter(f"{RATE}/s burst {capacity}", store=store, name="api", deny_cache=False)

    async def check(user: str) -> bool:
        decision = await limiter.check(user)
        if decision.reason is not None:
            raise RuntimeError(f"unavailable: {decision.reason}")
        return bool(decision)

    return check


async def redis_py_check(port: int, capacity: int) -> Check:
    from redis.asyncio import Redis

    redis = Redis(host="127.0.0.1", port=port)
    sha = await redis.script_load(CLASSIC_SCRIPT)

    async def check(user: str) -> bool:
        reply = await redis.evalsha(sha, 1, f"rl:{user}", capacity, RATE, time(), 1)
        return bool(reply[0])

    return check


async def limits_check(port: int, capacity: int) -> Check:
    """A fixed window, which `limits` offers in place of a bucket: its cheapest strategy."""
    from limits import RateLimitItemPerSecond
    from limits.aio.storage import RedisStorage
    from limits.aio.strategies import FixedWindowRateLimiter

    storage = RedisStorage(f"async+redis://127.0.0.1:{port}", implementation="redispy")
    limiter = FixedWindowRateLimiter(storage)
    item = RateLimitItemPerSecond(capacity if capacity > 10 else RATE)

    async def check(user: str) -> bool:
        return await limiter.hit(item, user)

    return check


async def measure(check: Check, tasks: int, seconds: float) -> dict[str, float]:
    users = [f"user{i:06}" for i in range(USERS)]
    next_user = walk(USERS)
    latencies: list[float] = []
    allowed = 0

    async def caller(end: float) -> None:
        nonlocal allowed
        now = perf_counter()
        while now < end:
            passed = await check(users[next(next_user)])
            allowed += passed
            then, now = now, perf_counter()
            latencies.append(now - then)

    start = perf_counter()
    await asyncio.gather(*(caller(start + WARM_UP) for _ in range(tasks)))
    latencies.clear()
    allowed = 0
    cpu, start = process_time(), perf_counter()
    await asyncio.gather(*(caller(start + seconds) for _ in range(tasks)))
    elapsed, cpu = perf_counter() - start, process_time() - cpu
    latencies.sort()
    count = len(latencies)
    return {
        "rate": count / elapsed,
        "p50_us": percentile(latencies, 0.5) * 1e6,
        "p99_us": percentile(latencies, 0.99) * 1e6,
        "cpu_us": cpu / count * 1e6,
        "refused": 1 - allowed / count,
    }


async def main() -> None:
    who, port, regime, tasks, seconds = sys.argv[1:6]
    make = {"saqiya": saqiya_check, "redis-py": redis_py_check, "limits": limits_check}[who]
    check = await make(int(port), CAPACITY[regime])
    show(await measure(check, int(tasks), float(seconds)))


if __name__ == "__main__":
    if sys.argv[6:] == ["uvloop"]:
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())

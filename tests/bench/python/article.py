"""The article's own test: 100,000 requests from 1,000 users, capacity 10, refill 5/s.

article.py saqiya|classic port

The article does not say when its requests came. Here they come at random, a Poisson process over as
many seconds as let a perfect bucket refuse 14 % of them, the article's share. One blocking client;
it is late when an answer takes longer than the next gap, and catches up.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from time import perf_counter, sleep, time

from common import CLASSIC_SCRIPT, percentile, show
from redis import Redis

REQUESTS = 100_000
USERS = 1_000
CAPACITY, RATE = 10, 5
SECONDS = 16.2
SEED = 20261130


def classic_check(port: int) -> Callable[[str], bool]:
    redis = Redis(port=port)
    sha = redis.script_load(CLASSIC_SCRIPT)

    def check(user: str) -> bool:
        reply = redis.evalsha(sha, 1, f"rl:{user}", CAPACITY, RATE, time(), 1)
        return bool(reply[0])  # type: ignore[index]

    return check


def saqiya_check(port: int) -> Callable[[str], bool]:
    from saqiya import Limiter, Store

    store = Store(f"redis://127.0.0.1:{port}", deadline=2)
    limiter = Limiter(f"{RATE}/s burst {CAPACITY}", store=store, name="api", deny_cache=False)

    def check(user: str) -> bool:
        decision = limiter.check(user)
        if decision.reason is not None:
            raise RuntimeError(f"unavailable: {decision.reason}")
        return bool(decision)

    return check


def main() -> None:
    who, port = sys.argv[1], int(sys.argv[2])
    check = {"saqiya": saqiya_check, "classic": classic_check}[who](port)
    draw = random.Random(SEED)
    users = [f"user{i:06}" for i in range(USERS)]
    arrivals: list[tuple[float, str]] = []
    when = 0.0
    for _ in range(REQUESTS):
        when += draw.expovariate(REQUESTS / SECONDS)
        arrivals.append((when, draw.choice(users)))

    for _ in range(2_000):
        check("warm-up")
    Redis(port=port).flushdb()

    latencies: list[float] = []
    allowed = 0
    start = perf_counter()
    for when, user in arrivals:
        early = start + when - perf_counter()
        if early > 0:
            sleep(early)
        asked = perf_counter()
        allowed += check(user)
        latencies.append(perf_counter() - asked)
    elapsed = perf_counter() - start

    latencies.sort()
    show(
        {
            "mean_us": sum(latencies) / REQUESTS * 1e6,
            "p99_us": percentile(latencies, 0.99) * 1e6,
            "refused": 1 - allowed / REQUESTS,
            "seconds": elapsed,
        }
    )


if __name__ == "__main__":
    main()

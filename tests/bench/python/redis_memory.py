"""Bytes of Redis memory per active user: used_memory before and after 700,000 users came.

redis_memory.py saqiya|classic port

The server is empty. A user comes twice within a moment, as active users do: after the first time
alone the classic bucket would hold a whole number of tokens, which is shorter. Every key must
outlive the loading, so saqiya's users take much of a bucket that needs days to fill; what a key
weighs does not depend on how long it lives.
"""

from __future__ import annotations

import sys
from time import sleep, time

from common import CLASSIC_SCRIPT, show
from redis import Redis

USERS = 700_000
CHUNK = 1_000


def used_memory(redis: Redis) -> int:
    """Once it has settled: tables are enlarged step by step, buffers are freed late."""
    last, same = -1, 0
    while same < 3:
        sleep(0.3)
        now = int(redis.info("memory")["used_memory"])
        same = same + 1 if now == last else 0
        last = now
    return last


def load_saqiya(port: int, users: list[str]) -> None:
    from saqiya import Limiter, Store

    store = Store(f"redis://127.0.0.1:{port}", deadline=60)
    limiter = Limiter("5/s burst 1000000", store=store, name="api")
    for start in range(0, len(users), CHUNK):
        if not all(limiter.check_many(users[start : start + CHUNK] * 2, 250_000)):
            raise RuntimeError("a check failed")


def load_classic(port: int, users: list[str]) -> None:
    redis = Redis(port=port)
    sha = redis.script_load(CLASSIC_SCRIPT)
    for start in range(0, len(users), CHUNK):
        pipeline = redis.pipeline(transaction=False)
        for user in users[start : start + CHUNK] * 2:
            pipeline.evalsha(sha, 1, f"rl:{user}", 10, 5, time(), 1)
        pipeline.execute()
    redis.close()


def main() -> None:
    who, port = sys.argv[1], int(sys.argv[2])
    load = {"saqiya": load_saqiya, "classic": load_classic}[who]
    redis = Redis(port=port)
    load(port, ["warm-up"])
    redis.flushdb()
    before = used_memory(redis)
    load(port, [f"user{i:06}" for i in range(USERS)])
    after = used_memory(redis)
    keys = redis.dbsize()
    if keys != USERS:
        raise RuntimeError(f"{keys} keys for {USERS} users")
    name = str(redis.randomkey(), "utf-8")  # type: ignore[arg-type]
    show({"bytes": (after - before) / USERS, "key": name})


if __name__ == "__main__":
    main()

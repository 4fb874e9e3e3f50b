"""Bytes per active user on the server."""

from __future__ import annotations

import json

from suite.places import KEPT
from suite.tables import Table, at_most
from suite.workers import empty, python
from support.redis_server import RedisServer

FIGURES = KEPT / "bytes_per_user.json"


def measure() -> dict[str, float]:
    found = {}
    with RedisServer() as redis:
        for who in ("saqiya", "classic"):
            empty(redis)
            found[who] = python("redis_memory.py", who, redis.port)["bytes"]
    KEPT.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(found))
    return found


def last_figures() -> dict[str, float]:
    """Of an earlier run, if there was one."""
    if not FIGURES.exists():
        return measure()
    found: dict[str, float] = json.loads(FIGURES.read_text())
    return found


def run(_rounds: int) -> Table:
    table = Table(
        "Redis memory per active user",
        "Difference of `used_memory` (INFO memory) over 700,000 users `user000000` and on, each "
        "seen twice within a moment. saqiya: rate 5/s, limiter named `api`. Classic: a hash of "
        "two floats, `tokens` and `ts`, key `rl:user000000`. Once per variant: it does not vary.",
    )
    found = measure()
    table.compare(
        "bytes per user", [found["saqiya"]], [found["classic"]], "B", "classic hash", at_most(0.75)
    )
    return table

"""Python: in the process, and asyncio over Redis."""

from __future__ import annotations

from functools import partial

from suite.tables import NO_GOAL, Table, at_least, at_most
from suite.workers import Result, empty, in_turns, python
from support.redis_server import RedisServer

SECONDS = 1.0  # of one measurement over Redis, after half a second of warming up


def in_process(rounds: int) -> Table:
    table = Table(
        "In the process, Python",
        "CPU time of `limiter.check(key)`, 10,000 keys of 20 bytes; `limits` with its fixed window "
        "in memory, its cheapest.",
    )
    for regime in ("allowed", "denied"):
        found = in_turns(
            rounds,
            {who: partial(python, "in_process.py", who, regime) for who in ("saqiya", "limits")},
        )
        ours, peer = found["saqiya"]["ns"], found["limits"]["ns"]
        what = f"check, {regime}"
        table.compare(what, ours, peer, "ns", "limits", at_least(20), inverse=True)
        table.single(f"{what}, by itself", ours, "ns", at_most(150, "ns"))
    return table


def over_redis(rounds: int) -> Table:
    table = Table(
        "asyncio over Redis (TCP)",
        "1,000 users, as many tasks as said, each waits for its answer and asks again. *Limited*: "
        "capacity 10, refill 5/s, so most are refused. *Allowed*: the same rate, a capacity that "
        "is never used up. The classic script by redis-py's `evalsha`; `limits` with its fixed "
        "window. Latency is what a task sees.",
    )
    with RedisServer() as redis:
        for regime in ("limited", "allowed"):
            for tasks in (1, 100):
                _rows(table, rounds, redis, regime, tasks)
    return table


def _rows(table: Table, rounds: int, redis: RedisServer, regime: str, tasks: int) -> None:
    def worker(who: str, *loop: str) -> Result:
        empty(redis)
        return python("over_redis.py", who, redis.port, regime, tasks, SECONDS, *loop)

    variants = {who: partial(worker, who) for who in ("saqiya", "redis-py", "limits")}
    variants["saqiya, uvloop"] = partial(worker, "saqiya", "uvloop")
    found = in_turns(rounds, variants)
    one = tasks == 1
    goals = {"redis-py": at_least(1.5 if one else 12), "limits": NO_GOAL if one else at_least(10)}
    what = f"{tasks} task{'' if one else 's'}, {regime}"
    ours = found["saqiya"]
    for peer, goal in goals.items():
        theirs = found[peer]
        table.compare(what, ours["rate"], theirs["rate"], "checks/s", peer, goal)
    theirs = found["redis-py"]
    table.compare(f"{what}: p99", ours["p99_us"], theirs["p99_us"], "us", "redis-py", NO_GOAL)
    quick = found["saqiya, uvloop"]["rate"]
    table.compare(f"{what}, under uvloop", quick, ours["rate"], "checks/s", "asyncio", NO_GOAL)

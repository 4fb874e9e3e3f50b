"""Node: in the process, and over Redis."""

from __future__ import annotations

from functools import partial

from suite.tables import NO_GOAL, Table, at_least, at_most
from suite.workers import Result, empty, in_turns, node
from support.redis_server import RedisServer

SECONDS = 1.0  # of one measurement over Redis, after half a second of warming up


def in_process(rounds: int) -> Table:
    table = Table(
        "In the process, Node",
        "CPU time per check, 10,000 keys of 20 bytes. `checkSync` of saqiya; the peers have "
        "promises only, which are awaited: `consume` of rate-limiter-flexible, `increment` of "
        "express-rate-limit's MemoryStore (which counts, and refuses nothing itself).",
    )
    goals = {
        "allowed": {"flexible": at_least(2), "express": at_least(2)},
        "denied": {"flexible": at_least(15)},
    }
    names = {"flexible": "rate-limiter-flexible", "express": "express-rate-limit"}
    for regime, peers in goals.items():
        variants = ("saqiya", "flexible", "express", "saqiya-async")
        found = in_turns(
            rounds, {who: partial(node, "in_process.mjs", who, regime) for who in variants}
        )
        for peer, goal in peers.items():
            ours, theirs = found["saqiya"]["ns"], found[peer]["ns"]
            what = f"checkSync, {regime}"
            table.compare(what, ours, theirs, "ns", names[peer], goal, inverse=True)
        awaited, direct = found["saqiya-async"]["ns"], found["saqiya"]["ns"]
        table.compare(f"await check, {regime}", awaited, direct, "ns", "checkSync", NO_GOAL)
    return table


def over_redis(rounds: int) -> Table:
    table = Table(
        "Node over Redis (TCP)",
        "1,000 users, as many callers in flight as said, each waits for its answer and asks again. "
        "*Limited*: capacity 10, refill 5/s, so most are refused. *Allowed*: the same rate, a "
        "capacity that is never used up. The peer is the classic script (HMGET, HMSET, EXPIRE) "
        "through ioredis, by EVAL as it is usually published; and by EVALSHA, for comparison. "
        "Latency is what a caller sees.",
    )
    goals = {
        "allowed": {1: at_least(1), 64: at_least(4.5), 256: at_least(4.5)},
        "limited": {1: at_least(1), 64: at_least(7), 256: at_least(10)},
    }
    with RedisServer() as redis:
        for regime, depths in goals.items():
            for in_flight, goal in depths.items():

                def worker(who: str, regime: str = regime, depth: int = in_flight) -> Result:
                    empty(redis)
                    return node("over_redis.mjs", who, redis.port, regime, depth, SECONDS)

                who = ("saqiya", "eval", "evalsha")
                found = in_turns(rounds, {name: partial(worker, name) for name in who})
                ours, theirs, by_sha = found["saqiya"], found["eval"], found["evalsha"]
                what = f"{in_flight} in flight, {regime}"
                rates = (ours["rate"], theirs["rate"])
                table.compare(what, *rates, "checks/s", "ioredis", goal)
                p99 = NO_GOAL if in_flight == 1 else at_most(0.25)
                tails = (ours["p99_us"], theirs["p99_us"])
                table.compare(f"{what}: p99", *tails, "us", "ioredis", p99)
                rates = (ours["rate"], by_sha["rate"])
                table.compare(what, *rates, "checks/s", "ioredis by EVALSHA", NO_GOAL)
    return table

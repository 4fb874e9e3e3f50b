"""What an outage of Redis costs a caller."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from suite.tables import NO_GOAL, Table, at_most
from suite.workers import Result, in_turns, node, python

DEADLINE_MS = 100


def in_threads(rounds: int) -> Table:
    table = Table(
        "Redis goes away and comes back, 16 threads",
        "16 Python threads that share a limiter, deadline 100 ms, failure policy *local*; each "
        "asks, waits for the answer and then 5 ms on average. *Killed*: its port is closed; "
        "*frozen*: it answers nothing, connections stay. Dying is the first half second, away the "
        "two seconds after it, back the second after the return. redis-py runs the classic script "
        "with time-outs of 100 ms and no retries, and decides nothing meanwhile. Whoever wants to "
        "go on waits for the interpreter's lock, too, which is part of these times.",
    )
    _measure(table, rounds, partial(python, "outage.py", "threads"), "redis-py")
    return table


def in_asyncio(rounds: int) -> Table:
    table = Table(
        "Redis goes away and comes back, asyncio",
        "64 tasks of one event loop, each waits 20 ms on average; otherwise as above, redis-py by "
        "its asyncio client. One task's check waits while others' are worked on, which is most of "
        "its time while Redis is away.",
    )
    _measure(table, rounds, partial(python, "outage.py", "asyncio"), "redis-py")
    return table


def in_node(rounds: int) -> Table:
    table = Table(
        "Redis goes away and comes back, Node",
        "64 callers in one event loop, each waits 5 ms; otherwise as above. ioredis runs the "
        "classic script with time-outs of 100 ms and no retries.",
    )
    _measure(table, rounds, partial(node, "outage.mjs"), "ioredis")
    return table


def _measure(table: Table, rounds: int, worker: Callable[..., Result], peer_name: str) -> None:
    for how in ("killed", "frozen"):
        found = in_turns(rounds, {who: partial(worker, who, how) for who in ("saqiya", peer_name)})
        ours, peer = found["saqiya"], found[peer_name]
        for what, name, goal in (
            ("dying", "dying_us", at_most((DEADLINE_MS + 10) * 1_000, "us")),
            ("away", "away_us", at_most(1_000, "us")),
            ("back", "back_us", NO_GOAL),
        ):
            table.single(f"{how}: p99, {what}", ours[name], "us", goal)
            table.compare(f"{how}: p99, {what}", ours[name], peer[name], "us", peer_name, NO_GOAL)
        table.single(f"{how}: the longest check", ours["longest_us"], "us", NO_GOAL)
        table.single(
            f"{how}: used again after its return", ours["return_ms"], "ms", at_most(1_000, "ms")
        )


def failover(rounds: int) -> Table:
    table = Table(
        "The master of a key is killed, Python",
        "One blocking caller, deadline 100 ms, failure policy *local*, asks every other "
        "millisecond. The servers need a second or two of their own to agree on a new master "
        "(here they call one dead after half a second, a second on a cluster).",
    )
    variants = {how: partial(python, "failover.py", how) for how in ("sentinel", "cluster")}
    for how, found in in_turns(rounds, variants).items():
        name = how.capitalize()
        table.single(f"{name}: until Redis decides again", found["outage_ms"], "ms", NO_GOAL)
        table.single(
            f"{name}: the new master used after it was one",
            found["return_ms"],
            "ms",
            at_most(1_000, "ms"),
        )
        table.single(f"{name}: the longest check", found["longest_us"], "us", NO_GOAL)
    return table

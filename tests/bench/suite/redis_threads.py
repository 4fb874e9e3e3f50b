"""Blocking checks of many threads that share a store, beside a bare client."""

from __future__ import annotations

import json
from collections import defaultdict

from suite.tables import NO_GOAL, Goal, Table, at_least
from suite.workers import program

# The first is hiredis, in one thread.
THREADS = (0, 1, 4, 16, 64)


def run(rounds: int) -> Table:
    table = Table(
        "Threads over Redis, C",
        "Blocking saqiya_limiter_check from threads that share one store, 1,000 users, the deny "
        "cache off, beside a bare hiredis round trip of the same EVALSHA, and beside one thread.",
    )
    found: dict[tuple[str, str, int], list[dict[str, float]]] = defaultdict(list)
    for text in program("redis_threads", str(rounds), "300").splitlines():
        line = json.loads(text)
        found[line["transport"], line["mostly"], line["threads"]].append(line)
    for transport in ("unix", "TCP"):
        for mostly in ("allowed", "refused"):
            _rows(
                table,
                f"{transport}, mostly {mostly}",
                {threads: found[transport, mostly, threads] for threads in THREADS},
            )
    return table


def _rows(table: Table, what: str, lines: dict[int, list[dict[str, float]]]) -> None:
    def figures(threads: int, name: str) -> list[float]:
        return [line[name] for line in lines[threads]]

    hiredis, one = figures(0, "rate"), figures(1, "rate")
    table.compare(f"{what}: 1 thread", one, hiredis, "checks/s", "hiredis", at_least(0.9))
    for threads in THREADS[2:]:
        goal: Goal = at_least(5) if threads == 64 else NO_GOAL
        rate = figures(threads, "rate")
        table.compare(f"{what}: {threads} threads", rate, one, "checks/s", "1 thread", goal)
    for threads in THREADS[1:]:
        name = f"{what}: p99 of a check, {threads} thread{'s' if threads > 1 else ''}"
        table.compare(name, figures(threads, "p99"), figures(0, "p99"), "us", "hiredis", NO_GOAL)

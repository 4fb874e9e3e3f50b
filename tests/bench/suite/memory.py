"""The memory store in C: cost of a check, two threads, bytes per key."""

from __future__ import annotations

import json
from collections import defaultdict

from suite.tables import NO_GOAL, Table, at_least, at_most
from suite.workers import program


def run(rounds: int) -> list[Table]:
    table = Table(
        "In the process, C",
        "CPU time, 10,000 keys of 20 bytes, one thread, unless said otherwise. The parts are what "
        "a check cannot do without: the same keyed hash, a find in a bare flat_hash_map, one "
        "reading of the clock.",
    )
    algorithms = Table(
        "Algorithms in the process, C",
        "CPU time of saqiya_limiter_check beside that of an allowed token bucket, in the same "
        "run; 10,000 keys, one thread. Full logs hold 100 entries each.",
    )
    times = _checks(rounds)
    _check(table, times)
    _algorithms(algorithms, times)
    _threads(table)
    _size(table)
    return [table, algorithms]


def _checks(rounds: int) -> dict[str, list[float]]:
    text = program(
        "memory_check",
        f"--benchmark_repetitions={2 * rounds + 1}",
        "--benchmark_enable_random_interleaving=true",
        "--benchmark_min_time=0.1",
        "--benchmark_format=json",
    )
    times: dict[str, list[float]] = defaultdict(list)
    for entry in json.loads(text)["benchmarks"]:
        if entry["run_type"] == "iteration":
            times[entry["run_name"]].append(entry["cpu_time"])
    return times


def _check(table: Table, times: dict[str, list[float]]) -> None:
    parts = times["parts"]
    for name, goal in (
        ("check/allowed", at_most(1.5)),
        ("check/denied", at_most(1.5)),
        ("check/idle", NO_GOAL),
        ("take/allowed", NO_GOAL),
    ):
        call, case = name.split("/")
        what = f"saqiya_limiter_{call}, {case}"
        table.compare(what, times[name], parts, "ns", "the parts", goal)


def _algorithms(table: Table, times: dict[str, list[float]]) -> None:
    for name, what, goal in (
        ("check/fixed_window", "fixed window, allowed", at_most(3)),
        ("check/sliding_window", "sliding window, allowed", at_most(3)),
        ("check/calendar", "calendar, allowed", at_most(3)),
        ("check_full_logs", "sliding log of 100 entries, full", at_most(3)),
        ("check_rolling_log", "sliding log of 100 entries, one key, allowed", at_most(3)),
        ("check/concurrency_denied", "concurrency, denied", at_most(3)),
        ("check/two_rules", "two rules, allowed", NO_GOAL),
    ):
        table.compare(what, times[name], times["check/allowed"], "ns", "token bucket", goal)


def _threads(table: Table) -> None:
    lines = program("memory_threads").splitlines()[1:]
    processes, threads = zip(*(map(float, line.split()) for line in lines))
    table.compare(
        "2 threads, different keys (wall time)",
        [t / 1e6 for t in threads],
        [p / 1e6 for p in processes],
        "M checks/s",
        "2 processes",
        at_least(0.9),
    )


def _size(table: Table) -> None:
    worst, slowest = 0.0, 0.0
    for line in program("memory_size").splitlines()[1:]:
        keys, bytes_per_key, worst_since, slowest_us, _ = map(float, line.split())
        worst, slowest = max(worst, worst_since), max(slowest, slowest_us)
        if keys == 1e6:
            table.single("bytes per key at 1,000,000 keys", [bytes_per_key], "B", at_most(64, "B"))
    table.single("most bytes per key, 10⁴ to 10⁷ keys", [worst], "B", at_most(80, "B"))
    table.single("slowest of 10⁷ inserts", [slowest], "us", at_most(1000, "us"))

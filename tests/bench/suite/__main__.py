"""tests/bench/run [--rounds N] [section ...]"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

from suite import (
    article,
    express,
    machine,
    memory,
    node,
    outage,
    python,
    redis_memory,
    redis_rules,
    redis_threads,
    redis_wire,
)
from suite.places import KEPT, RESULTS
from suite.tables import Table

SECTIONS: dict[str, list[Callable[[int], Table | list[Table]]]] = {
    "memory": [memory.run],
    "python": [python.in_process, python.over_redis],
    "node": [node.in_process, node.over_redis],
    "redis": [redis_memory.run, redis_rules.run],
    "wire": [redis_wire.run, redis_wire.tls, redis_wire.cluster, redis_threads.run],
    "outage": [outage.in_threads, outage.in_asyncio, outage.in_node, outage.failover],
    "express": [express.run],
    "article": [article.run],
}

HEAD = """\
# Results of tests/bench

Written by `tests/bench/run`; do not edit.

Machine: {machine}.

Versions: saqiya as in this tree (release build), {versions}.

Method: saqiya and its peer take turns, one process per measurement; the figures are medians over
the rounds. The ratio is the median of the rounds' ratios, with the lowest and the highest. Ratios
within a row can be trusted more than absolute times: both sides met the same machine.
"""


def measure(name: str, rounds: int) -> None:
    tables = []
    for make in SECTIONS[name]:
        before = machine.load_average()
        made = make(rounds)
        after = machine.load_average()
        for table in made if isinstance(made, list) else [made]:
            table.when = time.strftime("%Y-%m-%d %H:%M")
            table.load = f"{rounds} rounds, load average {before:.1f} before, {after:.1f} after"
            tables.append(table.to_json())
            print("\n" + table.markdown(), flush=True)
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{name}.json").write_text(json.dumps(tables, ensure_ascii=False, indent=1))


def write_results() -> None:
    parts = [HEAD.format(machine=machine.describe(), versions=machine.versions())]
    for name in SECTIONS:
        kept = KEPT / f"{name}.json"
        if kept.exists():
            parts += [Table(**table).markdown() for table in json.loads(kept.read_text())]
    RESULTS.write_text("\n".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests/bench/run", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of each comparison (5)")
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    wanted = parser.parse_args()
    unknown = set(wanted.sections) - set(SECTIONS)
    if unknown or wanted.rounds < 1:
        parser.error(f"sections are {', '.join(SECTIONS)}; rounds at least 1")
    for name in wanted.sections or SECTIONS:
        print(f"== {name}", file=sys.stderr, flush=True)
        measure(name, wanted.rounds)
    write_results()


if __name__ == "__main__":
    main()

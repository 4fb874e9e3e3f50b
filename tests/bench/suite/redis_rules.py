"""Policies of several rules over Redis beside one rule."""

from __future__ import annotations

import json

from suite.tables import Table, at_most
from suite.workers import program


def run(rounds: int) -> Table:
    table = Table(
        "Policies of several rules over Redis, C",
        "Time between answers, 64 checks in flight through one queue, 1,000 users, one thread; "
        "beside one token bucket in the same rounds.",
    )
    lines = [json.loads(line) for line in program("redis_rules", str(2 * rounds + 1)).splitlines()]
    one = {line["mostly"]: line["wall"] for line in lines if line["policy"] == "one bucket"}
    for line in lines:
        if line["policy"] != "one bucket":
            what = f"{line['policy']}, mostly {line['mostly']}"
            beside = one[line["mostly"]]
            table.compare(what, [line["wall"]], [beside], "ns", "one bucket", at_most(2))
    return table

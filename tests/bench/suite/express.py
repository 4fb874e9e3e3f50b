"""What a limiter adds to a request of Express 5."""

from __future__ import annotations

import json

from suite.places import BENCH
from suite.tables import NO_GOAL, Table, at_most
from suite.workers import output

SECONDS = 8  # of one process


def run(rounds: int) -> Table:
    table = Table(
        "Express 5, CPU added per request in the process",
        "One process, requests on a socket that discards, blocks of 50 in random order of the "
        "variants; CPU time of the process less that of the same app without a limiter. Of each "
        "variant the block that a tenth of its blocks beat. Both send five fields: three "
        "X-RateLimit ones, RateLimit and RateLimit-Policy (express-rate-limit: `standardHeaders: "
        "'draft-8'`, `legacyHeaders: true`).",
    )
    added: dict[str, list[float]] = {}
    bare: list[float] = []
    for _ in range(rounds):
        found = json.loads(output(["node", str(BENCH / "node" / "express.mjs"), str(SECONDS)]))
        for name in ("saqiya", "express-rate-limit"):
            if len(found[name]["fields"]) != 5:
                raise RuntimeError(f"{name} sends {found[name]['fields']}")
        base = found.pop("bare")["us"]
        bare.append(base)
        for name, entry in found.items():
            added.setdefault(name, []).append(entry["us"] - base)
    peer = "express-rate-limit"
    table.compare("added, 5 fields", added["saqiya"], added[peer], "us", peer, at_most(1 / 3))
    table.compare(
        "added, no fields",
        added["saqiya, no fields"],
        added[f"{peer}, no fields"],
        "us",
        peer,
        NO_GOAL,
    )
    table.single("added by middleware that does nothing", added["nothing"], "us", NO_GOAL)
    table.single("the app itself", bare, "us", NO_GOAL)
    return table

"""The test of the article that started this project."""

from __future__ import annotations

from functools import partial

from suite import redis_memory
from suite.tables import Table, figure
from suite.workers import Result, empty, in_turns, median, python
from support.redis_server import RedisServer

MOST_ROUNDS = 3  # of a quarter of a minute each, twice


def run(rounds: int) -> Table:
    table = Table(
        "The article's own test",
        "100,000 requests from 1,000 users, capacity 10, refill 5/s. The article does not tell "
        "when requests came; here they come at random (Poisson, users drawn evenly, the same seed "
        "for both) over 16.2 s, so that a perfect bucket refuses 14 %. One blocking client in "
        "Python, redis-py for the classic script; its share differs only where it was late. Bytes "
        "per user are those of the table above, with 700,000 users.",
        header=["", "the article says", "its code, measured here", "saqiya, same arrivals"],
    )
    with RedisServer() as redis:

        def worker(who: str) -> Result:
            empty(redis)
            return python("article.py", who, redis.port)

        found = in_turns(
            min(rounds, MOST_ROUNDS), {who: partial(worker, who) for who in ("classic", "saqiya")}
        )
    classic, ours = found["classic"], found["saqiya"]
    weights = redis_memory.last_figures()
    bytes_cells = [figure(weights[side], "B") for side in ("classic", "saqiya")]

    def row(what: str, says: str, name: str, unit: str, scale: float = 1) -> None:
        cells = [figure(median(side[name]) * scale, unit) for side in (classic, ours)]
        table.rows.append([what, says, *cells])

    row("mean", "0.4 ms", "mean_us", "ms", 1e-3)
    row("p99", "1.2 ms", "p99_us", "ms", 1e-3)
    table.rows.append(["bytes per user", "about 70 B", *bytes_cells])
    row("refused", "14 %", "refused", "%", 100)
    row("seconds taken", "", "seconds", "s")
    return table

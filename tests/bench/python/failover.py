"""How long after a failover the new master is used, deadline 100 ms.

failover.py sentinel|cluster

One caller asks every other millisecond while the master of its key is killed.
"""

from __future__ import annotations

import sys
import threading
from time import perf_counter, sleep

from saqiya import Limiter, Store

from common import show
from support.redis_many import Cluster, Sentinels, wait_until
from support.redis_server import RedisServer

DEADLINE = 0.1  # s
USER = "user"
GIVE_UP = 30  # s


def main() -> None:
    (how,) = sys.argv[1:]
    with Sentinels() if how == "sentinel" else Cluster() as servers:
        limiter = Limiter("1000/s", store=Store(servers.url, deadline=DEADLINE))
        while limiter.check(USER).reason is not None:
            sleep(0.01)

        def master() -> RedisServer:
            if isinstance(servers, Sentinels):
                return servers.master
            return servers.master_of(f"{{{USER}}}")

        def is_replaced() -> bool:
            new = master()
            return new is not old and new.cli("ROLE").startswith("master")

        old = master()
        longest = 0.0
        first: list[float] = []
        gone = perf_counter()
        old.kill()

        def ask() -> None:
            nonlocal longest
            while not first and perf_counter() < gone + GIVE_UP:
                begin = perf_counter()
                decided = limiter.check(USER).reason is None
                longest = max(longest, perf_counter() - begin)
                if decided:
                    first.append(begin)
                sleep(0.002)

        caller = threading.Thread(target=ask)
        caller.start()
        wait_until("there is a new master", is_replaced)
        promoted = perf_counter()
        caller.join()
    show(
        {
            "outage_ms": (first[0] - gone) * 1e3,
            # Who waits for the new master asks by redis-cli, and may see it later than saqiya did.
            "return_ms": max(0.0, first[0] - promoted) * 1e3,
            "longest_us": longest * 1e6,
        }
    )


if __name__ == "__main__":
    main()

"""ns of CPU per check in the process, 10,000 keys of 20 bytes, all of them seen before.

in_process.py saqiya|limits allowed|denied

The loop itself is part of the figure: about 10 ns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from time import process_time

from common import show, walk

KEYS = 10_000
PLENTY = 1_000_000_000


def saqiya_check(denied: bool) -> Callable[[str], object]:
    from saqiya import Limiter

    return Limiter("1/h" if denied else f"5/s burst {PLENTY}").check


def limits_check(denied: bool) -> Callable[[str], object]:
    from limits import RateLimitItemPerHour
    from limits.storage import MemoryStorage
    from limits.strategies import FixedWindowRateLimiter

    hit = FixedWindowRateLimiter(MemoryStorage()).hit
    item = RateLimitItemPerHour(1 if denied else PLENTY)
    return lambda key: hit(item, key)


def main() -> None:
    who, regime = sys.argv[1:]
    denied = regime == "denied"
    check = {"saqiya": saqiya_check, "limits": limits_check}[who](denied)
    checks = 2_000_000 if who == "saqiya" else 200_000
    keys = [f"user:{i:015}" for i in range(KEYS)]
    for key in keys:
        check(key)
    wanted = [keys[i] for i in islice(walk(KEYS), checks)]
    refused = sum(not check(key) for key in wanted[:KEYS])
    start = process_time()
    for key in wanted:
        check(key)
    show({"ns": (process_time() - start) / checks * 1e9, "refused": refused / KEYS})


if __name__ == "__main__":
    main()

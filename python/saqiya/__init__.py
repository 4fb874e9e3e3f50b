"""Exact rate limiting, in the process and over Redis.

    from saqiya import Limiter

    limiter = Limiter("5/s burst 20")
    if limiter.check("user:42"):
        ...

Policies are text ("5/s; 1000/day", "sliding-log: 5/15min", "concurrency: 20 ttl 30s") or rules as
numbers (TokenBucket, FixedWindow, SlidingWindow, SlidingLog, Calendar, Concurrency). check_all()
decides several limiters together. AsyncLimiter and saqiya.aio are for asyncio, saqiya.flask for
Flask.

Times and durations are seconds (float), or timedelta where they are taken. Attributes whose names
end in _us are whole microseconds.
"""

from __future__ import annotations

from saqiya import aio
from saqiya._aio import AsyncLimiter
from saqiya._limiter import Item, Limiter, acquire_all, check_all, peek_all, refund_all
from saqiya._policy import (
    Calendar,
    Concurrency,
    FixedWindow,
    Policy,
    Rule,
    SlidingLog,
    SlidingWindow,
    TokenBucket,
)
from saqiya._saqiya import Decision, SaqiyaError, __version__
from saqiya._store import ManualClock, Store, StoreStats

__all__ = [
    "AsyncLimiter",
    "Calendar",
    "Concurrency",
    "Decision",
    "FixedWindow",
    "Item",
    "Limiter",
    "ManualClock",
    "Policy",
    "Rule",
    "SaqiyaError",
    "SlidingLog",
    "SlidingWindow",
    "Store",
    "StoreStats",
    "TokenBucket",
    "__version__",
    "acquire_all",
    "aio",
    "check_all",
    "peek_all",
    "refund_all",
]

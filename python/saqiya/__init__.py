"""Exact rate limiting, in the process and over Redis.

    from saqiya import Limiter

    limiter = Limiter("5/s burst 20")
    if limiter.check("user:42"):
        ...

Times and durations are seconds (float), or timedelta where they are taken. Attributes whose names
end in _us are whole microseconds.
"""

from __future__ import annotations

from saqiya._aio import AsyncLimiter
from saqiya._limiter import Limiter
from saqiya._policy import Policy, TokenBucket
from saqiya._saqiya import Decision, SaqiyaError, __version__
from saqiya._store import ManualClock, Store, StoreStats

__all__ = [
    "AsyncLimiter",
    "Decision",
    "Limiter",
    "ManualClock",
    "Policy",
    "SaqiyaError",
    "Store",
    "StoreStats",
    "TokenBucket",
    "__version__",
]

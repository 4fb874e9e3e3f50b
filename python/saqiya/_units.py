"""Numbers from users, turned into the whole numbers of the native layer, once."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Union

from saqiya import _saqiya
from saqiya._saqiya import SaqiyaError

Seconds = Union[float, timedelta]
"""A time or duration: seconds (int or float) or a timedelta."""

MAX_WAIT_US = 2**50
"""The longest wait, 35.7 years; longer ones count as this one."""

_MICROSECOND = timedelta(microseconds=1)


def error(code: str, message: str) -> SaqiyaError:
    """A SaqiyaError with its code, to be raised by the caller."""
    made = SaqiyaError(message)
    made.code = code
    return made


def micros(value: Seconds, what: str) -> int:
    """Microseconds, rounded to the nearest."""
    if isinstance(value, timedelta):
        return value // _MICROSECOND
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be seconds or a timedelta, not {type(value).__name__}")
    if isinstance(value, int):
        us = value * 1_000_000
    elif math.isfinite(value):
        us = round(value * 1e6)
    else:
        raise error("invalid", f"{what} must be finite, not {value}")
    if not -(2**63) <= us < 2**63:
        raise error("invalid", f"{what} is out of range: {value}")
    return us


def exact_micros(value: Seconds, what: str) -> int:
    """Microseconds; an error when the value is not a whole number of them.

    A float counts as whole when it is the nearest float to a whole number of microseconds: 600.001
    is 600,001,000, and a third of a second is an error.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise error("bad_policy", f"{what} must be finite, not {value}")
    us = micros(value, what)
    if isinstance(value, float) and us / 1e6 != value:
        raise error("bad_policy", f"{what} must be a whole number of microseconds: {value!r}")
    return us


def whole(value: int, what: str) -> int:
    """An int (a bool is none) that fits the native layer."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if not isinstance(value, int) or not 0 <= value <= _saqiya.MAX_COST:
        raise error("bad_policy", f"{what} must be a whole number from 0 to 2**53 - 1: {value!r}")
    return value


def wait_micros(timeout: Seconds | None) -> int:
    """How long a caller is willing to wait; None: as long as it takes."""
    if timeout is None or timeout == math.inf:
        return MAX_WAIT_US
    us = micros(timeout, "timeout")
    if us < 0:
        raise error("invalid", f"timeout must not be negative: {timeout!r}")
    return min(us, MAX_WAIT_US)


def deadline_micros(deadline: Seconds | None) -> int:
    """A deadline for the native layer, where 0 means the default."""
    if deadline is None:
        return 0
    us = micros(deadline, "deadline")
    if not 1_000 <= us <= 3_600_000_000:
        raise error("invalid", f"deadline must be from 0.001 to 3600 seconds: {deadline!r}")
    return us

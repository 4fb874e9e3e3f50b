"""What a limiter does while Redis does not answer, as the native layer takes it."""

from __future__ import annotations

import math
from typing import Any, Literal, Union

from saqiya import _saqiya
from saqiya._policy import Policy, native_policy
from saqiya._saqiya import SaqiyaError
from saqiya._units import error

Failure = Literal["local", "open", "closed", "error"]
"""A failure policy: see Limiter."""

_NUMBERS = {"local": 1, "open": 2, "closed": 3, "error": 4}  # in the C API
_WHOLE = 1_000_000  # millionths


def failure_number(failure: Failure) -> int:
    number = _NUMBERS.get(failure) if isinstance(failure, str) else None
    if number is None:
        names = '"local", "open", "closed" or "error"'
        if isinstance(failure, str):
            raise error("invalid", f"failure must be {names}, not {failure!r}")
        raise TypeError(f"failure must be {names}, not {type(failure).__name__}")
    return number


def share_millionths(share: float | None) -> int:
    """The most millionths that are not more than the share; 0: it was not given."""
    if share is None:
        return 0
    if isinstance(share, bool) or not isinstance(share, (int, float)):
        raise TypeError(f"share must be a number, not {type(share).__name__}")
    if not (math.isfinite(share) and 1 / _WHOLE <= share <= 1):
        raise error("invalid", f"share must be from 0.000001 to 1, not {share!r}")
    nearest = round(share * _WHOLE)
    return nearest - 1 if nearest / _WHOLE > share else nearest


def fallback_text(fallback: Policy | None) -> str | None:
    """The canonical text of a policy, which the native layer takes as a fallback."""
    if fallback is None:
        return None
    try:
        return _saqiya.Limiter(_saqiya.Store("memory://"), native_policy(fallback)).policy
    except SaqiyaError as wrong:
        made = error(wrong.code, f"fallback: {wrong}")
        made.position = wrong.position
        raise made from None


FailureArguments = tuple[int, int, Union[str, None], bool]


def failure_arguments(
    failure: Failure, share: float | None, fallback: Policy | None, deny_cache: Any
) -> FailureArguments:
    if not isinstance(deny_cache, bool):
        raise TypeError(f"deny_cache must be a bool, not {type(deny_cache).__name__}")
    return (
        failure_number(failure),
        share_millionths(share),
        fallback_text(fallback),
        deny_cache,
    )

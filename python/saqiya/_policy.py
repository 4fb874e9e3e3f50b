"""Policies as programs write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from saqiya._units import Seconds, exact_micros, whole


@dataclass(frozen=True)
class TokenBucket:
    """`tokens` more every `period`, at most `capacity`: TokenBucket(20, 5, 1.0) is "5/s burst 20".

    capacity: 0 ... 2**53 - 1; 0 refuses everything.
    tokens: 1 ... 2**32 - 1 after tokens and period are divided by what they have in common.
    period: seconds or a timedelta, a whole number of microseconds up to 35.7 years.
    Limits outside these ranges raise SaqiyaError, here or when the limiter is made.
    """

    capacity: int
    tokens: int
    period: Seconds

    def __post_init__(self) -> None:
        self.numbers()

    def numbers(self) -> tuple[int, int, int]:
        """(capacity, tokens, period in microseconds)."""
        return (
            whole(self.capacity, "capacity"),
            whole(self.tokens, "tokens"),
            exact_micros(self.period, "period"),
        )


Policy = Union[str, TokenBucket]
"""Text such as "5/s burst 20", or the same as numbers."""


def native_policy(policy: Policy) -> str | tuple[int, int, int]:
    if isinstance(policy, TokenBucket):
        return policy.numbers()
    if isinstance(policy, str):
        return policy
    raise TypeError(f"policy must be str or TokenBucket, not {type(policy).__name__}")

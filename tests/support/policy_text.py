"""The reference reader of policy text: one token bucket rule, or `unlimited`. Offsets in bytes.

[token-bucket: | leaky-bucket:] COUNT ("/" | "per") [NUMBER] UNIT ["burst" COUNT]
"""

from __future__ import annotations

import re
from fractions import Fraction

from .model import MAX_CAPACITY, RangeError, Rule

UNITS = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "min": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}  # from large to small
SPELLINGS = {
    "w": "w week weeks",
    "d": "d day days",
    "h": "h hr hour hours",
    "min": "m min minute minutes",
    "s": "s sec second seconds",
    "ms": "ms",
    "us": "us",
}
UNIT_OF = {word: UNITS[unit] for unit, words in SPELLINGS.items() for word in words.split()}
LATER = ("fixed-window", "sliding-window", "sliding-log", "calendar", "concurrency")

COUNT = re.compile(rb"[0-9]+(_[0-9]+)*")
DECIMALS = re.compile(rb"\.[0-9]+")
WORD = re.compile(rb"[A-Za-z-]+")
SPACE = re.compile(rb"[ \t]*")


class PolicyTextError(ValueError):
    """`offset` is the first byte of what could not be read; the length of the text at its end."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset


class _Reader:
    def __init__(self, text: bytes) -> None:
        self.text, self.at = text, 0
        self.take(SPACE)

    def take(self, pattern: re.Pattern[bytes]) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group().decode()

    def token(self, pattern: re.Pattern[bytes]) -> str | None:
        """A token and the blanks after it."""
        found = self.take(pattern)
        if found is not None:
            self.take(SPACE)
        return found

    def word(self) -> str:
        """The next word in lower case, not taken; empty if there is none."""
        found = WORD.match(self.text, self.at)
        return found.group().decode().lower() if found else ""

    def skip_word(self, word: str) -> bool:
        return self.word() == word and self.token(WORD) is not None

    def skip_byte(self, byte: bytes) -> bool:
        return self.token(re.compile(re.escape(byte))) is not None

    def count(self) -> int:
        start, digits = self.at, self.token(COUNT)
        if digits is None:
            raise PolicyTextError(start, "expected a count")
        value = int(digits.replace("_", ""))
        if value > MAX_CAPACITY:
            raise PolicyTextError(start, "a count must be at most 2^53 - 1")
        return value

    def period(self) -> int:
        start, multiple = self.at, Fraction(1)
        whole = self.take(COUNT)
        if whole is not None:
            decimals = self.take(DECIMALS) or ""
            if not decimals and self.text[self.at : self.at + 1] == b".":
                raise PolicyTextError(self.at + 1, "expected digits after the point")
            multiple = Fraction(whole.replace("_", "") + decimals)
        self.take(SPACE)
        unit = self.word()
        if unit.rstrip("s") in ("month", "year"):
            raise PolicyTextError(self.at, "months and years need `calendar:`, or say 30d")
        if unit not in UNIT_OF:
            raise PolicyTextError(self.at, "expected a unit")
        self.token(WORD)
        period = multiple * UNIT_OF[unit]
        if period.denominator != 1:
            raise PolicyTextError(start, "a period must be a whole number of microseconds")
        return int(period)

    def end(self) -> None:
        if self.at == len(self.text):
            return
        if self.text[self.at : self.at + 1] in (b";", b",", b"|") or self.word() == "queue":
            raise PolicyTextError(self.at, "not offered yet")
        raise PolicyTextError(self.at, "expected the end of the policy")


def parse(text: str) -> Rule | None:
    """The rule, or None for `unlimited`; PolicyTextError otherwise."""
    reader = _Reader(text.encode())
    if reader.skip_word("unlimited"):
        reader.end()
        return None
    algorithm_at, algorithm = reader.at, reader.word()
    if algorithm in LATER:
        raise PolicyTextError(algorithm_at, "this algorithm is not offered yet")
    if reader.skip_word("token-bucket") or reader.skip_word("leaky-bucket"):
        if not reader.skip_byte(b":"):
            raise PolicyTextError(reader.at, "expected ':'")
    elif algorithm:
        raise PolicyTextError(algorithm_at, "expected a count or an algorithm")
    count_at = reader.at
    tokens = capacity = reader.count()
    if not reader.skip_byte(b"/") and not reader.skip_word("per"):
        raise PolicyTextError(reader.at, "expected '/' or 'per'")
    period_at = reader.at
    period = reader.period()
    burst_at = count_at
    if reader.skip_word("burst"):
        burst_at = reader.at
        capacity = reader.count()
    reader.end()
    try:
        return Rule.make(capacity, tokens, period)
    except RangeError as error:
        at = {"tokens": count_at, "period": period_at}.get(error.limit, burst_at)
        raise PolicyTextError(at, str(error)) from error


def canonical(rule: Rule) -> str:
    """The shorter of a whole count per s, min, h, d, w and the reduced numbers; then the burst."""
    unit, micros = next((u, m) for u, m in UNITS.items() if rule.period_us % m == 0)
    multiple = rule.period_us // micros
    rate = f"{rule.tokens}/{multiple if multiple > 1 else ''}{unit}"
    for unit in ("s", "min", "h", "d", "w"):
        count = Fraction(rule.tokens * UNITS[unit], rule.period_us)
        if count.denominator == 1 and count <= MAX_CAPACITY:
            rate = min(f"{count}/{unit}", rate, key=len)
            break
    return f"{rate} burst {rule.capacity}"

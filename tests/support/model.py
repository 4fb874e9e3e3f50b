"""The reference model: token buckets in exact rationals, slow and meant to be obviously right.

It is written from the rules of the algorithm, not from the C++ or Lua code, so that a difference
between the three is a finding. Times are integer microseconds; instants inside are `Fraction`s and
are never rounded, except where one is read by a rule with another denominator (`_seen_by_rule`).

    limiter = TokenBucket(Rule.make(capacity=10, tokens=3, period_us=1_000_000))
    decision, ticket = limiter.check("user", cost=2, now=0, max_wait=0)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, gcd

MAX_TOKENS = 2**32 - 1  # N, after reduction
MAX_PERIOD_US = 2**50  # P, after reduction
MAX_CAPACITY = 2**53 - 1  # C; also the largest cost
MAX_SPAN_US = 2**50  # C * P / N
MAX_WAIT_US = 2**50  # a longer wait is taken as this one
MAX_NOW_US = 2**52

ALLOWED, DENIED, NEVER = "allowed", "denied", "never"


class RangeError(ValueError):
    """A rule outside the ranges; `limit` names which: tokens, period, capacity or span."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit


@dataclass(frozen=True)
class Rule:
    """Capacity C, refilled by `tokens` N each `period_us` P; N and P without a common divisor."""

    capacity: int
    tokens: int
    period_us: int

    @staticmethod
    def make(capacity: int, tokens: int, period_us: int) -> Rule:
        """Reduces, and checks the ranges. Tokens and capacity 0: everything is refused."""
        if not 0 <= capacity <= MAX_CAPACITY:
            raise RangeError("capacity", f"capacity must be 0 to {MAX_CAPACITY}")
        if period_us < 1:
            raise RangeError("period", "period must be at least 1 microsecond")
        if tokens < 0 or (tokens == 0 and capacity > 0):
            raise RangeError("tokens", "tokens must be at least 1, or capacity and tokens both 0")
        divisor = gcd(tokens, period_us) if tokens > 0 else 1
        tokens, period_us = tokens // divisor, period_us // divisor
        if tokens > MAX_TOKENS:
            raise RangeError("tokens", f"tokens must be at most {MAX_TOKENS} after reduction")
        if period_us > MAX_PERIOD_US:
            raise RangeError("period", f"period must be at most {MAX_PERIOD_US} us after reduction")
        rule = Rule(capacity, tokens, period_us)
        if rule.span > MAX_SPAN_US:
            raise RangeError("span", f"capacity * period / tokens must be at most {MAX_SPAN_US} us")
        return rule

    @cached_property
    def span(self) -> Fraction:
        """How long an empty bucket takes to fill, in microseconds."""
        return self.time_of(self.capacity)

    def time_of(self, tokens: int) -> Fraction:
        """How long the refill of that many tokens takes, in microseconds."""
        return Fraction(tokens * self.period_us, self.tokens) if self.tokens else Fraction(0)


@dataclass(frozen=True)
class Decision:
    outcome: str
    limit: int
    remaining: int
    retry_after_us: int | None  # None: no wait helps
    reset_after_us: int
    delay_us: int = 0


@dataclass(frozen=True)
class Instant:
    """A stored instant and the N of the rule that wrote it: q + r/N microseconds."""

    at: Fraction
    tokens: int

    @property
    def q(self) -> int:
        return floor(self.at)

    @property
    def r(self) -> int:
        return int((self.at - self.q) * self.tokens)


@dataclass
class Ticket:
    """What a charge leaves for a refund. `reserved`: the caller was told to wait."""

    instant: Instant
    cost: int
    reserved: bool
    spent: bool = False


@dataclass
class TokenBucket:
    """One limiter and the buckets of all its keys. `rule` may be replaced; the instants stay."""

    rule: Rule
    stored: dict[str, Instant] = field(default_factory=dict)

    def check(
        self, key: str, cost: int, now: int, max_wait: int = 0
    ) -> tuple[Decision, Ticket | None]:
        """Decide and charge. The ticket is there only when something was charged."""
        decision, new = self._decide(key, cost, now, max_wait)
        if decision.outcome != ALLOWED or cost == 0:
            return decision, None
        self.stored[key] = Instant(new, self.rule.tokens)
        remaining, reset_after = self._describe(new, now)
        charged = Decision(
            ALLOWED, self.rule.capacity, remaining, 0, reset_after, decision.delay_us
        )
        return charged, Ticket(self.stored[key], cost, reserved=decision.delay_us > 0)

    def peek(self, key: str, cost: int, now: int, max_wait: int = 0) -> Decision:
        """What check would say; `remaining` and `reset_after_us` are the untouched bucket's."""
        return self._decide(key, cost, now, max_wait)[0]

    def refund(self, key: str, ticket: Ticket, now: int) -> Decision:
        """Give back what a charge took, as far as time has not given it back already."""
        first, ticket.spent = not ticket.spent, True
        state = self._state(key)
        charged_until = self._seen_by_rule(ticket.instant, down=not ticket.reserved)
        give = min(self.rule.time_of(ticket.cost), charged_until - now)
        given = (
            first
            and state is not None
            and state > now
            and self.rule.capacity > 0
            and give > 0
            and (not ticket.reserved or state == charged_until)
        )
        if given and state is not None:
            state = max(Fraction(now), state - give)
            self.stored[key] = Instant(state, self.rule.tokens)
        outcome = ALLOWED if given else DENIED
        return Decision(outcome, self.rule.capacity, *self._spread(state, now))

    def reset(self, key: str, now: int) -> Decision:
        """Forget the key: its bucket is full."""
        self.stored.pop(key, None)
        return Decision(ALLOWED, self.rule.capacity, *self._spread(None, now))

    def _decide(self, key: str, cost: int, now: int, max_wait: int) -> tuple[Decision, Fraction]:
        """The decision as of the untouched bucket, and the instant to store if it is charged."""
        rule, state = self.rule, self._state(key)
        full_at = max(state, Fraction(now)) if state is not None else Fraction(now)
        remaining, reset_after = self._describe(full_at, now)

        def decision(outcome: str, retry_after: int | None, delay: int = 0) -> Decision:
            return Decision(outcome, rule.capacity, remaining, retry_after, reset_after, delay)

        if cost > rule.capacity or rule.capacity == 0:
            return decision(NEVER, None), full_at
        if cost == 0:
            return decision(ALLOWED, 0), full_at
        new = full_at + rule.time_of(cost)
        early = new - rule.span - now  # how long before the tokens are there
        over = early - min(max_wait, MAX_WAIT_US)
        if over > 0:
            return decision(DENIED, ceil(over)), full_at
        return decision(ALLOWED, 0, max(0, ceil(early))), new

    def _state(self, key: str) -> Fraction | None:
        instant = self.stored.get(key)
        return None if instant is None else self._seen_by_rule(instant)

    def _seen_by_rule(self, instant: Instant, down: bool = False) -> Fraction:
        """A fraction of a microsecond in another denominator is dropped; a whole instant stays.

        States are rounded up: later by under a microsecond, never earlier. For the same reason the
        ticket of a plain charge is rounded down: it gives less, never more. A reservation's is
        rounded as the state is, since the two are compared.
        """
        if instant.r > 0 and instant.tokens != self.rule.tokens:
            return Fraction(instant.q if down else instant.q + 1)
        return instant.at

    def _describe(self, full_at: Fraction, now: int) -> tuple[int, int]:
        """`remaining` and `reset_after_us` of a bucket that is full at that instant."""
        missing = max(Fraction(0), full_at - now)
        used = missing * self.rule.tokens / self.rule.period_us
        return max(0, self.rule.capacity - ceil(used)), ceil(missing)

    def _spread(self, state: Fraction | None, now: int) -> tuple[int, int, int]:
        """remaining, retry_after_us, reset_after_us for the answers that are no check."""
        remaining, reset_after = self._describe(Fraction(now) if state is None else state, now)
        return remaining, 0, reset_after

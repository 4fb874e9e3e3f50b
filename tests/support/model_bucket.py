"""The reference model of token buckets once more, as one algorithm among others: with a queue of
its own (a leaky bucket) and charges that can be settled. Its arithmetic is that of model.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from .model import MAX_SPAN_US, MAX_WAIT_US, Instant, Rule
from .model_rules import Charge, Verdict


@dataclass(frozen=True)
class Bucket:
    rule: Rule
    written_period: int  # before the reduction: rules are told apart by it
    queue: int | None = None  # so many may wait for their turn; None: there is no queue
    name: str = "token-bucket"

    @staticmethod
    def make(capacity: int, tokens: int, period_us: int, queue: int | None = None) -> Bucket:
        made = Bucket(Rule.make(capacity, tokens, period_us), period_us, queue)
        assert made.own_wait <= MAX_SPAN_US
        return made

    @property
    def limit(self) -> int:
        return self.rule.capacity

    @property
    def identity(self) -> str:
        return f"{self.name} {self.written_period}"

    @property
    def own_wait(self) -> Fraction:
        return self.rule.time_of(self.queue or 0)

    def wait(self, max_wait: int) -> Fraction:
        """How long a caller may be told to wait."""
        if max_wait < 0:
            return Fraction(0)
        if max_wait == 0:
            return self.own_wait
        wait = Fraction(min(max_wait, MAX_WAIT_US))
        return wait if self.queue is None else min(wait, self.own_wait)

    def judge(self, state: Instant | None, cost: int, now: int, max_wait: int) -> Verdict:
        early = self._full_at(state, now) + self.rule.time_of(cost) - self.rule.span - now
        over = early - self.wait(max_wait)
        return Verdict(ceil(over)) if over > 0 else Verdict(delay_us=max(0, ceil(early)))

    def charge(
        self, state: Instant | None, cost: int, now: int, ticket_id: int
    ) -> tuple[Instant, Charge]:
        at = self._full_at(state, now) + self.rule.time_of(cost)
        instant = Instant(at, self.rule.tokens)
        return instant, Charge(self.name, instant, cost, reserved=at - self.rule.span > now)

    def describe(self, state: Instant | None, now: int) -> tuple[int, int]:
        missing = self._full_at(state, now) - now
        used = missing * self.rule.tokens / self.rule.period_us
        return max(0, self.limit - ceil(used)), ceil(missing)

    def adjust(
        self, state: Instant | None, charge: Charge, actual: int, now: int
    ) -> tuple[Instant] | None:
        if state is None or self.limit == 0:
            return None
        full_at = self._seen(state)
        if full_at <= now:
            return None
        until = self._seen(charge.mark, down=not charge.reserved)
        more = self.rule.time_of(actual - charge.cost)
        if more < 0:
            give = min(-more, until - now)  # what time has not given back already
            if give <= 0 or (charge.reserved and full_at != until):
                return None
            return (Instant(max(Fraction(now), full_at - give), self.rule.tokens),)
        add = min(more, until + more - now)  # what time would not have given back by now
        if add <= 0:
            return None
        most = max(full_at, Fraction(now + MAX_SPAN_US))
        return (Instant(min(full_at + add, most), self.rule.tokens),)

    def renew(self, state: Instant | None, charge: Charge, now: int) -> None:
        return None

    def trimmed(self, state: Instant | None, now: int) -> Instant | None:
        return None if state is None or self._seen(state) <= now else state

    def _full_at(self, state: Instant | None, now: int) -> Fraction:
        return Fraction(now) if state is None else max(self._seen(state), Fraction(now))

    def _seen(self, instant: Instant, down: bool = False) -> Fraction:
        """As TokenBucket._seen_by_rule: a fraction in another denominator is dropped."""
        if instant.r > 0 and instant.tokens != self.rule.tokens:
            return Fraction(instant.q if down else instant.q + 1)
        return instant.at

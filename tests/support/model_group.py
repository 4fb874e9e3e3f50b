"""Several rules and several keys, decided all or nothing; refunds, settlements, renewals.

store = Store()
limiter = Limiter("login", [make(rule), ...])
answer, ticket = store.check([Item(limiter, "user", 1)], now)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Callable

from .model import ALLOWED, DENIED, NEVER, Instant
from .model_bucket import Bucket
from .model_rules import MAX_COUNT, Algorithm, Charge, State

StorageKey = tuple[str, str, str]  # limiter's name, key, which rule


@dataclass(frozen=True)
class Limiter:
    name: str
    rules: tuple[Algorithm, ...]  # none: unlimited

    def storage_key(self, key: str, rule: Algorithm) -> StorageKey:
        """A policy's only rule is told from others by its algorithm alone, so that its period can
        be changed and what was used stays; of several each has its period in its name."""
        return self.name, key, rule.identity if len(self.rules) > 1 else rule.name


@dataclass(frozen=True)
class Item:
    limiter: Limiter
    key: str
    cost: int = 1


@dataclass(frozen=True)
class Answer:
    outcome: str
    limit: int
    remaining: int
    retry_after_us: int | None  # None: no wait helps
    reset_after_us: int
    delay_us: int = 0
    rule: int = 0
    item: int = 0
    each: tuple[Answer, ...] = ()  # one for each rule of each item; one for an unlimited item


UNLIMITED = Answer(ALLOWED, MAX_COUNT, MAX_COUNT, 0, 0)


@dataclass
class Ticket:
    """The charges of a check, by item and rule. None: nothing was charged there."""

    charges: list[list[Charge | None]]
    spent: set[tuple[int, int]] = field(default_factory=set)


@dataclass(frozen=True)
class _Part:
    item: int
    rule: int
    algorithm: Algorithm
    storage_key: StorageKey
    cost: int


class Store:
    """The states of all keys. A store may forget what is dead, and each does so in its own time;
    `forgets` tells when this one does: never ("nothing"), before each operation ("dead"), or when
    a request finds it dead by its own rule ("touched")."""

    def __init__(self, forgets: str = "nothing") -> None:
        self.states: dict[StorageKey, State] = {}
        self._forgets = forgets
        self._rules: dict[StorageKey, Algorithm] = {}  # the rule that looked at it last
        self._ids = 0

    # -- Requests -------------------------------------------------------------------------------

    def check(self, items: list[Item], now: int, max_wait: int = 0) -> tuple[Answer, Ticket]:
        parts = self._parts(items)
        self._drop(parts, now)
        judged = self._judge(parts, now, max_wait)
        ticket = Ticket([[None] * max(1, len(item.limiter.rules)) for item in items])
        refused = any(answer.outcome != ALLOWED for answer in judged)
        if not refused:
            self._charge(parts, now, ticket)
            judged = [self._after(p, a, now) for p, a in zip(parts, judged, strict=True)]
        return self._combine(items, parts, judged), ticket

    def peek(self, items: list[Item], now: int, max_wait: int = 0) -> Answer:
        parts = self._parts(items)
        self._drop(parts, now)
        return self._combine(items, parts, self._judge(parts, now, max_wait))

    def adjust(
        self,
        items: list[Item],
        ticket: Ticket,
        actual: int,
        now: int,
        at: int | None = None,
        settles: bool = False,
    ) -> Answer:
        """Refund (actual = 0) and settle, each rule by its own charge. `at`: the item alone. Under
        several rules a settlement leaves leases alone."""

        def change(part: _Part, charge: Charge, state: State) -> tuple[State] | None:
            if actual == charge.cost:
                return (state,)  # nothing to change, so nothing is looked at either
            return part.algorithm.adjust(state, charge, actual, now)

        return self._change(items, ticket, now, at, change, spend=True, settles=settles)

    def renew(self, items: list[Item], ticket: Ticket, now: int, at: int | None = None) -> Answer:
        def change(part: _Part, charge: Charge, state: State) -> tuple[State] | None:
            return part.algorithm.renew(state, charge, now)

        return self._change(items, ticket, now, at, change, spend=False)

    def reset(self, item: Item, now: int) -> Answer:
        parts = self._parts([item])
        for part in parts:
            self.states.pop(part.storage_key, None)
        return self._least(parts, ALLOWED, now)

    # -- Their parts ----------------------------------------------------------------------------

    def _parts(self, items: list[Item]) -> list[_Part]:
        return [
            _Part(i, r, rule, item.limiter.storage_key(item.key, rule), item.cost)
            for i, item in enumerate(items)
            for r, rule in enumerate(item.limiter.rules)
        ]

    def _judge(self, parts: list[_Part], now: int, max_wait: int) -> list[Answer]:
        """What each part says alone, uncharged. Parts of one state are asked for their sum."""
        if max_wait > 0 and any(part.algorithm.name != "token-bucket" for part in parts):
            max_wait = 0
        answers = []
        for part in parts:
            rule, state = part.algorithm, self.states.get(part.storage_key)
            cost = sum(p.cost for p in parts if p.storage_key == part.storage_key)
            remaining, reset_after = rule.describe(state, now)

            def answer(
                outcome: str,
                retry: int | None = 0,
                delay: int = 0,
                part: _Part = part,
                remaining: int = remaining,
                reset_after: int = reset_after,
            ) -> Answer:
                limit = part.algorithm.limit
                return Answer(
                    outcome, limit, remaining, retry, reset_after, delay, part.rule, part.item
                )

            if rule.limit == 0 or cost > rule.limit:
                answers.append(answer(NEVER, None))
            elif cost == 0:
                answers.append(answer(ALLOWED))
            else:
                verdict = rule.judge(state, cost, now, max_wait)
                outcome = DENIED if verdict.retry_after_us > 0 else ALLOWED
                answers.append(answer(outcome, verdict.retry_after_us, verdict.delay_us))
        return answers

    def _charge(self, parts: list[_Part], now: int, ticket: Ticket) -> None:
        """Parts of one state are one charge, of which each has the ticket of its own cost."""
        made: dict[StorageKey, Charge] = {}
        spent: dict[StorageKey, int] = {}
        for part in parts:
            cost = sum(p.cost for p in parts if p.storage_key == part.storage_key)
            if cost > 0 and part.storage_key not in made:
                self._ids += 1
                state = self.states.get(part.storage_key)
                state, charge = part.algorithm.charge(state, cost, now, self._ids)
                self._write(part, state)
                made[part.storage_key] = charge
            if part.cost > 0:
                charge = made[part.storage_key]
                before = spent.get(part.storage_key, 0)
                spent[part.storage_key] = before + part.cost
                if isinstance(part.algorithm, Bucket) and before > 0:
                    # The first item's part is the last to come back, and so on.
                    rule = part.algorithm.rule
                    mark = Instant(charge.mark.at - rule.time_of(before), rule.tokens)
                    charge = replace(charge, mark=mark)
                ticket.charges[part.item][part.rule] = replace(charge, cost=part.cost)

    def _after(self, part: _Part, answer: Answer, now: int) -> Answer:
        remaining, reset_after = part.algorithm.describe(self.states.get(part.storage_key), now)
        changed = {"remaining": remaining, "reset_after_us": reset_after}
        return Answer(**{**answer.__dict__, **changed})

    def _combine(self, items: list[Item], parts: list[_Part], judged: list[Answer]) -> Answer:
        by_place = {(p.item, p.rule): a for p, a in zip(parts, judged, strict=True)}
        each = tuple(
            by_place[i, r] if item.limiter.rules else Answer(**{**UNLIMITED.__dict__, "item": i})
            for i, item in enumerate(items)
            for r in range(max(1, len(item.limiter.rules)))
        )
        if not judged:
            return Answer(**{**UNLIMITED.__dict__, "each": each})
        never = [a for a in judged if a.outcome == NEVER]
        denied = [a for a in judged if a.outcome == DENIED]
        if never:
            bound, retry = never[0], None
        elif denied:
            bound = max(denied, key=lambda a: a.retry_after_us or 0)  # the first of equals
            retry = bound.retry_after_us
        else:
            bound, retry = min(judged, key=lambda a: Fraction(a.remaining, a.limit)), 0
        delay = max(a.delay_us for a in judged) if retry == 0 else 0
        told = {"retry_after_us": retry, "delay_us": delay, "each": each}
        return Answer(**{**bound.__dict__, **told})

    def _change(
        self,
        items: list[Item],
        ticket: Ticket,
        now: int,
        at: int | None,
        change: Callable[[_Part, Charge, State], tuple[State] | None],
        spend: bool,
        settles: bool = False,
    ) -> Answer:
        parts = [part for part in self._parts(items) if at is None or part.item == at]
        self._drop(parts, now)
        outcome = DENIED
        for part in parts:
            place = part.item, part.rule
            charges = ticket.charges[part.item]
            charge = charges[part.rule] if part.rule < len(charges) else None
            if charge is None or place in ticket.spent:
                continue
            several = len(items[part.item].limiter.rules) > 1
            if settles and several and charge.algorithm == "concurrency":
                continue
            if spend:
                ticket.spent.add(place)
            if charge.algorithm != part.algorithm.name:
                continue
            changed = change(part, charge, self.states.get(part.storage_key))
            if changed is not None:
                outcome = ALLOWED
                if changed[0] is not self.states.get(part.storage_key):
                    self._write(part, changed[0])
        return self._least(parts, outcome, now)

    def _least(self, parts: list[_Part], outcome: str, now: int) -> Answer:
        """The state as it is now, of the rule with the least remaining share."""
        answers = []
        for part in parts:
            remaining, reset_after = part.algorithm.describe(self.states.get(part.storage_key), now)
            limit = part.algorithm.limit
            answers.append(
                Answer(outcome, limit, remaining, 0, reset_after, 0, part.rule, part.item)
            )
        return min(
            answers, key=lambda a: Fraction(a.remaining, a.limit) if a.limit else Fraction(1)
        )

    def _write(self, part: _Part, state: State) -> None:
        self._rules[part.storage_key] = part.algorithm
        if state is None:
            self.states.pop(part.storage_key, None)
        else:
            self.states[part.storage_key] = state

    # -- Death ----------------------------------------------------------------------------------

    def anything_dead(self, now: int) -> bool:
        """Whether something stored would be as good as absent at that instant."""
        return any(
            self._rules[key].trimmed(state, now) is None for key, state in self.states.items()
        )

    def _drop(self, parts: list[_Part], now: int) -> None:
        looks: list[tuple[StorageKey, Algorithm]] = []
        if self._forgets == "dead":
            looks = [(key, self._rules[key]) for key in self.states]
        elif self._forgets == "touched":
            looks = [(part.storage_key, part.algorithm) for part in parts]
        for key, rule in looks:
            if key in self.states and rule.trimmed(self.states[key], now) is None:
                del self.states[key]

    # -- Going back one step ---------------------------------------------------------------------

    def memory(self) -> Any:
        return dict(self.states), dict(self._rules), self._ids

    def recall(self, memory: Any) -> None:
        states, rules, self._ids = memory
        self.states, self._rules = dict(states), dict(rules)

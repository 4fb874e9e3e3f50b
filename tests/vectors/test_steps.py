"""The models of all algorithms against the vectors, through the player every Python runner uses."""

from __future__ import annotations

from typing import Any

import pytest

from support import model_stream
from support.model_group import Answer, Item, Limiter, Store, Ticket
from support.model_rules import make
from support.model_stream import RULES
from support.vectors import OUTCOMES, Asked, Trace, load, read, run_steps

FILES = (
    "leaky_bucket.json",
    "fixed_window.json",
    "sliding_window.json",
    "sliding_log.json",
    "calendar.json",
    "concurrency.json",
    "groups.json",
    "settle.json",
    "changed_limits.json",
)
ALGORITHMS = FILES[:7]


class Part:
    """The ticket of one item of a check_all: that of the whole, and which item."""

    def __init__(self, ticket: Ticket, items: list[Item], at: int) -> None:
        self.ticket, self.items, self.at = ticket, items, at


class ModelDriver:
    """The models as a thing under test."""

    def __init__(self, forgets: str = "nothing") -> None:
        self._store = Store(forgets)
        self._limiters: dict[int, Limiter] = {}
        self._now = 0

    def set_now(self, now_us: int) -> None:
        self._now = now_us

    def set_policy(self, limiter: int, policy: dict[str, Any]) -> None:
        rules = tuple(make(rule) for rule in policy["rules"])
        self._limiters[limiter] = Limiter(str(limiter), rules)

    def items(self, asked: list[Asked]) -> list[Item]:
        return [Item(self._limiters[limiter], key, cost) for limiter, key, cost in asked]

    def check(self, limiter: int, key: str, cost: int, max_wait_us: int) -> tuple[Answer, Part]:
        answer, parts = self.check_all([(limiter, key, cost)], max_wait_us)
        return answer, parts[0]

    def check_all(self, items: list[Asked], max_wait_us: int) -> tuple[Answer, list[Part]]:
        asked = self.items(items)
        answer, ticket = self._store.check(asked, self._now, max_wait_us)
        return answer, [Part(ticket, asked, at) for at in range(len(asked))]

    def peek(self, limiter: int, key: str, cost: int) -> Answer:
        return self.peek_all([(limiter, key, cost)])

    def peek_all(self, items: list[Asked]) -> Answer:
        return self._store.peek(self.items(items), self._now)

    def now_items(self, limiter: int, key: str, part: Part) -> list[Item]:
        """The ticket's items under the limiter as it is now."""
        items = list(part.items)
        items[part.at] = Item(self._limiters[limiter], key)
        return items

    def refund(self, limiter: int, key: str, ticket: Part) -> Answer:
        items = self.now_items(limiter, key, ticket)
        return self._store.adjust(items, ticket.ticket, 0, self._now, ticket.at)

    def settle(self, limiter: int, key: str, ticket: Part, cost: int) -> Answer:
        items = self.now_items(limiter, key, ticket)
        store, charged = self._store, ticket.ticket
        return store.adjust(items, charged, cost, self._now, ticket.at, settles=True)

    def renew(self, limiter: int, key: str, ticket: Part) -> Answer:
        items = self.now_items(limiter, key, ticket)
        return self._store.renew(items, ticket.ticket, self._now, ticket.at)

    def reset(self, limiter: int, key: str) -> Answer:
        return self._store.reset(Item(self._limiters[limiter], key), self._now)

    def refund_all(self, items: list[Asked], tickets: list[Part]) -> Answer:
        return self._store.adjust(self.items(items), tickets[0].ticket, 0, self._now)


TRACES = [trace for name in FILES for trace in load(name)]


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_trace(trace: Trace) -> None:
    run_steps(trace, ModelDriver())


SHORT = [
    trace
    for trace in load("token_bucket.json")
    if all(step.get("repeat", 1) <= 1_000 for step in trace.steps)
]


@pytest.mark.parametrize("trace", SHORT, ids=lambda trace: trace.name)
def test_bucket_is_the_token_bucket(trace: Trace) -> None:
    """One algorithm among others, it answers as the model that has nothing else."""

    def policy(rule: dict[str, Any]) -> dict[str, Any]:
        numbers = {name: rule[name] for name in ("capacity", "tokens", "period_us")}
        return {"rules": [{"algorithm": "token-bucket", **numbers}]}

    steps = [
        {**step, "rule": policy(step["rule"])} if step["op"] == "rule" else step
        for step in trace.steps
    ]
    run_steps(Trace(trace.name, {}, steps, [policy(trace.rule)]), ModelDriver())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("algorithm", list(RULES))
def test_stream(algorithm: str, seed: int) -> None:
    """The quick models against the slow ones."""
    slow = ModelDriver()
    slow.set_policy(0, model_stream.policy(algorithm, seed))
    tickets: dict[int, Any] = {}
    ops = []
    for line, event in enumerate(model_stream.events(algorithm, seed, 3_000)):
        op, now, key, cost, other, outcome, remaining, retry, reset, delay = event
        slow.set_now(now)
        where = 0, str(key)
        if op == 0:
            got, tickets[line] = slow.check(*where, cost, other)
        elif op == 1:
            got = slow.peek(*where, cost)
        elif op == 2:
            got = slow.refund(*where, tickets[other])
        elif op == 3:
            got = slow.reset(*where)
        elif op == 5:
            got = slow.settle(*where, tickets[other], cost)
        else:
            got = slow.renew(*where, tickets[other])
        told = -1 if got.retry_after_us is None else got.retry_after_us
        codes = OUTCOMES.index(got.outcome), got.remaining, told, got.reset_after_us, got.delay_us
        assert codes == (outcome, remaining, retry, reset, delay), (line, event)
        ops.append((op, outcome))
    assert len({op for op, _ in ops}) == (6 if algorithm == "concurrency" else 5)
    assert sum(op == (0, 2) for op in ops) > 30


@pytest.mark.parametrize("forgets", ["nothing", "dead", "touched"])
def test_random_steps(forgets: str) -> None:
    assert run_steps(load("random_steps.json")[0], ModelDriver(forgets)) == 10_000


def test_names_are_unique() -> None:
    names = [trace.name for trace in TRACES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_enough_and_not_too_much(name: str) -> None:
    traces = read(name)["traces"]
    operations = sum(step.get("repeat", 1) for trace in traces for step in trace["steps"])
    assert len(traces) >= 40
    assert operations < 100_000


@pytest.mark.parametrize("field", ["remaining", "rule", "item", "each"])
def test_player_notices_each_field(field: str) -> None:
    class Wrong(ModelDriver):
        def peek_all(self, items: list[Asked]) -> Answer:
            right = super().peek_all(items)
            value = getattr(right, field)
            wrong = value[1:] if isinstance(value, tuple) else value + 1
            return Answer(**{**right.__dict__, field: wrong})

    trace = next(t for t in TRACES if t.name == "group-unlimited")
    with pytest.raises(AssertionError, match="group-unlimited, step 3"):
        run_steps(trace, Wrong())


def test_answers_are_in_range() -> None:
    """remaining between 0 and the limit; what is refused waits, and not for nothing."""
    for trace in TRACES:
        for step in trace.steps:
            for expect in (step.get("expect"), *step.get("expect", {}).get("each", ())):
                if expect is None:
                    continue
                assert 0 <= expect["remaining"] <= expect["limit"], trace.name
                assert expect["reset_after_us"] >= 0
                if step["op"] in ("check", "peek") and expect["outcome"] == "denied":
                    assert expect["retry_after_us"] > 0, trace.name
                    if "queue" not in str(trace.rule):
                        assert expect["delay_us"] == 0

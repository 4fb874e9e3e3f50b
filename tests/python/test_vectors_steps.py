"""The vectors of every algorithm, through the Python API: blocking and asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import StoreMaker, make_memory_store

import saqiya
from saqiya import (
    AsyncLimiter,
    Calendar,
    Concurrency,
    Decision,
    FixedWindow,
    Limiter,
    ManualClock,
    Policy,
    Rule,
    SlidingLog,
    SlidingWindow,
    Store,
    TokenBucket,
    aio,
)
from saqiya._saqiya import OP_CHECK
from support import vectors
from support.vectors import Asked

FOREVER = 2**63 - 1
# File -> the least of traces and operations that it must have.
FILES = {
    "leaky_bucket.json": (40, 30_000),
    "fixed_window.json": (40, 10_000),
    "sliding_window.json": (40, 10_000),
    "sliding_log.json": (40, 10_000),
    "calendar.json": (40, 10_000),
    "concurrency.json": (40, 10_000),
    "groups.json": (40, 1_000),
    "settle.json": (10, 50),
    "changed_limits.json": (40, 1_000),
    "random_steps.json": (1, 10_000),
}
WINDOWS = {
    "fixed-window": FixedWindow,
    "sliding-window": SlidingWindow,
    "sliding-log": SlidingLog,
}


def answer(decision: Decision) -> Any:
    names = (*vectors.FIELDS, "rule", "item")
    fields = {name: getattr(decision, name) for name in names}
    if decision.retry_after_us == FOREVER:
        fields["retry_after_us"] = None
    return SimpleNamespace(**fields)


def answer_all(decision: Decision) -> Any:
    told = answer(decision)
    told.each = [answer(rule) for rule in decision.rules]
    return told


def period_of(micros: int) -> timedelta:
    return timedelta(microseconds=micros)


def rule_of(numbers: dict[str, Any]) -> Rule:
    algorithm = numbers["algorithm"]
    if algorithm == "token-bucket":
        period = period_of(numbers["period_us"])
        queue = numbers.get("queue", 0)
        return TokenBucket(numbers["capacity"], numbers["tokens"], period, queue)
    if algorithm == "calendar":
        anchor = numbers.get("anchor", 1)
        return Calendar(numbers["limit"], numbers["unit"], numbers["zone"], anchor)
    if algorithm == "concurrency":
        return Concurrency(numbers["limit"], period_of(numbers["ttl_us"]))
    return WINDOWS[algorithm](numbers["limit"], period_of(numbers["period_us"]))


def policy_of(policy: dict[str, Any], form: str) -> Policy:
    """form: text, numbers, or both: then every second rule as text, where there are several."""
    if form == "text" or not policy["rules"]:
        text: str = policy["text"]
        return text
    rules: list[str | Rule] = [rule_of(numbers) for numbers in policy["rules"]]
    texts = policy["text"].split(";")
    if form == "both" and len(rules) > 1:
        rules[1::2] = texts[1::2]
    return rules if len(rules) > 1 else rules[0]  # type: ignore[return-value]


class Tickets:
    """Of a check_all: that of the whole, and those of its items."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    def __getitem__(self, item: int) -> Decision:
        return self.decision.items[item]


class Clocked:
    def __init__(self, store: Store, clock: ManualClock, name: str) -> None:
        self._store = store
        self._clock = clock
        self._name = name

    def set_now(self, now_us: int) -> None:
        self._clock.set_us(now_us)

    def name_of(self, limiter: int) -> str:
        return f"{limiter}-{self._name}"[:64]


class Driver(Clocked):
    def __init__(self, store: Store, clock: ManualClock, name: str, form: str) -> None:
        super().__init__(store, clock, name)
        self._form = form
        self._limiters: dict[int, Limiter] = {}

    def set_policy(self, limiter: int, policy: dict[str, Any]) -> None:
        made = Limiter(policy_of(policy, self._form), store=self._store, name=self.name_of(limiter))
        assert Limiter(made.policy).policy == made.policy
        self._limiters[limiter] = made

    def check(self, limiter: int, key: str, cost: int, max_wait_us: int) -> tuple[Any, Decision]:
        if max_wait_us == 0:
            decision = self._limiters[limiter].check(key, cost)
        else:
            decision = self._limiters[limiter].reserve(key, cost, max_wait_us)
        return answer_all(decision), decision

    def peek(self, limiter: int, key: str, cost: int) -> Any:
        return answer_all(self._limiters[limiter].peek(key, cost))

    def refund(self, limiter: int, key: str, ticket: Decision) -> Any:
        return answer(self._limiters[limiter].refund(key, ticket))

    def settle(self, limiter: int, key: str, ticket: Decision, cost: int) -> Any:
        return answer(self._limiters[limiter].settle(key, ticket, cost))

    def renew(self, limiter: int, key: str, ticket: Decision) -> Any:
        return answer(self._limiters[limiter].renew(key, ticket))

    def reset(self, limiter: int, key: str) -> Any:
        return answer(self._limiters[limiter].reset(key))

    def items(self, asked: list[Asked]) -> list[saqiya.Item]:
        return [(self._limiters[limiter], key, cost) for limiter, key, cost in asked]

    def check_all(self, items: list[Asked], max_wait_us: int) -> tuple[Any, Tickets]:
        if max_wait_us == 0:
            decision = saqiya.check_all(self.items(items))
        else:
            decision = saqiya._saqiya.check_all(self.items(items), max_wait_us)
        return answer_all(decision), Tickets(decision)

    def peek_all(self, items: list[Asked]) -> Any:
        return answer_all(saqiya.peek_all(self.items(items)))

    def refund_all(self, items: list[Asked], tickets: Tickets) -> Any:
        return answer(saqiya.refund_all(self.items(items), tickets.decision))


class AsyncDriver(Clocked):
    """The same, awaited one after another on one loop."""

    def __init__(
        self, store: Store, clock: ManualClock, name: str, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(store, clock, name)
        self._do: Callable[..., Any] = loop.run_until_complete
        self._limiters: dict[int, AsyncLimiter] = {}

    def set_policy(self, limiter: int, policy: dict[str, Any]) -> None:
        name = self.name_of(limiter)
        self._limiters[limiter] = AsyncLimiter(policy["text"], store=self._store, name=name)

    def check(self, limiter: int, key: str, cost: int, max_wait_us: int) -> tuple[Any, Decision]:
        if max_wait_us == 0:
            decision = self._do(self._limiters[limiter].check(key, cost))
        else:
            decision = self._do(self._limiters[limiter]._reserve(key, cost, max_wait_us))
        return answer_all(decision), decision

    def peek(self, limiter: int, key: str, cost: int) -> Any:
        return answer_all(self._do(self._limiters[limiter].peek(key, cost)))

    def refund(self, limiter: int, key: str, ticket: Decision) -> Any:
        return answer(self._do(self._limiters[limiter].refund(key, ticket)))

    def settle(self, limiter: int, key: str, ticket: Decision, cost: int) -> Any:
        return answer(self._do(self._limiters[limiter].settle(key, ticket, cost)))

    def renew(self, limiter: int, key: str, ticket: Decision) -> Any:
        return answer(self._do(self._limiters[limiter].renew(key, ticket)))

    def reset(self, limiter: int, key: str) -> Any:
        return answer(self._do(self._limiters[limiter].reset(key)))

    def items(self, asked: list[Asked]) -> list[aio.Item]:
        return [(self._limiters[limiter], key, cost) for limiter, key, cost in asked]

    def check_all(self, items: list[Asked], max_wait_us: int) -> tuple[Any, Tickets]:
        async def ask() -> Decision:
            if max_wait_us == 0:
                return await aio.check_all(self.items(items))
            return await aio._Group(self.items(items)).ask(OP_CHECK, max_wait_us)

        decision = self._do(ask())
        return answer_all(decision), Tickets(decision)

    def peek_all(self, items: list[Asked]) -> Any:
        return answer_all(self._do(aio.peek_all(self.items(items))))

    def refund_all(self, items: list[Asked], tickets: Tickets) -> Any:
        return answer(self._do(aio.refund_all(self.items(items), tickets.decision)))


def play(file: str, make_driver: Callable[[str], Any]) -> None:
    traces = vectors.load(file)
    operations = sum(vectors.run_steps(trace, make_driver(trace.name)) for trace in traces)
    least_traces, least_operations = FILES[file]
    assert len(traces) >= least_traces
    assert operations >= least_operations


@pytest.mark.parametrize("file", FILES)
def test_blocking(make_store: StoreMaker, file: str) -> None:
    play(file, lambda name: Driver(*make_store(), name, "text"))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("form", ["numbers", "both"])
def test_rules_as_numbers(file: str, form: str) -> None:
    play(file, lambda name: Driver(*make_memory_store(), name, form))


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.mark.parametrize("file", FILES)
def test_async(make_store: StoreMaker, file: str, loop: asyncio.AbstractEventLoop) -> None:
    play(file, lambda name: AsyncDriver(*make_store(), name, loop))

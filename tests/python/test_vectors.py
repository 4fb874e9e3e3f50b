"""The vectors that every language and store must give, through the Python API."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import StoreMaker, make_memory_store

from saqiya import AsyncLimiter, Decision, Limiter, ManualClock, Store, TokenBucket
from support import vectors

FOREVER = 2**63 - 1


def answer(decision: Decision) -> Any:
    fields = {name: getattr(decision, name) for name in vectors.FIELDS}
    if decision.retry_after_us == FOREVER:
        fields["retry_after_us"] = None
    return SimpleNamespace(**fields)


def policy_of(rule: vectors.RuleNumbers, *, as_text: bool) -> str | TokenBucket:
    if as_text:
        text: str = rule["text"]
        return text
    period = timedelta(microseconds=rule["period_us"])
    return TokenBucket(rule["capacity"], rule["tokens"], period)


class Driver:
    def __init__(self, store: Store, clock: ManualClock, name: str, *, as_text: bool) -> None:
        self._store = store
        self._clock = clock
        self._name = name
        self._as_text = as_text
        self._limiter: Limiter

    def set_now(self, now_us: int) -> None:
        self._clock.set_us(now_us)

    def set_rule(self, rule: vectors.RuleNumbers) -> None:
        policy = policy_of(rule, as_text=self._as_text)
        self._limiter = Limiter(policy, store=self._store, name=self._name)

    def check(self, key: str, cost: int, max_wait_us: int) -> tuple[Any, Decision]:
        if max_wait_us == 0:
            decision = self._limiter.check(key, cost)
        else:
            decision = self._limiter.reserve(key, cost, max_wait_us)
        return answer(decision), decision

    def peek(self, key: str, cost: int) -> Any:
        return answer(self._limiter.peek(key, cost))

    def refund(self, key: str, ticket: Decision) -> Any:
        return answer(self._limiter.refund(key, ticket))

    def reset(self, key: str) -> Any:
        return answer(self._limiter.reset(key))


@pytest.mark.parametrize("as_text", [True, False], ids=["text", "numbers"])
def test_token_bucket(make_store: StoreMaker, as_text: bool) -> None:
    traces = vectors.load("token_bucket.json")
    operations = sum(
        vectors.run(trace, Driver(*make_store(), trace.name, as_text=as_text)) for trace in traces
    )
    assert len(traces) >= 60
    assert operations > 10_000


def test_random(make_store: StoreMaker) -> None:
    store, clock = make_store()
    (trace,) = vectors.load("random.json")
    assert vectors.run(trace, Driver(store, clock, trace.name, as_text=True)) >= 10_000


@pytest.mark.parametrize("trace", vectors.load("long.json"), ids=lambda trace: trace.name)
def test_long(trace: vectors.Trace) -> None:
    store, clock = make_memory_store()
    assert vectors.run(trace, Driver(store, clock, trace.name, as_text=True)) > 10_000


async def play_async(trace: vectors.Trace, store: Store, clock: ManualClock) -> int:
    """As vectors.run. Waits are reserved by the private half of acquire(), which does not sleep."""
    player = vectors.Player(trace)
    limiter = AsyncLimiter(trace.rule["text"], store=store, name=trace.name)
    count = 0
    for count, op in enumerate(player.operations(), 1):  # noqa: B007
        clock.set_us(op.now)
        if op.op == "check":
            if op.max_wait_us == 0:
                decision = await limiter.check(op.key, op.cost)
            else:
                decision = await limiter._reserve(op.key, op.cost, op.max_wait_us)
            player.answer(op, answer(decision), decision)
        elif op.op == "peek":
            player.answer(op, answer(await limiter.peek(op.key, op.cost)))
        elif op.op == "refund":
            player.answer(op, answer(await limiter.refund(op.key, op.ticket)))
        elif op.op == "reset":
            player.answer(op, answer(await limiter.reset(op.key)))
        else:
            limiter = AsyncLimiter(op.rule["text"], store=store, name=trace.name)
    return count


@pytest.mark.parametrize("name", ["token_bucket.json", "random.json"])
def test_async(make_store: StoreMaker, name: str) -> None:
    async def main() -> int:
        return sum([await play_async(trace, *make_store()) for trace in vectors.load(name)])

    assert asyncio.run(main()) >= 10_000

"""Concurrency: slots that are held, renewed, released, and lost by holders that die."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import StoreMaker
from test_threads import in_threads

from saqiya import AsyncLimiter, Concurrency, Limiter, Store, acquire_all, check_all, refund_all
from support.redis_server import RedisServer

LIMIT = 3
TTL = 2.0


def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_slots_are_held_until_released(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter("concurrency: 3 ttl 30s", store=store)
    held = [limiter.check("k") for _ in range(3)]
    assert [decision.remaining for decision in held] == [2, 1, 0]
    refused = limiter.check("k")
    assert (refused.outcome, refused.retry_after) == ("denied", 30.0)
    assert limiter.release("k", held[0]).remaining == 1
    assert limiter.release("k", held[0]).outcome == "denied"  # twice is harmless
    assert limiter.peek("k").remaining == 1
    clock.advance(29)
    assert limiter.renew("k", held[1])
    clock.advance(1)
    assert limiter.peek("k").remaining == 2  # the third has expired
    assert limiter.renew("k", held[2]).outcome == "denied"
    assert limiter.release("k", held[2]).outcome == "denied"
    assert limiter.release("k", held[1]).remaining == 3
    assert limiter.renew("k", held[1]).outcome == "denied"
    assert limiter.check("k", 4).outcome == "never"
    assert Limiter(Concurrency(3, 30), store=store).policy == limiter.policy


def test_hold(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("concurrency: 2 ttl 30s", store=store)
    with limiter.hold("k") as first, limiter.hold("k", cost=1) as second:
        assert first
        assert second
        with limiter.hold("k") as third:
            assert third.outcome == "denied"
        assert limiter.peek("k").remaining == 0
    assert limiter.peek("k").remaining == 2
    with pytest.raises(KeyError), limiter.hold("k", 2):
        raise KeyError
    assert limiter.peek("k").remaining == 2
    with limiter.hold("k") as decision:
        assert limiter.renew("k", decision)
        assert limiter.release("k", decision)  # early, by hand
        assert limiter.peek("k").remaining == 2
    assert limiter.peek("k").remaining == 2


def test_releasing_leaves_what_other_rules_count(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("concurrency: 2 ttl 30s; 10/h; sliding-log: 5/h", store=store)
    with limiter.hold("k") as decision:
        assert [rule.remaining for rule in decision.rules] == [1, 9, 4]
    assert [rule.remaining for rule in limiter.peek("k").rules] == [2, 9, 4]
    assert limiter.refund("k", decision)  # the rest of it
    assert [rule.remaining for rule in limiter.peek("k").rules] == [2, 10, 5]
    assert not limiter.refund("k", decision)
    plain = Limiter("10/h", store=store)
    assert plain.release("k", plain.check("k")).outcome == "denied"


def test_holding_needs_a_concurrency_rule(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("10/h", store=store)
    with pytest.raises(TypeError, match="concurrency rule"), limiter.hold("k"):
        pass

    async def main() -> None:
        later = AsyncLimiter("10/h", store=store)
        with pytest.raises(TypeError, match="concurrency rule"):
            async with later.hold("k"):
                pass

    asyncio.run(main())
    assert limiter.peek("k").remaining == 10


def test_settling_leaves_what_is_held(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("10/min; concurrency: 1 ttl 30s", store=store)
    with limiter.hold("k") as decision:
        assert limiter.settle("k", decision, 3).outcome == "allowed"
        assert [rule.remaining for rule in limiter.peek("k").rules] == [7, 0]
        assert limiter.settle("k", decision, 5).outcome == "denied"  # once
        assert limiter.check("k").outcome == "denied"
    assert [rule.remaining for rule in limiter.peek("k").rules] == [7, 1]
    assert limiter.check("k")

    async def main() -> None:
        later = AsyncLimiter("10/min; concurrency: 1 ttl 30s", store=store)
        async with later.hold("a") as decision:
            assert (await later.settle("a", decision, 3)).outcome == "allowed"
            assert not await later.check("a")
        assert await later.check("a")

    asyncio.run(main())


def test_a_slot_beside_a_rate_in_one_decision(make_store: StoreMaker) -> None:
    store, _ = make_store()
    slots = Limiter("concurrency: 2 ttl 30s", store=store, name="slots")
    rate = Limiter("10/h", store=store, name="rate")
    items = [(slots, "all"), (rate, "ann", 3)]
    decision = check_all(items)
    assert slots.renew("all", decision.items[0])
    assert slots.release("all", decision.items[0])
    assert slots.peek("all").remaining == 2
    assert refund_all(items, decision).outcome == "allowed"
    assert rate.peek("ann").remaining == 10


def test_acquire_takes_a_slot_when_it_is_released(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("concurrency: 1 ttl 1h", store=store)
    first = limiter.check("k")
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(limiter.acquire("k", timeout=60)))
    waiting.start()
    time.sleep(0.05)
    assert limiter.acquire("k", timeout=0.02).outcome == "denied"
    assert limiter.release("k", first)
    waiting.join(60)
    assert got[0].allowed
    assert limiter.acquire("k", timeout=0).outcome == "denied"
    assert limiter.acquire("k", 2, timeout=None).outcome == "never"
    items = [(limiter, "k"), (limiter, "j")]
    assert acquire_all(items, timeout=0.02).item == 0
    assert limiter.peek("j").remaining == 1


def test_threads_hold_no_more_than_the_limit(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter(f"concurrency: {LIMIT} ttl 1h", store=store)
    lock, inside, most = threading.Lock(), 0, 0

    def work(_number: int) -> None:
        nonlocal inside, most
        for _ in range(3):
            with limiter.hold("k", timeout=60) as decision:
                assert decision
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.001)
                with lock:
                    inside -= 1

    in_threads(16, work)
    assert 1 <= most <= LIMIT
    assert limiter.peek("k").remaining == LIMIT


def hold_for_ever(url: str, ready: Any) -> None:
    limiter = Limiter(Concurrency(LIMIT, TTL), store=Store(url, deadline=30), name="jobs")
    with limiter.hold("k", timeout=60) as decision:
        ready.put((os.getpid(), bool(decision)))
        time.sleep(600)


def work_in_turn(url: str, inside: Any, most: Any, done: Any) -> None:
    limiter = Limiter(Concurrency(LIMIT, 60), store=Store(url, deadline=30), name="work")
    for _ in range(5):
        with limiter.hold("k", timeout=60) as decision:
            if not decision:
                continue
            with inside.get_lock():
                inside.value += 1
                most.value = max(most.value, inside.value)
            time.sleep(0.005)
            with inside.get_lock():
                inside.value -= 1
            with done.get_lock():
                done.value += 1


def test_8_processes_hold_no_more_than_the_limit(redis: RedisServer) -> None:
    context = multiprocessing.get_context("spawn")
    inside, most, done = (context.Value("i", 0) for _ in range(3))
    processes = [
        context.Process(target=work_in_turn, args=(redis.url, inside, most, done)) for _ in range(8)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    assert done.value == 40
    assert 1 <= most.value <= LIMIT


def test_a_killed_holder_gives_its_slot_back_after_the_ttl(redis: RedisServer) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    holders = [context.Process(target=hold_for_ever, args=(redis.url, ready)) for _ in range(LIMIT)]
    limiter = Limiter(Concurrency(LIMIT, TTL), store=Store(redis.url, deadline=30), name="jobs")
    try:
        for holder in holders:
            holder.start()
        held = dict(ready.get(timeout=60) for _ in holders)
        assert all(held.values())
        for pid in held:
            os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        # Three slots of one lease time: whoever held them is dead, and nobody released.
        decision = limiter.acquire("k", LIMIT, timeout=60)
        assert decision
        assert decision.remaining == 0
        assert time.monotonic() - killed < 30
        assert limiter.check("k").outcome == "denied"
        assert limiter.release("k", decision).remaining == LIMIT
    finally:
        for holder in holders:
            holder.kill()
            holder.join(60)


def test_async_hold(make_store: StoreMaker) -> None:
    async def main() -> None:
        store, clock = make_store()
        limiter = AsyncLimiter("concurrency: 2 ttl 30s", store=store, name="n")
        async with limiter.hold("k") as first, limiter.hold("k") as second:
            assert first
            assert second
            async with limiter.hold("k") as third:
                assert third.outcome == "denied"
            clock.advance(20)
            assert await limiter.renew("k", first)
            clock.advance(20)
            assert not await limiter.renew("k", second)
            assert (await limiter.peek("k")).remaining == 1
        assert (await limiter.peek("k")).remaining == 2
        with pytest.raises(KeyError):
            async with limiter.hold("k", 2):
                raise KeyError
        decision = await limiter.check("k", 2)
        assert (await limiter.release("k", decision)).remaining == 2
        assert (await limiter.release("k", decision)).outcome == "denied"
        assert (await limiter.check("k", 3)).outcome == "never"

    asyncio.run(main())


def test_async_workers_take_turns(make_store: StoreMaker) -> None:
    async def main() -> None:
        store, _ = make_store()
        limiter = AsyncLimiter(f"concurrency: {LIMIT} ttl 1h", store=store)
        inside = most = 0

        async def work() -> None:
            nonlocal inside, most
            async with limiter.hold("k", timeout=60) as decision:
                assert decision
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.001)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(20)))
        assert 1 <= most <= LIMIT
        assert (await limiter.peek("k")).remaining == LIMIT

    asyncio.run(main())


def test_cancelling_a_holder_releases_its_slot(make_store: StoreMaker) -> None:
    """While it waits, while it asks, while it holds, and while it releases."""

    async def main() -> None:
        store, _ = make_store()
        limiter = AsyncLimiter("concurrency: 5 ttl 1h; sliding-log: 100000/h", store=store)

        async def work(turns: int) -> None:
            async with limiter.hold("k", timeout=60) as decision:
                assert decision
                for _ in range(turns):
                    await asyncio.sleep(0)

        for turns in range(20):
            tasks = [asyncio.create_task(work(turns % 5)) for _ in range(8)]
            for _ in range(turns):
                await asyncio.sleep(0)
            time.sleep(0.0005 * (turns % 4))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        deadline = time.monotonic() + 20
        while (peeked := await limiter.peek("k")).rules[0].remaining != 5:
            assert time.monotonic() < deadline, peeked.rules
            await asyncio.sleep(0.005)

    asyncio.run(main())

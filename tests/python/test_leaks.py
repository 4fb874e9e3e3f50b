"""Nothing is kept that was given up: objects, memory, descriptors."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
import tracemalloc
import weakref
from collections.abc import Callable

import pytest
from conftest import StoreMaker

from saqiya import (
    AsyncLimiter,
    Decision,
    Limiter,
    SaqiyaError,
    Store,
    TokenBucket,
    _saqiya,
    aio,
    check_all,
    peek_all,
    refund_all,
)
from support.redis_server import RedisServer

OTHER = Limiter("1/s")
CHARGED = OTHER.check("k")
PER_CALL = 16  # bytes; less than the smallest object


def growth(work: Callable[[], object], times: int = 300) -> float:
    """Bytes per call that Python keeps; the least of some rounds, since tables grow at times.

    `times` must be large beside what Python's free lists keep, some ten thousand bytes.
    """
    for _ in range(50):
        work()
    rounds = []
    for _ in range(3):
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(times):
                work()
            gc.collect()
            rounds.append((tracemalloc.get_traced_memory()[0] - before) / times)
        finally:
            tracemalloc.stop()
    return min(rounds)


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def use_everything(limiter: Limiter) -> None:
    decision = limiter.check("k", 1)
    limiter.refund("k", decision)
    for made in (limiter.peek("k", cost=2), limiter.reserve("k", 1, 10), limiter.reset("k")):
        hash(made), repr(made), made.outcome, made.reason, made.retry_after, made == decision
        made.__reduce__()
    limiter.check_many(["a", b"b", "\u0627"], 1)
    limiter.http_headers(decision), limiter.http_body(decision), limiter.http_status(decision)
    Decision("unavailable", "timeout")
    _ = limiter.policy, limiter.name, limiter.is_local, limiter.store.stats(), repr(limiter)


def use_several(several: Limiter, single: Limiter) -> None:
    items = [(several, "a"), (single, "b", 2)]
    decision = check_all(items)
    parts = [*decision.rules, *decision.items, *decision.items[0].rules]
    for made in (*parts, peek_all(items), several.reserve("k", 1, 10), several.peek("k")):
        hash(made), repr(made), made.rules, made.items, made.__reduce__()
    Decision(*decision.__reduce__()[1])  # type: ignore[arg-type]
    several.release("a", decision.items[0])
    single.settle("b", decision.items[1], 1)
    refund_all(items, decision)
    with several.hold("k") as held:
        several.renew("k", held)
    several.acquire("k", timeout=0)
    for one in several.check_many(["a", "b"]):
        several.refund("a", one)
    several.reset("k"), several.reset("a"), several.http_headers(held)


def make_mistakes(limiter: Limiter) -> None:
    for call in (
        lambda: limiter.check("k", -1),
        lambda: limiter.check("k", "x"),  # type: ignore[arg-type]
        lambda: limiter.check(5),  # type: ignore[arg-type]
        lambda: limiter.check("\ud800"),
        lambda: limiter.check_many(["a", 5]),  # type: ignore[list-item]
        lambda: limiter.refund("k", None),  # type: ignore[arg-type]
        lambda: Limiter("5 per moon"),
        lambda: Limiter(TokenBucket(-1, 1, 1)),
        lambda: Store("what://"),
        lambda: Decision("perhaps"),
        lambda: Decision("allowed", rules=(5,)),  # type: ignore[arg-type]
        lambda: check_all([]),
        lambda: check_all([(limiter, "k"), (limiter, 5)]),  # type: ignore[list-item]
        lambda: check_all([(limiter, "k"), (OTHER, "k")]),
        lambda: refund_all([(limiter, "k"), (limiter, "j")], CHARGED),
        lambda: Limiter(["5/s", "6/s"], store=OTHER.store),
    ):
        with pytest.raises((SaqiyaError, TypeError, ValueError)):
            call()


def test_calls_leak_no_objects(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("1000/h", store=store)
    assert growth(lambda: use_everything(limiter)) < PER_CALL


def test_several_rules_leak_no_objects(make_store: StoreMaker) -> None:
    store, _ = make_store()
    several = Limiter("1000/h; sliding-log: 50/s; concurrency: 9 ttl 1h", store=store, name="n")
    single = Limiter("fixed-window: 1000000/h", store=store)
    assert growth(lambda: use_several(several, single)) < PER_CALL


def test_mistakes_leak_no_objects() -> None:
    limiter = Limiter("1000/h")
    assert growth(lambda: make_mistakes(limiter), 4_000) < PER_CALL


def test_references_are_counted() -> None:
    limiter = Limiter("1000/h")
    key, cost = "k" * 100, 10**15
    decision_type, decision = sys.getrefcount(Decision), limiter.check(key)
    before = [sys.getrefcount(x) for x in (key, cost, None, decision, "check")]
    for _ in range(1_000):
        limiter.check(key, cost)
        limiter.check_many([key], cost)
        limiter.refund(key, decision)
    after = [sys.getrefcount(x) for x in (key, cost, None, decision, "check")]
    assert all(abs(a - b) < 50 for a, b in zip(after, before))
    assert sys.getrefcount(Decision) - decision_type < 50


def test_limiters_and_stores_free_their_memory() -> None:
    def work() -> None:
        store = Store()
        limiter = Limiter("1000/h", store=store, name="n")
        limiter.check_many([str(i) for i in range(20)])
        AsyncLimiter("5/s", store=store)

    assert growth(work) < PER_CALL
    for _ in range(200):
        work()
    before = resident_bytes()
    for _ in range(2_000):
        work()
    assert resident_bytes() - before < 20_000_000


def test_objects_go_when_nobody_holds_them() -> None:
    store = Store()
    limiter = Limiter("5/s", store=store)
    references = [weakref.ref(store), weakref.ref(limiter)]
    del store
    assert references[0]() is not None
    assert limiter.check("k")
    del limiter
    assert [reference() for reference in references] == [None, None]


def test_descriptors_are_closed(redis: RedisServer) -> None:
    def count() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    async def use_async(store: Store) -> None:
        limiter = AsyncLimiter("5/s", store=store)
        await asyncio.gather(*(limiter.check("k") for _ in range(20)))

    def work() -> None:
        store = Store(redis.url, deadline=10)
        assert Limiter("5/s", store=store).check("k").outcome != "unavailable"
        asyncio.run(use_async(store))

    work()
    before = count()
    for _ in range(20):
        work()
    assert count() <= before


def test_decisions_without_redis_leak_no_objects() -> None:
    store = Store("redis://127.0.0.1:1")
    limiters = [
        Limiter("1000/h", store=store, failure="local", share=0.5),
        Limiter("1000/h; concurrency: 900 ttl 1h", store=store, failure="local"),
        Limiter("1000/h", store=store, failure="open"),
        Limiter("1000/h", store=store, failure="closed"),
        Limiter("1000/h", store=store, failure="error"),
    ]

    def work() -> None:
        for limiter in limiters:
            decision = limiter.check("k")
            repr(decision), hash(decision), decision.__reduce__()
            limiter.peek("k")
            limiter.refund("k", decision)
            limiter.check_many(["a", "b"])
            limiter.reset("k")
        several = [(limiter, "k") for limiter in limiters[:2]]
        refund_all(several, check_all(several))

    assert growth(work) < PER_CALL


def test_events_leak_no_objects() -> None:
    """Each store meets an outage of its own."""

    def work() -> None:
        assert Limiter("5/s", store=Store("redis://127.0.0.1:1")).check("k").source == "local"

    logging.getLogger("saqiya").addFilter(_nothing)
    try:
        assert growth(work, 1_500) < PER_CALL
    finally:
        logging.getLogger("saqiya").removeFilter(_nothing)


def _nothing(_record: logging.LogRecord) -> bool:
    return False


def test_awaited_groups_leak_no_objects(redis: RedisServer) -> None:
    store = Store(redis.url, deadline=10)
    several = AsyncLimiter("1000/h; concurrency: 900 ttl 1h", store=store)
    single = AsyncLimiter("fixed-window: 1000/h", store=store)
    items: list[aio.Item] = [(several, "k"), (single, "k")]

    async def once() -> None:
        decisions = await asyncio.gather(*(aio.check_all(items) for _ in range(10)))
        await asyncio.gather(*(aio.refund_all(items, decision) for decision in decisions))
        async with several.hold("k") as held:
            await several.renew("k", held)
        await several.settle("k", held, 0)
        for turns in range(3):
            calls = (aio.check_all(items), several.check("k"), several.settle("k", held, 1))
            tasks = [asyncio.create_task(call) for call in calls]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await aio.peek_all(items)

    loop = asyncio.new_event_loop()
    try:
        assert growth(lambda: loop.run_until_complete(once())) < PER_CALL
    finally:
        loop.close()


def test_awaited_calls_leak_no_objects(redis: RedisServer) -> None:
    store = Store(redis.url, deadline=10)
    limiter = AsyncLimiter("1000/h", store=store)

    async def once() -> None:
        decisions = await asyncio.gather(*(limiter.check("k") for _ in range(20)))
        await limiter.refund("k", decisions[0])
        await limiter.check_many(["a", "b"])
        task = asyncio.create_task(limiter.check("k"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    loop = asyncio.new_event_loop()
    try:
        assert growth(lambda: loop.run_until_complete(once())) < PER_CALL
    finally:
        loop.close()


def test_what_asks_a_store_keeps_it(redis: RedisServer) -> None:
    """Its handle is used after each call, also when nothing else of the program has it any more."""
    for url in ("memory://", redis.url):
        native = Store(url)._native
        before = sys.getrefcount(native)
        channel = _saqiya.Channel(native)
        limiter = _saqiya.Limiter(native, "1/h")
        assert sys.getrefcount(native) == before + 2
        del native
        assert channel.process() is not None
        del channel, limiter

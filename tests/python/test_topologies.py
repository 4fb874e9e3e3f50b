"""Sentinels that fail over, and clusters."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from test_threads import in_threads

from saqiya import AsyncLimiter, Limiter, Store, aio, check_all, refund_all
from support.redis_many import Cluster, Sentinels


def test_a_failover(caplog: pytest.LogCaptureFixture) -> None:
    """Threads and a loop ask on; nothing is raised; the new master decides soon."""
    with Sentinels() as many:
        store = Store(many.url, deadline=0.5)
        limiter = Limiter("1/h burst 100000", store=store, name="shared")
        awaited = AsyncLimiter("1/h burst 100000", store=store, name="shared")
        stop = threading.Event()
        found: Counter[tuple[str, str]] = Counter()
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                while not stop.is_set():
                    decision = limiter.check("k")
                    found[decision.outcome, decision.source] += 1
                    time.sleep(0.001)
            except BaseException as error:
                errors.append(error)

        async def ask_async() -> None:
            while not stop.is_set():
                decision = await awaited.check("k")
                found[decision.outcome, decision.source] += 1
                await asyncio.sleep(0.001)

        def loop() -> None:
            try:
                asyncio.run(ask_async())
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        threads.append(threading.Thread(target=loop))
        for thread in threads:
            thread.start()
        try:
            wait_for_more(found, "store")
            old = many.master
            old.kill()
            wait_for_more(found, "local")
            new = many.wait_for_failover(old)
            wait_for_more(found, "store")
            assert new.keys()
        finally:
            stop.set()
            for thread in threads:
                thread.join(60)
        assert errors == []
        assert set(found) == {("allowed", "store"), ("allowed", "local")}
        assert 1 <= len(caplog.records) <= 5


def wait_for_more(found: Counter[tuple[str, str]], source: str) -> None:
    before = found["allowed", source]
    deadline = time.monotonic() + 60
    while found["allowed", source] == before:
        assert time.monotonic() < deadline, found
        time.sleep(0.01)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def test_a_cluster_counts_exactly(cluster: Cluster) -> None:
    store = Store(cluster.url, deadline=20)
    limiter = Limiter("1/h burst 100", store=store, name="exact")
    keys = [f"user{i}" for i in range(12)]  # of all nodes
    admitted: Counter[str] = Counter()

    def work(number: int) -> None:
        for i in range(200):
            key = keys[(number + i) % len(keys)]
            if limiter.check(key):
                admitted[key] += 1

    in_threads(16, work)
    assert admitted == dict.fromkeys(keys, 100)
    awaited = AsyncLimiter("1/h burst 100", store=store, name="exact-async")

    async def main() -> int:
        decisions = await asyncio.gather(*(awaited.check(key) for key in keys * 150))
        return sum(map(bool, decisions))

    assert asyncio.run(main()) == 1_200
    assert all(int(node.cli("DBSIZE")) > 0 for node in cluster.nodes[:3])


def test_check_all_over_several_slots(cluster: Cluster) -> None:
    """All or nothing, though no single call can ask the nodes together."""
    store = Store(cluster.url, deadline=20)
    limiters = [Limiter("1/h burst 50", store=store, name=f"all{i}") for i in range(3)]
    items = [(limiter, f"subject{i}") for i, limiter in enumerate(limiters)]
    admitted: list[bool] = []
    in_threads(8, lambda _: admitted.extend(bool(check_all(items)) for _ in range(20)))
    assert sum(admitted) <= 50  # while they meet, some may refuse that need not
    assert [limiter.peek(key).remaining for limiter, key in items] == [50 - sum(admitted)] * 3
    for limiter, key in items:
        limiter.reset(key)
    first = check_all(items)
    assert [item.remaining for item in first.items] == [49] * 3
    rest = limiters[2].check("subject2", 49)
    refused = check_all(items)
    assert (refused.outcome, refused.item) == ("denied", 2)
    assert [limiter.peek(key).remaining for limiter, key in items] == [49, 49, 0]
    assert limiters[2].refund("subject2", rest)
    assert refund_all(items, first)
    assert [limiter.peek(key).remaining for limiter, key in items] == [50] * 3

    async def main() -> None:
        awaited = [AsyncLimiter("1/h burst 50", store=store, name=f"await{i}") for i in range(3)]
        wanted: list[aio.Item] = [(limiter, f"subject{i}") for i, limiter in enumerate(awaited)]
        decision = await aio.check_all(wanted)
        assert [item.remaining for item in decision.items] == [49] * 3
        assert await aio.refund_all(wanted, decision)
        assert [(await one.peek(key)).remaining for one, key, *_ in wanted] == [50] * 3

    asyncio.run(main())

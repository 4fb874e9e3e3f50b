"""Policies of several rules, and several limiters in one decision, on an event loop."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from conftest import StoreMaker
from test_groups import counts

from saqiya import AsyncLimiter, Decision, Limiter, SaqiyaError, Store, aio
from support.redis_server import RedisServer


def test_async_calls(make_store: StoreMaker) -> None:
    async def main() -> None:
        store, _ = make_store()
        user = AsyncLimiter("10/h; 20/d", store=store, name="user")
        everybody = AsyncLimiter("100/h", store=store, name="global")
        items: list[aio.Item] = [(user, "ann", 4), (everybody, "all")]
        decision = await aio.check_all(items)
        assert [item.remaining for item in decision.items] == [6, 99]
        assert (await aio.peek_all(items)).items[0].remaining == 6
        assert (await everybody.settle("all", decision.items[1], 9)).remaining == 91
        assert await aio.refund_all(items, decision)
        assert [item.remaining for item in (await aio.peek_all(items)).items] == [10, 91]
        assert (await aio.check_all([(user, "ann", 11), (everybody, "all")])).outcome == "never"
        several = await user.check("bob", 2)
        assert counts(several) == [8, 18]
        assert counts(await user.peek("bob")) == [8, 18]
        assert (await user.refund("bob", several)).remaining == 10
        assert [d.remaining for d in await user.check_many(["x", "y", "x"])] == [9, 9, 8]
        assert (await user.reset("x")).remaining == 10
        assert await aio.acquire_all(items, timeout=0)
        wrong: list[Any] = [[user], [(Limiter("5/s", store=store), "k")], [(user, 5)], [()]]
        for items_of_it in wrong:
            with pytest.raises(TypeError):
                await aio.check_all(items_of_it)
        with pytest.raises(SaqiyaError):
            await aio.check_all([])
        with pytest.raises(SaqiyaError, match="one store"):
            await aio.check_all([(user, "k"), (AsyncLimiter("5/s"), "k")])
        other = AsyncLimiter("7/h; 20/d", store=store, name="user")
        with pytest.raises(SaqiyaError, match="one name"):
            await aio.check_all([(user, "k"), (other, "k")])
        with pytest.raises(SaqiyaError, match="number of rules"):
            await everybody.refund("all", decision)
        with pytest.raises(SaqiyaError, match="number of rules"):
            await aio.refund_all([*items, (everybody, "k")], decision)

    asyncio.run(main())


def test_cancelling_check_all_loses_nothing(make_store: StoreMaker) -> None:
    """Whether it was queued, sent or just answered."""

    async def main() -> None:
        store, _ = make_store()
        first = AsyncLimiter("1000/d; sliding-log: 2000/d", store=store, name="first")
        second = AsyncLimiter("fixed-window: 1000/d", store=store, name="second")
        items: list[aio.Item] = [(first, "k"), (second, "k", 2)]
        kept = 0
        for turns in range(12):
            tasks = [asyncio.create_task(aio.check_all(items)) for _ in range(10)]
            tasks += [asyncio.create_task(first.check("k")) for _ in range(10)]
            for _ in range(turns):
                await asyncio.sleep(0)
            time.sleep(0.0005 * (turns % 4))
            for task in tasks[::2]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            kept += sum(isinstance(result, Decision) for result in done[:10])
            for result in done[10:]:
                if isinstance(result, Decision):
                    assert await first.refund("k", result)
        deadline = time.monotonic() + 20
        wanted = [1000 - kept, 2000 - kept, 1000 - 2 * kept]
        while counts(peeked := await aio.peek_all(items)) != wanted:
            assert time.monotonic() < deadline, (peeked.rules, kept)
            await asyncio.sleep(0.005)
        assert kept >= 60

    asyncio.run(main())


def test_a_cancelled_refund_is_done(redis: RedisServer) -> None:
    async def main() -> None:
        limiter = AsyncLimiter("10/d", store=Store(redis.url, deadline=10), name="n")
        decision = await limiter.check("k", 4)
        task = asyncio.create_task(limiter.refund("k", decision))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await limiter.peek("k")).remaining == 10

    asyncio.run(main())


def test_many_groups_at_once(redis: RedisServer) -> None:
    """One turn's decisions travel together, groups and single ones."""

    async def main() -> None:
        store = Store(redis.url, deadline=10)
        first = AsyncLimiter("1000/d; 2000/w", store=store, name="first")
        second = AsyncLimiter("fixed-window: 500/d", store=store, name="second")
        calls = [aio.check_all([(first, "k"), (second, f"{i % 7}")]) for i in range(700)]
        singles = [second.check("x") for _ in range(700)]
        decisions = await asyncio.gather(*calls, *singles)
        assert sum(map(bool, decisions[:700])) == 700
        assert sum(map(bool, decisions[700:])) == 500
        assert counts(await first.peek("k")) == [300, 1300]
        assert store.stats().batches < 300

    asyncio.run(main())

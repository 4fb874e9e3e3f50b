"""AsyncLimiter on asyncio's loops and uvloop's, over every store."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop
from conftest import StoreMaker
from slow_proxy import SlowProxy

from saqiya import AsyncLimiter, Limiter, SaqiyaError, Store
from support.redis_server import RedisServer, free_port

Runner = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Runner:
    """Runs a coroutine in a new loop, with a limit of time."""
    new_loop = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop

    def runner(coroutine: Coroutine[Any, Any, Any]) -> Any:
        loop = new_loop()
        try:
            return loop.run_until_complete(asyncio.wait_for(coroutine, 60))
        finally:
            loop.close()

    return runner


def remote(server: RedisServer, **options: Any) -> Store:
    return Store(server.url, deadline=options.pop("deadline", 10), **options)


async def admitted(calls: list[Awaitable[Any]]) -> int:
    return sum(map(bool, await asyncio.gather(*calls)))


def test_every_method(make_store: StoreMaker, run: Runner) -> None:
    async def main() -> None:
        store, _ = make_store()
        limiter = AsyncLimiter("10/s", store=store, name="api")
        first = await limiter.check("k", 4)
        assert (first.outcome, first.remaining, first.limit) == ("allowed", 6, 10)
        assert (await limiter.peek("k", 7)).retry_after == 0.1
        assert (await limiter.refund("k", first)).remaining == 10
        assert (await limiter.refund("k", first)).outcome == "denied"
        assert (await limiter.check(b"k", cost=10)).remaining == 0
        assert (await limiter.reset("k")).remaining == 10
        assert [d.remaining for d in await limiter.check_many(["a", "b", "a"])] == [9, 9, 8]
        assert (await limiter.check("k", 11)).outcome == "never"
        assert (await limiter.acquire("k", 10, timeout=0)).delay == 0
        assert (await limiter.acquire("k", timeout=5)).delay == 0.1
        assert (await limiter.acquire("k", 11, timeout=None)).outcome == "never"
        assert limiter.http_headers(first)["RateLimit-Policy"].startswith('"api"')
        assert (limiter.http_status(first), limiter.http_body(first)) == (200, "")
        assert repr(limiter) == f"AsyncLimiter({limiter.policy!r}, name='{limiter.name}')"

    run(main())


def test_wrong_arguments(make_store: StoreMaker, run: Runner) -> None:
    async def main() -> None:
        store, _ = make_store()
        limiter = AsyncLimiter("10/s", store=store)
        for key, cost in ((5, 1), ("k", True), ("k", None), ("k", 1.0)):
            with pytest.raises(TypeError):
                await limiter.check(key, cost)  # type: ignore[arg-type]
        with pytest.raises(SaqiyaError):
            await limiter.check("k", -1)
        with pytest.raises(UnicodeEncodeError):
            await limiter.check("\ud800")
        with pytest.raises(TypeError):
            await limiter.check_many("abc")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await limiter.check_many(["a", None])  # type: ignore[list-item]
        with pytest.raises(TypeError):
            await limiter.refund("k", None)  # type: ignore[arg-type]
        with pytest.raises(SaqiyaError):
            await limiter.acquire("k", timeout=-1)
        assert (await limiter.peek("k")).remaining == 10

    run(main())
    assert not gc.garbage


def test_1000_coroutines_get_exactly_the_capacity(make_store: StoreMaker, run: Runner) -> None:
    async def main() -> int:
        store, _ = make_store()
        limiter = AsyncLimiter("4/day", store=store)
        return await admitted([limiter.check("k") for _ in range(1_000)])

    assert run(main()) == 4


def test_checks_of_one_turn_travel_together(redis: RedisServer, run: Runner) -> None:
    store = remote(redis)
    limiter = AsyncLimiter("1/min burst 1000000", store=store)

    async def main() -> None:
        await asyncio.gather(*(limiter.check(f"k{i % 100}") for i in range(10_000)))

    run(main())
    stats = store.stats()
    assert stats.requests == 10_000
    assert stats.batches <= 10_000 / 8
    assert stats.connects == 1


def test_many_more_than_the_queue_holds(redis: RedisServer) -> None:
    async def main() -> list[Any]:
        limiter = AsyncLimiter("1/min burst 1000000", store=remote(redis))
        decisions = await asyncio.gather(*(limiter.check("k") for _ in range(70_000)))
        assert len(await limiter.check_many(["k"] * 10_000)) == 10_000
        return list(decisions)

    decisions = asyncio.run(main())
    busy = [d for d in decisions if not d]
    assert {(d.outcome, d.reason) for d in busy} <= {("unavailable", "busy")}
    assert len(decisions) - len(busy) >= 65_536


def test_one_limiter_in_successive_loops(redis: RedisServer, run: Runner) -> None:
    """C132."""
    limiter = AsyncLimiter("1/h burst 500", store=remote(redis))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        total = sum(
            run(admitted([limiter.check("k") for _ in range(100)]))  # type: ignore[arg-type]
            for _ in range(3)
        )
        for _ in range(3):
            total += asyncio.run(admitted([limiter.check("k") for _ in range(100)]))  # type: ignore[arg-type]
        gc.collect()
    assert total == 500


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_one_limiter_in_loops_of_four_threads(redis: RedisServer, new_loop: Any) -> None:
    """C132."""
    limiter = AsyncLimiter("1/h burst 3000", store=remote(redis))
    totals: list[int] = []

    async def work() -> int:
        total = 0
        for _ in range(10):
            total += await admitted([limiter.check("k") for _ in range(100)])
        return total

    def body() -> None:
        loop = new_loop()
        totals.append(loop.run_until_complete(asyncio.wait_for(work(), 60)))
        loop.close()

    threads = [threading.Thread(target=body) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert len(totals) == 4
    assert sum(totals) == 3_000


def test_sockets_go_with_their_loop_and_their_store(redis: RedisServer, run: Runner) -> None:
    def clients() -> int:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            gc.collect()
            count = len(redis.cli("CLIENT", "LIST").splitlines()) - 1  # redis-cli's own
            if count == 0:
                break
            time.sleep(0.01)
        return count

    limiter = AsyncLimiter("10/s", store=remote(redis))

    async def once() -> weakref.ref[Any]:
        assert (await limiter.check("k")).outcome != "unavailable"
        return weakref.ref(asyncio.get_running_loop())

    loop = run(once())
    gc.collect()
    assert loop() is None
    assert clients() == 0

    async def many_stores() -> int:
        for _ in range(20):
            assert await AsyncLimiter("10/s", store=remote(redis)).check("k2", 0)
        return await asyncio.to_thread(clients)

    assert run(many_stores()) == 0


def test_a_timeout_of_the_caller_takes_the_check_back(redis: RedisServer, run: Runner) -> None:
    limiter = AsyncLimiter("1/h burst 100", store=remote(redis))

    async def main() -> None:
        await limiter.check("warm")
        redis.pause()
        try:
            waiting = [asyncio.create_task(limiter.check("k")) for _ in range(50)]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(limiter.check("k", 10), 0.05)
            for task in waiting[:40]:
                task.cancel()
            await asyncio.sleep(0)
        finally:
            redis.resume()
        assert all(await asyncio.gather(*waiting[40:]))
        await until(lambda: limiter.peek("k"), 90)

    run(main())


async def until(peek: Callable[[], Awaitable[Any]], remaining: int) -> None:
    deadline = time.monotonic() + 20
    while (decision := await peek()).remaining != remaining:
        assert time.monotonic() < deadline, decision
        await asyncio.sleep(0.005)


def test_cancelling_at_any_moment_loses_nothing(make_store: StoreMaker, run: Runner) -> None:
    """Cancelled checks are given back, whether they were queued, sent or just answered."""

    async def main() -> None:
        store, _ = make_store()
        limiter = AsyncLimiter("1/h burst 1000", store=store)
        kept = 0
        for turns in range(12):
            tasks = [asyncio.create_task(limiter.check("k")) for _ in range(20)]
            for _ in range(turns):
                await asyncio.sleep(0)
            time.sleep(0.0005 * (turns % 4))
            for task in tasks[:10]:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            kept += sum(not isinstance(result, BaseException) for result in done)
        await until(lambda: limiter.peek("k"), 1_000 - kept)
        assert kept >= 12 * 10

    run(main())


def test_cancelling_a_batch_gives_all_of_it_back(redis: RedisServer, run: Runner) -> None:
    async def main() -> None:
        limiter = AsyncLimiter("1/h burst 1000", store=remote(redis))
        kept = 0
        for turns in range(6):
            task = asyncio.create_task(limiter.check_many(["k"] * 100))
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:  # it was as fast as that
                kept += len(await task)
        assert kept < 600
        await until(lambda: limiter.peek("k"), 1_000 - kept)

    run(main())


def test_cancelling_acquire_gives_the_reservation_back(make_store: StoreMaker, run: Runner) -> None:
    async def main() -> None:
        store, _ = make_store()
        limiter = AsyncLimiter("1/min burst 1", store=store)
        await limiter.check("k")
        task = asyncio.create_task(limiter.acquire("k", timeout=None))
        await until_retry_after(limiter, 120.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_retry_after(limiter, 60.0)

    async def until_retry_after(limiter: AsyncLimiter, seconds: float) -> None:
        deadline = time.monotonic() + 20
        while (await limiter.peek("k")).retry_after != seconds:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.005)

    run(main())


def test_other_calls_may_be_cancelled(redis: RedisServer, run: Runner) -> None:
    async def main() -> None:
        limiter = AsyncLimiter("1/h burst 10", store=remote(redis))
        decision = await limiter.check("k")
        for call in (limiter.peek("k"), limiter.refund("k", decision), limiter.reset("k2")):
            task = asyncio.create_task(call)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await limiter.check("k3")).remaining == 9

    run(main())


def test_acquire_keeps_the_rate(redis: RedisServer, run: Runner) -> None:
    async def main() -> None:
        for store in (Store(), remote(redis)):
            limiter = AsyncLimiter("100/s burst 1", store=store)
            before = time.monotonic()
            calls = [limiter.acquire("k", timeout=5) for _ in range(20)]
            assert await admitted(calls) == 20  # type: ignore[arg-type]
            assert time.monotonic() - before >= 0.19
            refused = await limiter.acquire("k2", timeout=0)
            assert refused.allowed

    run(main())


async def longest_gap(task: asyncio.Task[Any]) -> float:
    """The seconds for which the loop ran nothing else at a stretch, until the task was done."""
    longest, last = 0.0, time.monotonic()
    while not task.done():
        await asyncio.sleep(0.002)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    return longest


def test_a_slow_server_never_blocks_the_loop(redis: RedisServer, run: Runner) -> None:
    """C133: neither while it is connected to nor while it is asked."""
    delay = 0.5

    async def main(url: str) -> None:
        limiter = AsyncLimiter("10/h", store=Store(url, deadline=30), failure="error")
        for calls in (1, 100):
            checks = asyncio.gather(*(limiter.check(f"k{calls}") for _ in range(calls)))
            task = asyncio.ensure_future(asyncio.wait_for(checks, 60))
            begin = time.monotonic()
            assert await longest_gap(task) < delay / 2
            assert time.monotonic() - begin >= delay
            assert sum(map(bool, task.result())) == min(calls, 10)

    with SlowProxy(redis.port, delay) as proxy:
        run(main(proxy.url))


def test_a_silent_server_never_blocks_the_loop(redis: RedisServer, run: Runner) -> None:
    """C133: the loop ticks on, and the deadline ends the check."""
    deadline = 1.0

    async def main() -> None:
        limiter = AsyncLimiter("10/s", store=remote(redis, deadline=deadline), failure="error")
        await limiter.check("warm")
        redis.pause()
        try:
            task = asyncio.create_task(limiter.check("k"))
            gap = await longest_gap(task)
            decision = task.result()
        finally:
            redis.resume()
        assert (decision.outcome, decision.reason) == ("unavailable", "timeout")
        assert gap < deadline / 4

    run(main())


def test_a_server_that_is_away_and_comes_back(run: Runner) -> None:
    port = free_port()

    async def main() -> None:
        store = Store(f"redis://127.0.0.1:{port}", deadline=10)
        limiter = AsyncLimiter("1/h burst 100", store=store, failure="error")
        decision = await limiter.check("k")
        assert (decision.outcome, decision.reason) == ("unavailable", "connect")
        with RedisServer(port=port):
            deadline = time.monotonic() + 20
            while not await limiter.check("k"):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            assert await admitted([limiter.check("k") for _ in range(10)]) == 10  # type: ignore[arg-type]
        decision = await limiter.check("k")
        assert decision.outcome == "unavailable"

    run(main())


def test_a_loop_that_closes_with_checks_under_way(redis: RedisServer) -> None:
    limiter = AsyncLimiter("1/h burst 100", store=remote(redis))
    loop = asyncio.new_event_loop()
    task = loop.create_task(limiter.check("k"))
    loop.run_until_complete(asyncio.sleep(0))
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()
    del loop, task
    gc.collect()
    assert asyncio.run(limiter.check("k2")).remaining == 99


def test_the_memory_store_answers_without_suspending() -> None:
    limiter = AsyncLimiter("2/s")
    coroutine = limiter.check("k")
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    assert ended.value.value.remaining == 1


def test_blocking_calls_on_a_loop_warn_once(redis: RedisServer) -> None:
    """C133, in a process of its own: the warning comes once per process."""
    import subprocess
    import sys

    program = f"""
import asyncio, warnings
from saqiya import Limiter, Store
remote = Limiter("10/s", store=Store({redis.url!r}, deadline=10))
local = Limiter("10/s")
async def main():
    local.check("k"); remote.check("k"); remote.peek("k"); remote.check("k")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    remote.check("k")
    assert caught == []
    asyncio.run(main())
assert [w.category for w in caught] == [RuntimeWarning], caught
assert "AsyncLimiter" in str(caught[0].message)
print(remote.peek("k").remaining)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == b"7"


def test_sync_and_async_share_their_state(make_store: StoreMaker, run: Runner) -> None:
    async def main() -> int:
        store, _ = make_store()
        sync = Limiter("1/h burst 10", store=store, name="shared")
        limiter = AsyncLimiter("1/h burst 10", store=store, name="shared")
        taken = await asyncio.to_thread(sync.check, "k", 4)
        assert taken
        decision = await limiter.check("k")
        return decision.remaining

    assert run(main()) == 5

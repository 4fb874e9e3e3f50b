"""Limiters made and used before fork() work in the child, with no call: C130, C131."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from conftest import client_ids

from saqiya import AsyncLimiter, Limiter, Store
from support.redis_server import RedisServer


def run_in_child(work: Callable[[], Any], timeout: float = 60.0) -> Callable[[], Any]:
    """Forks; the child runs work and exits. The returned function waits for its result."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writer)

    def result() -> Any:
        alarm = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
        alarm.start()
        with os.fdopen(reader, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(pid, 0)
        alarm.cancel()
        assert os.waitstatus_to_exitcode(status) == 0
        return pickle.loads(data)

    return result


def admit(limiter: Limiter, key: str, times: int) -> int:
    return sum(bool(limiter.check(key)) for _ in range(times))


def test_the_child_has_an_empty_table_of_its_own() -> None:
    limiter = Limiter("1/h burst 5")
    assert admit(limiter, "k", 3) == 3
    assert run_in_child(lambda: admit(limiter, "k", 10))() == 5
    assert admit(limiter, "k", 10) == 2


@pytest.mark.parametrize("attribute", ["url", "unix_url"])
def test_children_share_redis_with_their_parent(redis: RedisServer, attribute: str) -> None:
    url = getattr(redis, attribute)
    limiter = Limiter("1/h burst 1000", store=Store(url, deadline=10))
    assert admit(limiter, "k", 10) == 10
    children = [run_in_child(lambda: admit(limiter, "k", 500)) for _ in range(8)]
    mine = admit(limiter, "k", 500)
    assert sum(child() for child in children) + mine == 990
    assert limiter.store.stats().connects <= 2  # the parent's connection lived on


def test_answers_do_not_mix(redis: RedisServer) -> None:
    """Each key has a capacity of its own, so that an answer for another key is seen."""
    limiters = {
        size: Limiter(f"1/h burst {size}", store=Store(redis.url, deadline=10))
        for size in range(2, 20)
    }

    def work() -> int:
        wrong = 0
        for _ in range(60):
            for size, limiter in limiters.items():
                wrong += limiter.check(f"k{size}").limit != size
        return wrong

    assert work() == 0
    children = [run_in_child(work) for _ in range(8)]
    assert work() == 0
    assert [child() for child in children] == [0] * 8


def test_forks_while_threads_hammer(redis: RedisServer) -> None:
    local = Limiter("1/min burst 1000000")
    remote = Limiter("1/min burst 1000000", store=Store(redis.url, deadline=10))
    stop = threading.Event()

    def hammer() -> None:
        while not stop.is_set():
            local.check_many([str(i) for i in range(50)])
            remote.check("k")

    threads = [threading.Thread(target=hammer) for _ in range(8)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(500):
            child = run_in_child(lambda: (bool(local.check("k")), bool(remote.check("k"))))
            assert child() == (True, True)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)


def test_grandchildren(redis: RedisServer) -> None:
    limiter = Limiter("1/h burst 100", store=Store(redis.url, deadline=10))

    def child() -> int:
        mine = admit(limiter, "k", 5)
        return mine + int(run_in_child(lambda: admit(limiter, "k", 5))())

    assert admit(limiter, "k", 5) + run_in_child(child)() == 15
    assert limiter.peek("k").remaining == 85


def test_the_parents_connection_is_untouched(redis: RedisServer) -> None:
    """C130: one connection before, the very same after, and each child had another."""
    before = client_ids(redis)  # of earlier tests
    limiter = Limiter("1/h burst 1000", store=Store(redis.url, deadline=10))
    limiter.check("k")
    mine = client_ids(redis) - before
    assert len(mine) == 1

    def child() -> set[str]:
        assert admit(limiter, "k", 20) == 20
        return client_ids(redis)

    for _ in range(10):
        seen = run_in_child(child)()
        assert mine < seen
        assert admit(limiter, "k", 20) == 20
        assert mine <= client_ids(redis)
    assert limiter.store.stats().connects == 1
    assert limiter.peek("k").remaining == 1_000 - 1 - 2 * 200


_inherited: Limiter | None = None


def _use_inherited(_number: int) -> int:
    assert _inherited is not None
    return admit(_inherited, "k", 50)


def test_a_pool_of_processes_inherits_the_limiter(redis: RedisServer) -> None:
    """multiprocessing, by fork."""
    global _inherited
    _inherited = Limiter("1/h burst 200", store=Store(redis.url, deadline=10))
    try:
        assert _inherited.check("k")
        with multiprocessing.get_context("fork").Pool(4) as pool:
            admitted = pool.map(_use_inherited, range(8), chunksize=1)
        assert sum(admitted) == 199
        assert _inherited.store.stats().connects == 1
    finally:
        _inherited = None


def test_an_event_loop_of_the_child(redis: RedisServer) -> None:
    limiter = AsyncLimiter("1/h burst 1000", store=Store(redis.url, deadline=10))

    async def admit_async(times: int) -> int:
        decisions = await asyncio.gather(*(limiter.check("k") for _ in range(times)))
        return sum(map(bool, decisions))

    async def parent() -> int:
        mine = await admit_async(100)
        # The child leaves this loop alone: it runs one of its own.
        child = run_in_child(_outside_loop(lambda: asyncio.run(admit_async(100))))
        mine += await admit_async(100)
        return mine + int(child())

    assert asyncio.run(parent()) == 300
    assert run_in_child(lambda: asyncio.run(admit_async(100)))() == 100


def _outside_loop(work: Callable[[], Any]) -> Callable[[], Any]:
    """Runs work in a thread, since the forking thread is inside a running loop."""

    def outside() -> Any:
        result: list[Any] = []
        thread = threading.Thread(target=lambda: result.append(work()))
        thread.start()
        thread.join(60)
        return result[0]

    return outside


def test_a_child_that_ends_harms_nobody(redis: RedisServer) -> None:
    store = Store(redis.url, deadline=10)
    limiter = Limiter("1/h burst 1000", store=store)
    limiter.check("k")
    for _ in range(10):
        pid = os.fork()
        if pid == 0:
            limiter.check("k")
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        assert limiter.check("k")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and limiter.peek("k").remaining != 979:
        time.sleep(0.01)
    assert limiter.peek("k").remaining == 979
    assert store.stats().connects <= 2

"""Many threads and processes on one key: never more than the limit, nothing lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable

import pytest
from conftest import StoreMaker
from slow_proxy import SlowProxy

from saqiya import Limiter, Store
from support.redis_server import RedisServer

THREADS = 64
PROCESSES = 8


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs work(0) ... work(count - 1) at once; the first exception is raised here."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def body(number: int) -> None:
        try:
            start.wait(60)
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_64_threads_get_exactly_the_capacity(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter("100/h burst 500", store=store)
    admitted = [0] * THREADS

    def work(number: int) -> None:
        for _ in range(40):
            admitted[number] += bool(limiter.check("shared"))

    in_threads(THREADS, work)
    assert sum(admitted) == 500
    clock.advance(36)
    assert limiter.check("shared").remaining == 0
    assert not limiter.check("shared")


def test_threads_that_check_refund_and_reset(make_store: StoreMaker) -> None:
    """Every refund gives back, so the bucket is full at the end, whatever the order."""
    store, _ = make_store()
    limiter = Limiter("1/h burst 1000", store=store)

    def work(_number: int) -> None:
        for _ in range(20):
            decision = limiter.check("shared", 3)
            assert decision
            assert limiter.refund("shared", decision)
            assert limiter.check_many(["a", "b"], 0)

    in_threads(16, work)
    assert limiter.peek("shared").remaining == 1_000


def test_one_decision_is_refunded_by_one_thread(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("1/h burst 1000", store=store)
    limiter.check("k", 900)
    decision = limiter.check("k", 10)
    given: list[bool] = []
    in_threads(32, lambda _number: given.append(bool(limiter.refund("k", decision))))
    assert given.count(True) == 1
    assert limiter.peek("k").remaining == 100


def test_threads_in_real_time(redis: RedisServer) -> None:
    """At most capacity + rate x elapsed, at least what had refilled before the last call began."""
    for store in (Store(), Store(redis.url, deadline=10)):
        limiter = Limiter("1000/s burst 50", store=store, name="real")
        admitted = [0] * THREADS

        def work(number: int, limiter: Limiter = limiter, admitted: list[int] = admitted) -> None:
            for _ in range(100):
                admitted[number] += bool(limiter.check("shared"))

        before = time.monotonic()
        in_threads(THREADS, work)
        elapsed = time.monotonic() - before
        assert 50 <= sum(admitted) <= 50 + 1_000 * elapsed + 1


def test_the_gil_is_free_while_threads_wait(redis: RedisServer) -> None:
    """C135: Redis answers after half a second; meanwhile another thread goes on."""
    with SlowProxy(redis.port, 0.5) as proxy:
        limiter = Limiter("1/h burst 100", store=Store(proxy.url, deadline=20))
        assert limiter.check("k")  # the slow connection is there
        done = threading.Event()
        gaps: list[float] = []

        def tick() -> None:
            last = time.monotonic()
            while not done.is_set():
                time.sleep(0.001)
                now = time.monotonic()
                gaps.append(now - last)
                last = now

        ticker = threading.Thread(target=tick)
        ticker.start()
        admitted: list[bool] = []
        in_threads(16, lambda _number: admitted.append(bool(limiter.check("k"))))
        done.set()
        ticker.join()
        assert sum(admitted) == 16
        # With the GIL held it would have stood still for as long as Redis takes.
        assert max(gaps) < 0.4


def test_an_interrupt_comes_when_the_call_is_over(redis: RedisServer) -> None:
    """A signal's handler does not wait beyond that, which is at the deadline at the latest."""
    with SlowProxy(redis.port, 1.0) as proxy:
        limiter = Limiter("1/h burst 100", store=Store(proxy.url, deadline=20))
        assert limiter.check("k")  # the slow connection is there
        alarm = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        alarm.start()
        with pytest.raises(KeyboardInterrupt):
            limiter.check("k")
        alarm.join()
        assert limiter.check("k").remaining == 97


def _child(url: str, start: multiprocessing.synchronize.Barrier, results: object) -> None:
    limiter = Limiter("1/h burst 300", store=Store(url, deadline=10), name="processes")
    start.wait(60)
    admitted = [0] * 4

    def work(number: int) -> None:
        for _ in range(50):
            admitted[number] += bool(limiter.check("shared"))

    in_threads(4, work)
    results.put(sum(admitted))  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_8_processes_get_exactly_the_capacity(redis: RedisServer, method: str) -> None:
    context = multiprocessing.get_context(method)
    start = context.Barrier(PROCESSES)
    results = context.SimpleQueue()
    children = [
        context.Process(target=_child, args=(redis.url, start, results)) for _ in range(PROCESSES)
    ]
    for child in children:
        child.start()
    admitted = [results.get() for _ in children]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert sum(admitted) == 300
    (key,) = redis.keys()
    assert int(redis.cli("PTTL", key)) > 299 * 3_600_000

"""Run by test_gevent.py: every call that waits for Redis, in greenlets.

green_program.py gevent|eventlet URL SLOW-URL
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for support
library, url, slow_url = sys.argv[1:]
if library == "gevent":
    import gevent.monkey

    gevent.monkey.patch_all()
    import gevent as green
    from gevent import Timeout
else:
    warnings.simplefilter("ignore")  # it calls itself deprecated
    import eventlet as green

    green.monkey_patch()
    from eventlet import Timeout
warnings.simplefilter("error")

from concurrent.futures import ThreadPoolExecutor  # noqa: E402

from saqiya import (  # noqa: E402
    Limiter,
    SaqiyaError,
    Store,
    _green,
    acquire_all,
    check_all,
    peek_all,
    refund_all,
)
from support.redis_server import RedisServer  # noqa: E402


def join(count: int, work: object) -> list[object]:
    """Runs work(0) ... work(count - 1) in greenlets."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))  # type: ignore[arg-type]


def raises(kind: type[BaseException], call: object, *arguments: object) -> None:
    try:
        call(*arguments)  # type: ignore[operator]
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


green.sleep(0)  # there is a hub from here on
assert _green.is_here()

store = Store(url, deadline=20)
limiter = Limiter("1/h burst 100", store=store, name="green")
other = Limiter("1/h burst 100; 1/min burst 50", store=store, name="other")
slots = Limiter("concurrency: 2 ttl 60s", store=store, name="slots")


def every_call() -> None:
    first = limiter.check("k", cost=4)
    assert (first.outcome, first.remaining) == ("allowed", 96)
    assert limiter.peek("k", 97).outcome == "denied"
    assert limiter.refund("k", first).remaining == 100
    assert limiter.refund("k", first).outcome == "denied"
    assert limiter.settle("k", limiter.check("k"), 10)
    assert limiter.reserve("k", 90, 0).remaining == 0
    assert limiter.acquire("k", timeout=0.01).outcome == "denied"
    assert limiter.reset("k").remaining == 100
    assert limiter.check(b"k", 101).outcome == "never"
    assert [d.remaining for d in limiter.check_many(["a", "b", "a"], cost=2)] == [98, 98, 96]
    assert other.check("k").remaining == 49
    assert len(other.check("k").rules) == 2
    with slots.hold("k") as lease:
        assert lease
        assert slots.renew("k", lease)
        assert slots.peek("k", 2).outcome == "denied"
    assert slots.peek("k", 2)
    items = [(limiter, "x"), (other, "y", 2)]
    both = check_all(iter(items))
    assert [d.remaining for d in both.items] == [99, 48]
    assert peek_all(items).outcome == "allowed"
    assert refund_all(items, both)
    assert acquire_all(items, timeout=0)
    raises(TypeError, limiter.check, 5)
    raises(TypeError, limiter.check, "k", "1")
    raises(TypeError, limiter.check)
    raises(TypeError, limiter.refund, "k", None)
    raises(TypeError, limiter.check_many, "k")
    raises(SaqiyaError, limiter.check, "k", -1)


every_call()


def exact_count() -> None:
    """And what many greenlets ask in one turn travels together."""
    limiter.check("warm")
    before = store.stats()
    admitted = join(300, lambda _: bool(limiter.check("many")))
    assert sum(map(bool, admitted)) == 100
    assert store.stats().connects == before.connects
    assert store.stats().batches - before.batches < 150


exact_count()


def greenlets_that_leave() -> None:
    """A Timeout takes the check back, and the others are not harmed."""
    slow = Limiter("1/h burst 100", store=Store(slow_url, deadline=20), name="leave")
    assert slow.check("k")

    def ask(number: int) -> bool:
        if number % 2 == 1:
            return bool(slow.check("k"))
        try:
            with Timeout(0.05):
                slow.check("k")
        except Timeout:
            return False
        raise AssertionError("a check came too soon")

    assert sum(map(bool, join(20, ask))) == 10
    end = time.monotonic() + 20
    while slow.peek("k").remaining != 89:
        assert time.monotonic() < end


greenlets_that_leave()


def a_child() -> None:
    mine = limiter.check("fork").remaining
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if limiter.check("fork").remaining == mine - 1 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert limiter.check("fork").remaining == mine - 2


if library == "gevent":  # eventlet calls fork a bad idea
    a_child()


def without_a_hub() -> None:
    """A native thread has no greenlets to hold up: its calls wait by themselves."""
    if library == "gevent":
        here, decision = green.get_hub().threadpool.apply(
            lambda: (_green.is_here(), limiter.check("thread"))
        )
    else:
        from eventlet import tpool

        here, decision = tpool.execute(lambda: (_green.is_here(), limiter.check("thread")))
    assert not here
    assert decision.remaining == 99


without_a_hub()


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def stores_that_come_and_go() -> None:
    def work() -> None:
        assert Limiter("1/h burst 100", store=Store(url, deadline=20)).check("go").allowed

    work()
    green.sleep(0.01)  # what drove the connection ends
    before = descriptors()
    for _ in range(20):
        work()
    green.sleep(0.01)
    assert descriptors() <= before


stores_that_come_and_go()


def an_outage() -> None:
    """Greenlets are answered at once, and by Redis again when it is back."""
    with RedisServer() as server:
        here = Limiter("1/h burst 1000", store=Store(server.url), name="outage")
        assert here.check("k").source == "store"
        server.kill()
        admitted = join(200, lambda _: here.check("k"))
        assert {(d.outcome, d.source) for d in admitted} == {("allowed", "local")}
        server.start()
        end = time.monotonic() + 20
        while here.check("k").source != "store":
            assert time.monotonic() < end
            green.sleep(0.01)


def an_outage_holds_up_nobody() -> None:
    """Those who try to connect, and wait for it, leave the others running."""
    with RedisServer() as server:
        here = Limiter("1/h burst 1000", store=Store(server.url, deadline=2), name="away")
        assert here.check("k").source == "store"
        server.pause()
        stop = False
        longest = 0.0

        def tick() -> None:
            nonlocal longest
            before = time.monotonic()
            while not stop:
                green.sleep(0.001)
                longest = max(longest, time.monotonic() - before)
                before = time.monotonic()

        def ask(number: int) -> None:
            for _ in range(20):
                assert here.check(f"k{number}").source == "local"
                green.sleep(0.005)

        with ThreadPoolExecutor(1) as pool:
            ticking = pool.submit(tick)
            join(10, ask)
            stop = True
            ticking.result()
        # One that blocked would have held it up for a deadline, or for the part of it that is
        # given to a new connection.
        assert longest < 0.4, longest
        server.resume()


def each_has_its_own_deadline() -> None:
    """Also the one that comes while another one, which may wait longer, is under way."""
    with RedisServer() as server:
        patient = Limiter("1/h", store=Store(server.url, deadline=20), name="patient")
        hasty = Limiter("1/h", store=patient.store, name="hasty", deadline=0.2)
        assert patient.check("warm").source == "store"
        server.pause()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(patient.check, "k")
            green.sleep(0.05)
            begin = time.monotonic()
            assert hasty.check("k").source == "local"
            assert time.monotonic() - begin < 5
            server.resume()
            waiting.result()


logging.getLogger("saqiya").addHandler(logging.NullHandler())
each_has_its_own_deadline()
an_outage()
an_outage_holds_up_nobody()
print("done")

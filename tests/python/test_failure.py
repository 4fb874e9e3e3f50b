"""What limiters do while Redis does not answer: C44, C47-C53, C165."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import START

from saqiya import (
    AsyncLimiter,
    Decision,
    Limiter,
    ManualClock,
    Store,
    check_all,
    peek_all,
    refund_all,
)
from support.redis_server import RedisServer, free_port

Numbers = tuple[int, int, int, int, int]


def numbers(decision: Decision) -> Numbers:
    return (
        *(decision.limit, decision.remaining, decision.retry_after_us),
        *(decision.reset_after_us, decision.delay_us),
    )


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One to be killed."""
    with RedisServer() as server:
        yield server


@pytest.fixture
def away() -> str:
    """The URL of a server that is not there."""
    return f"redis://127.0.0.1:{free_port()}"


class Calls:
    """The calls of a Limiter, or of an AsyncLimiter on a loop of its own."""

    def __init__(self, kind: str, url: str, policy: str, **options: Any) -> None:
        store = Store(url, deadline=2)
        make = Limiter if kind == "sync" else AsyncLimiter
        self.store = store
        self._limiter: Any = make(policy, store=store, **options)
        self._loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = getattr(self._limiter, name)(*arguments, **named)
            return self._loop.run_until_complete(result) if _is_awaitable(result) else result

        return call

    def close(self) -> None:
        self._loop.close()


def _is_awaitable(result: Any) -> bool:
    return hasattr(result, "__await__")


Maker = Callable[..., Calls]


@pytest.fixture(params=["sync", "async"])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    made: list[Calls] = []

    def maker(url: str, policy: str, **options: Any) -> Calls:
        made.append(Calls(request.param, url, policy, **options))
        return made[-1]

    yield maker
    for calls in made:
        calls.close()


def test_local_is_the_default(make: Maker, away: str) -> None:
    limiter = make(away, "1/h burst 3")
    for remaining in (2, 1, 0):
        decision = limiter.check("k")
        assert (decision.outcome, decision.source) == ("allowed", "local")
        assert decision.reason == "connect"
        assert (decision.limit, decision.remaining) == (3, remaining)
    decision = limiter.check("k")
    assert (decision.outcome, decision.source, decision.reason) == ("denied", "local", "connect")
    assert decision.retry_after > 3_500
    assert limiter.http_status(decision) == 429
    assert limiter.http_headers(decision)["X-RateLimit-Limit"] == "3"
    assert limiter.check("k", 4).outcome == "never"
    assert limiter.peek("k").source == "local"
    assert limiter.check("another").remaining == 2


def test_open(make: Maker, away: str) -> None:
    limiter = make(away, "1/h burst 3", failure="open")
    for decision in [limiter.check("k") for _ in range(10)] + [limiter.peek("k")]:
        assert (decision.outcome, decision.source, decision.reason) == (
            *("allowed", "open", "connect"),
        )
        assert numbers(decision) == (0, 0, 0, 0, 0)
        assert limiter.http_status(decision) == 200
        assert limiter.http_headers(decision) == {}
        assert limiter.http_body(decision) == ""
    assert limiter.check("k", 4).outcome == "never"
    assert limiter.store.stats().opened == 10


def test_closed(make: Maker, away: str) -> None:
    """C49, C105: 503 with a short Retry-After, and no rate fields."""
    limiter = make(away, "1/h burst 3", failure="closed")
    for decision in (limiter.check("k"), limiter.peek("k")):
        assert (decision.outcome, decision.source, decision.reason) == (
            *("denied", "closed", "connect"),
        )
        assert 1 <= decision.retry_after <= 5
        assert numbers(decision) == (0, 0, decision.retry_after_us, 0, 0)
        assert limiter.http_status(decision) == 503
        headers = limiter.http_headers(decision)
        assert set(headers) == {"Retry-After"}
        assert 1 <= int(headers["Retry-After"]) <= 5
        assert "unavailable" in limiter.http_body(decision)
    assert limiter.check("k", 4).outcome == "never"
    assert limiter.store.stats().closed == 1


def test_error(make: Maker, away: str) -> None:
    limiter = make(away, "1/h burst 3", failure="error")
    for decision in (limiter.check("k"), limiter.peek("k")):
        assert (decision.outcome, decision.source, decision.reason) == (
            *("unavailable", "store", "connect"),
        )
        assert numbers(decision) == (0, 0, 0, 0, 0)
        assert limiter.http_status(decision) == 503
        assert set(limiter.http_headers(decision)) == {"Retry-After"}


@pytest.mark.parametrize("failure", ["local", "open", "closed", "error"])
def test_no_call_raises(make: Maker, server: RedisServer, failure: str) -> None:
    """C50: every call has an answer, under every policy."""
    limiter = make(server.url, "1/h burst 9", failure=failure)
    slots = make(server.url, "concurrency: 3 ttl 60s", failure=failure)
    taken, lease = limiter.check("k"), slots.check("k")
    server.kill()
    decisions = [
        *(limiter.check("k"), limiter.peek("k"), limiter.acquire("k", timeout=0.01)),
        *limiter.check_many(["a", "b"]),
    ]
    assert {d.source for d in decisions} == {"store" if failure == "error" else failure}
    for decision in (
        limiter.refund("k", taken),
        limiter.settle("k", limiter.check("k"), 2),
        limiter.reset("k"),
        slots.renew("k", lease),
        slots.release("k", lease),
    ):
        assert decision.outcome in ("allowed", "denied", "unavailable")
    # What Redis certainly did not do can be asked of it again.
    server.start()
    deadline = time.monotonic() + 20
    while limiter.peek("k").source != "store" or limiter.peek("k").reason is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("policy", "options", "limit"),
    [
        ("100/h", {}, 100),
        ("100/h", {"share": 0.25}, 25),
        ("100/h", {"share": 1 / 3}, 33),
        ("100/h", {"share": 0.001}, 1),
        ("0/h", {"share": 0.5}, 0),
        ("100/h", {"fallback": "10/h"}, 10),
        ("100/h", {"fallback": "1000/h burst 200"}, 200),
        ("fixed-window: 100/h", {"share": 0.25}, 25),
        ("sliding-window: 100/h", {"share": 0.25}, 25),
        ("sliding-log: 100/h", {"share": 0.25}, 25),
        ("concurrency: 100 ttl 1h", {"share": 0.25}, 25),
        ("concurrency: 100 ttl 1h", {"fallback": "5/h"}, 5),
        ("100/h; 60/min", {"share": 0.5}, 30),
    ],
)
def test_the_share(away: str, policy: str, options: dict[str, Any], limit: int) -> None:
    """C52: limits are what the documented formula says: share x limit, rounded down, at least 1."""
    store = Store(away, clock=ManualClock(START), testing=True)
    limiter = Limiter(policy, store=store, **options)
    decisions = [limiter.check("k") for _ in range(limit + 5)]
    assert [bool(d) for d in decisions] == [True] * limit + [False] * 5
    assert {d.source for d in decisions} == ({"local"} if limit else {"store"})


def test_the_rate_has_its_share(away: str) -> None:
    clock = ManualClock(START)
    limiter = Limiter("100/s", store=Store(away, clock=clock, testing=True), share=0.25)
    assert sum(bool(limiter.check("k")) for _ in range(50)) == 25
    admitted = 0
    for _ in range(100):
        clock.advance(0.01)
        admitted += bool(limiter.check("k"))
    assert admitted == 25
    assert limiter.check("k").retry_after == 0.04


def test_tickets_stay_with_their_table(make: Maker, server: RedisServer) -> None:
    limiter = make(server.url, "1/h burst 10")
    of_redis = limiter.check("k", 4)
    server.kill()
    local = limiter.check("k", 3)
    assert (local.source, local.remaining) == ("local", 7)
    assert limiter.refund("k", of_redis).outcome == "unavailable"
    assert limiter.refund("k", local).remaining == 10
    held = limiter.check("k", 5)
    server.start()
    deadline = time.monotonic() + 20
    while limiter.peek("k").source != "store":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert limiter.check("k", 2).remaining == 8  # the server was started empty
    refunded = limiter.refund("k", held)  # after the recovery, too
    assert refunded.outcome == "allowed"
    assert limiter.peek("k").remaining == 8


def test_what_was_certainly_not_done_can_be_done_later(make: Maker, server: RedisServer) -> None:
    """A refund that found no connection spends nothing; one that was done, does."""
    limiter = make(server.url, "1/h burst 10; 1/day burst 20")
    slots = make(server.url, "concurrency: 2 ttl 1h")
    taken, lease = limiter.check("k", 4), slots.check("k")
    gone = limiter.check("k", 1)
    assert limiter.refund("k", gone)
    server.cli("SAVE")
    server.kill()
    for _ in range(3):
        for decision in (limiter.refund("k", taken), slots.release("k", lease)):
            assert (decision.outcome, decision.reason) == ("unavailable", "connect")
        assert limiter.refund("k", gone).outcome != "allowed"
    server.start()
    deadline = time.monotonic() + 20
    while any(d.source != "store" or d.reason for d in (limiter.peek("k"), slots.peek("k"))):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert limiter.peek("k").remaining == 6
    assert limiter.refund("k", gone).outcome == "denied"
    assert limiter.refund("k", taken).outcome == "allowed"
    assert limiter.refund("k", taken).outcome == "denied"
    assert limiter.peek("k").remaining == 10
    assert slots.release("k", lease).outcome == "allowed"
    assert slots.release("k", lease).outcome == "denied"


def test_several_limiters(away: str) -> None:
    store = Store(away)
    local = Limiter("1/h burst 5", store=store)
    opened = Limiter("1/h burst 1", store=store, failure="open")
    closed = Limiter("1/h burst 5", store=store, failure="closed")
    error = Limiter("1/h burst 5", store=store, failure="error")
    both = [(local, "k"), (opened, "k")]
    for remaining in (4, 3):
        decision = check_all(both)
        assert (decision.outcome, decision.source, decision.remaining) == (
            *("allowed", "local", remaining),
        )
        assert decision.item == 0
    assert refund_all(both, decision)
    assert local.peek("k").remaining == 4
    assert peek_all([(opened, "k"), (opened, "j")]).source == "open"
    assert check_all([(local, "k"), (closed, "k")]).source == "closed"
    assert check_all([(local, "k"), (closed, "k"), (error, "k")]).outcome == "unavailable"
    assert local.peek("k").remaining == 4


def test_every_counter(make: Maker, server: RedisServer) -> None:
    """C165."""
    store_of = make(server.url, "1/h burst 3", deny_cache=False)
    limiters = {
        failure: make(server.url, "1/h burst 3", failure=failure, name=failure)
        for failure in ("local", "open", "closed", "error")
    }
    for _ in range(5):
        store_of.check("k")
    store_of.peek("k")
    stats = store_of.store.stats()
    assert (stats.allowed, stats.denied, stats.cached, stats.failures) == (3, 2, 0, 0)
    assert sum(stats.latency) == 6
    assert not stats.degraded
    server.kill()
    found = {}
    for failure, limiter in limiters.items():
        for _ in range(5):
            limiter.check("k")
        limiter.peek("k")
        stats = limiter.store.stats()
        assert stats.failures == 6
        assert (stats.degraded, stats.outages, stats.allowed) == (True, 1, 0)
        found[failure] = (*(stats.local_allowed, stats.local_denied, stats.opened, stats.closed),)
    assert found == {
        "local": (3, 2, 0, 0),
        "open": (0, 0, 5, 0),
        "closed": (0, 0, 0, 5),
        "error": (0, 0, 0, 0),
    }
    server.start()
    limiter = limiters["local"]
    deadline = time.monotonic() + 20
    while limiter.check("again").source != "store":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    stats = limiter.store.stats()
    assert (stats.degraded, stats.outages, stats.allowed) == (False, 1, 1)


def test_refusals_are_remembered(make: Maker, server: RedisServer) -> None:
    limiter = make(server.url, "1/h burst 3")
    sources = [limiter.check("k").source for _ in range(50)]
    assert sources[:4] == ["store"] * 4
    assert "cache" in sources[4:]
    decision = limiter.check("k")
    assert decision.outcome == "denied"
    assert decision.retry_after > 3_500
    assert limiter.http_status(decision) == 429
    stats = limiter.store.stats()
    assert stats.cached == sources.count("cache") + (decision.source == "cache")
    assert stats.cached + stats.denied + stats.allowed == 51
    assert limiter.reset("k")
    assert limiter.check("k").outcome == "allowed"
    always = make(server.url, "1/h burst 3", name="always", deny_cache=False)
    assert {always.check("k").source for _ in range(20)} == {"store"}


def test_it_starts_while_redis_is_down(make: Maker) -> None:
    """C44, C53: nothing fails, and Redis is used as soon as it is there."""
    port = free_port()
    limiter = make(f"redis://127.0.0.1:{port}", "1/h burst 100")
    assert limiter.check("k").source == "local"
    with RedisServer(port=port) as server:
        deadline = time.monotonic() + 20
        while limiter.check("k").source != "store":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(server.keys()) == 1


def test_the_log(make: Maker, server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """C164: a line when Redis goes, one when it is back, however many requests come meanwhile."""
    caplog.set_level(logging.INFO, "saqiya")
    limiter = make(server.url, "1000/s")
    assert limiter.check("secret-key")
    assert caplog.records == []
    server.kill()
    for _ in range(5_000):
        limiter.check("secret-key")
    server.start()
    deadline = time.monotonic() + 20
    while limiter.check("secret-key").source != "store":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    limiter.check("secret-key")
    assert 2 <= len(caplog.records) <= 5
    assert all(record.name == "saqiya" for record in caplog.records)
    first, last = caplog.records[0], caplog.records[-1]
    assert (first.levelno, last.levelno) == (logging.WARNING, logging.INFO)
    assert f"127.0.0.1:{server.port}" in first.getMessage()
    values: dict[str, Any] = last.__dict__["saqiya"]
    assert values["event"] == "recovered"
    assert values["decisions"] >= 5_000
    assert values["duration"] > 0
    assert abs(values["at"] - time.time()) < 60
    assert first.__dict__["saqiya"]["reason"] in ("connect", "lost")
    assert "secret-key" not in caplog.text


def test_a_password_that_is_refused_is_not_told(
    make: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer(password="right") as server:
        limiter = make(server.url.replace("//", "//:hunter2@"), "1000/s")
        for _ in range(10):
            decision = limiter.check("k")
            assert (decision.source, decision.reason) == ("local", "auth")
    assert 1 <= len(caplog.records) <= 5
    assert "hunter2" not in caplog.text

"""The limiter's methods, on every store."""

from __future__ import annotations

import inspect
import math
from datetime import timedelta

import pytest
from conftest import StoreMaker

import saqiya
from saqiya import Limiter, ManualClock, SaqiyaError, Store, TokenBucket


def test_checks_until_empty_and_again_after_the_wait(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter("5/s burst 20", store=store)
    decisions = [limiter.check("user:42") for _ in range(30)]
    assert [d.allowed for d in decisions] == [True] * 20 + [False] * 10
    assert [d.remaining for d in decisions[:20]] == list(range(19, -1, -1))
    refused = decisions[-1]
    assert (refused.outcome, refused.limit, refused.remaining) == ("denied", 20, 0)
    assert (refused.retry_after, refused.reset_after) == (0.2, 4.0)
    clock.advance(1)
    assert sum(bool(limiter.check("user:42")) for _ in range(10)) == 5


def test_a_unix_socket(make_unix_store: StoreMaker) -> None:
    store, clock = make_unix_store()
    limiter = Limiter("5/s burst 20", store=store)
    assert sum(bool(limiter.check("user:42")) for _ in range(30)) == 20
    clock.advance(1)
    assert limiter.check("user:42").remaining == 4


def test_keys_and_names_are_apart(make_store: StoreMaker) -> None:
    store, _ = make_store()
    first = Limiter("1/s", store=store, name="first")
    second = Limiter("1/s", store=store, name="second")
    same = Limiter("1/s", store=store, name="first")
    assert first.check("a")
    assert not same.check("a")
    assert first.check("b")
    assert second.check("a")
    assert (first.name, Limiter("1/s", store=store).name) == ("first", None)


def test_text_and_bytes_of_one_key_are_one_key(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("10/s", store=store)
    for key in ("plain", "Nile \u0627 \U0001faa3", "", "{a}:%", "zero\0inside", "x" * 65_536):
        assert limiter.check(key).remaining == 9
        assert limiter.check(key.encode()).remaining == 8
    assert limiter.check(b"\xff\x00 not text").remaining == 9


def test_peek_charges_nothing(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("10/s", store=store)
    limiter.check("k", 8)
    for _ in range(3):
        assert (limiter.peek("k", 2).outcome, limiter.peek("k", 2).remaining) == ("allowed", 2)
        assert limiter.peek("k", 3).retry_after == 0.1
        assert limiter.peek("k", cost=11).outcome == "never"


def test_refund_and_reset(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("10/s", store=store)
    decision = limiter.check("k", 4)
    assert limiter.peek("k").remaining == 6
    given = limiter.refund("k", decision)
    assert (given.outcome, given.remaining) == ("allowed", 10)
    again = limiter.refund("k", decision)
    assert (again.outcome, again.remaining) == ("denied", 10)
    limiter.check("k", 10)
    assert limiter.reset("k").remaining == 10
    assert limiter.check("k", 10)


def test_check_many_decides_in_order(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("3/s", store=store)
    decisions = limiter.check_many(["a", "b", b"a", "a", "a"], cost=1)
    assert [d.outcome for d in decisions] == ["allowed"] * 4 + ["denied"]
    assert [d.remaining for d in decisions] == [2, 2, 1, 0, 0]
    assert limiter.refund("b", decisions[1]).remaining == 3
    assert limiter.check_many(iter(["c"]), 3)[0].remaining == 0
    assert limiter.check_many([]) == []
    many = limiter.check_many([f"user:{i}" for i in range(3_000)])
    assert all(many)


def test_check_many_charges_nothing_when_a_key_is_wrong(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("3/s", store=store)
    with pytest.raises(TypeError):
        limiter.check_many(["a", 5])  # type: ignore[list-item]
    for one_key in ("abc", b"abc"):
        with pytest.raises(TypeError, match="iterable"):
            limiter.check_many(one_key)  # type: ignore[arg-type]
    assert limiter.peek("a").remaining == 3


def test_reserve_takes_now_and_tells_the_delay(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter("1/s burst 1", store=store)
    assert limiter.reserve("k", 1, 0).delay == 0.0
    second = limiter.reserve("k", 1, 5_000_000)
    third = limiter.reserve("k", 1, 5_000_000)
    assert (second.allowed, second.delay, third.delay, third.delay_us) == (True, 1, 2, 2_000_000)
    assert not limiter.reserve("k", 1, 2_999_999)
    assert limiter.refund("k", second).outcome == "denied"  # others queue behind it
    assert limiter.refund("k", third).outcome == "allowed"
    clock.advance(1)
    assert limiter.reserve("k", 1, 1_000_000).delay == 1.0


def test_acquire_waits_for_its_turn(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("20/s burst 1", store=store)
    assert limiter.acquire("k", timeout=0).delay == 0.0
    assert limiter.acquire("k", timeout=1).delay == 0.05
    assert limiter.acquire("k", 1, timeout=timedelta(seconds=1)).delay == 0.1
    refused = limiter.acquire("k", timeout=0.01)
    assert (refused.outcome, refused.delay) == ("denied", 0.0)
    never = limiter.acquire("k", 2, timeout=None)
    assert (never.outcome, never.retry_after) == ("never", math.inf)
    with pytest.raises(SaqiyaError):
        limiter.acquire("k", timeout=-1)
    with pytest.raises(SaqiyaError):
        limiter.acquire("k", timeout=math.nan)
    with pytest.raises(TypeError):
        limiter.acquire("k")  # type: ignore[call-arg]


def test_acquire_gives_back_when_interrupted(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = make_store()
    limiter = Limiter("1/min burst 1", store=store)
    limiter.check("k")

    def interrupted(_seconds: float) -> None:
        assert limiter.peek("k").retry_after == 120.0
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        limiter.acquire("k", timeout=None)
    assert limiter.peek("k").retry_after == 60.0


def test_zero_refuses_all_and_unlimited_none() -> None:
    zero = Limiter("0/s").check("k")
    assert (zero.outcome, zero.limit, zero.retry_after) == ("never", 0, math.inf)
    unlimited = Limiter("unlimited")
    decision = unlimited.check("k", 2**53 - 1)
    assert decision
    assert decision.limit == decision.remaining == 2**53 - 1
    assert unlimited.http_headers(decision) == {}


def test_a_limiter_without_a_store_has_its_own() -> None:
    first, second = Limiter("1/s"), Limiter("1/s")
    assert first.check("k")
    assert second.check("k")
    assert not first.check("k")


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "memory://"])
def test_limiters_of_one_url_share_a_store(url: str) -> None:
    first = Limiter("1/s", store=url)
    second = Limiter("2/s", store=url)
    assert first.store is second.store
    assert first.store is not Limiter("1/s", store="redis://127.0.0.1:2").store
    assert first.is_local == (url == "memory://")


def test_limiters_of_one_memory_url_share_their_counts() -> None:
    first, second = Limiter("1/h", store="memory://"), Limiter("1/h", store="memory://")
    assert first.check("k")
    assert not second.check("k")
    assert Limiter("1/h").check("k")
    del first, second  # the table goes with the last of them
    assert Limiter("1/h", store="memory://").check("k")


def test_http_of_a_decision() -> None:
    limiter = Limiter("5/s burst 20", store=Store(clock=ManualClock()), name="api")
    allowed = limiter.check("k", 20)
    assert limiter.http_status(allowed) == 200
    assert limiter.http_body(allowed) == ""
    assert limiter.http_headers(allowed) == {
        "X-RateLimit-Limit": "20",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": "4",
        "RateLimit": '"api";r=0;t=1',
        "RateLimit-Policy": '"api";q=20;w=4',
    }
    refused = limiter.check("k", 7)
    assert limiter.http_status(refused) == 429
    assert limiter.http_body(refused).startswith('{"error":"rate_limited",')
    assert limiter.http_headers(refused)["Retry-After"] == "2"
    assert set(limiter.http_headers(refused, 1)) == {
        "Retry-After",
        "X-RateLimit-Limit",
        "X-RateLimit-Remaining",
        "X-RateLimit-Reset",
    }
    assert set(limiter.http_headers(refused, fields=2)) == {
        "Retry-After",
        "RateLimit",
        "RateLimit-Policy",
    }
    assert "Retry-After" not in limiter.http_headers(limiter.check("k", 21))  # never


def test_a_store_that_fails_is_an_answer_not_an_exception() -> None:
    store = Store("redis://127.0.0.1:1", deadline=10)
    limiter = Limiter("5/s", store=store, failure="error")
    decision = limiter.check("k")
    assert not decision
    assert (decision.outcome, decision.reason) == ("unavailable", "connect")
    assert (decision.limit, decision.remaining, decision.retry_after) == (0, 0, 0.0)
    for answer in (
        limiter.peek("k"),
        limiter.refund("k", decision),
        limiter.reset("k"),
        limiter.acquire("k", timeout=0),
        *limiter.check_many(["a", "b"]),
    ):
        assert answer.outcome == "unavailable"
    assert limiter.check("k", 6).outcome == "never"
    assert limiter.http_status(decision) == 503
    assert "rate_limiter_unavailable" in limiter.http_body(decision)
    assert "X-RateLimit-Limit" not in limiter.http_headers(decision)


def test_repr_and_signatures() -> None:
    limiter = Limiter(TokenBucket(20, 5, 1.0), name="api")
    assert repr(limiter) == f"Limiter({limiter.policy!r}, name='api')"
    assert Limiter(limiter.policy).policy == limiter.policy
    assert str(inspect.signature(limiter.check)) == "(key, cost=1)"
    assert str(inspect.signature(limiter.refund)) == "(key, decision)"
    assert inspect.getdoc(saqiya.Decision)
    assert saqiya.__version__.count(".") == 2


def test_a_limiter_that_was_not_initialised_raises() -> None:
    empty = Limiter.__new__(Limiter)
    for call in (
        lambda: empty.check("k"),
        lambda: empty.peek("k"),
        lambda: empty.reserve("k", 1, 0),
        lambda: empty.reset("k"),
        lambda: empty.check_many(["k"]),
        lambda: empty.policy,
        lambda: empty.http_status(Limiter("1/s").check("k")),
    ):
        with pytest.raises(RuntimeError, match="not initialised"):
            call()
    ready = Limiter("1/s")
    with pytest.raises(RuntimeError, match="twice"):
        ready.__init__("2/s")  # type: ignore[misc]
    assert ready.check("k")


def test_stats_count() -> None:
    store, _ = Store(max_keys=1_000), None
    limiter = Limiter("1/h", store=store)
    limiter.check_many([str(i) for i in range(5_000)])
    stats = store.stats()
    assert 0 < stats.keys <= 1_000
    assert stats.evictions == 5_000 - stats.keys
    assert stats.bytes > 0
    assert repr(store) == "<saqiya.Store memory>"

"""What is refused before anything is charged: C20, C22, C40, C157."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from conftest import StoreMaker

from saqiya import AsyncLimiter, Limiter, ManualClock, SaqiyaError, Store, TokenBucket, check_all
from support import vectors

NOT_INTS: list[Any] = [True, False, 0.5, 1.0, math.nan, math.inf, "3", None, b"1", [1], 1j]
OUT_OF_RANGE = [-1, -(2**63), -(2**64), 2**53, 2**63, 2**64]


@pytest.mark.parametrize("cost", NOT_INTS)
def test_a_cost_of_another_type_is_a_type_error(make_store: StoreMaker, cost: Any) -> None:
    store, _ = make_store()
    limiter = Limiter("5/s", store=store)
    for call in (limiter.check, limiter.peek):
        with pytest.raises(TypeError, match="cost must be an int"):
            call("k", cost)
        with pytest.raises(TypeError, match="cost must be an int"):
            call("k", cost=cost)
    with pytest.raises(TypeError, match="cost must be an int"):
        limiter.check_many(["k"], cost)
    with pytest.raises(TypeError, match="cost must be an int"):
        limiter.acquire("k", cost, timeout=0)
    assert limiter.peek("k").remaining == 5


@pytest.mark.parametrize("cost", OUT_OF_RANGE)
def test_a_cost_out_of_range_is_a_value_error(make_store: StoreMaker, cost: int) -> None:
    store, _ = make_store()
    limiter = Limiter("5/s", store=store)
    for call in (limiter.check, limiter.peek):
        with pytest.raises(ValueError, match="cost") as caught:
            call("k", cost)
        assert isinstance(caught.value, SaqiyaError)
        assert caught.value.code == "invalid"
    with pytest.raises(SaqiyaError):
        limiter.check_many(["k"], cost=cost)
    assert limiter.peek("k").remaining == 5


def test_edges_of_the_cost() -> None:
    limiter = Limiter("5/s")
    assert limiter.check("k", 0).remaining == 5
    assert limiter.check("k", 2**53 - 1).outcome == "never"

    class Tokens(int):
        pass

    assert limiter.check("k", Tokens(2)).remaining == 3


@pytest.mark.parametrize("key", [None, 5, 1.5, ["k"], bytearray(b"k"), memoryview(b"k"), object()])
def test_a_key_of_another_type_is_a_type_error(key: Any) -> None:
    limiter = Limiter("5/s")
    calls: list[Any] = [limiter.check, limiter.peek, limiter.reset]
    for call in calls:
        with pytest.raises(TypeError, match="key must be str or bytes"):
            call(key)


def test_a_key_that_is_not_unicode_is_an_error() -> None:
    limiter = Limiter("5/s")
    for key in ("\ud800", "a\udfffb"):
        with pytest.raises(UnicodeEncodeError):
            limiter.check(key)


@pytest.mark.parametrize("policy", ["5/s", "5/s; 9/h"])
@pytest.mark.parametrize("key", ["k" * 65_537, b"k" * 65_537, "\u00e9" * 32_769], ids=len)
def test_a_key_that_is_too_long_is_an_error(policy: str, key: Any) -> None:
    limiter = Limiter(policy)
    decision = limiter.check("k")
    calls: list[Callable[[], Any]] = [
        lambda: limiter.check(key),
        lambda: limiter.peek(key),
        lambda: limiter.acquire(key, timeout=0),
        lambda: limiter.refund(key, decision),
        lambda: limiter.settle(key, decision, 1),
        lambda: limiter.release(key, decision),
        lambda: limiter.renew(key, decision),
        lambda: limiter.reset(key),
        lambda: limiter.check_many([key]),
        lambda: check_all([(limiter, key)]),
    ]
    for call in calls:
        with pytest.raises(SaqiyaError, match="a key must have at most 65,536 bytes"):
            call()
    assert limiter.refund("k", decision)  # not spent by the calls that failed
    assert limiter.check(key[:30_000])


def test_a_clock_out_of_its_range_says_so() -> None:
    clock = ManualClock(5)
    wrong: list[Callable[[], Any]] = [
        lambda: ManualClock(-1),
        lambda: clock.advance(-6),
        lambda: clock.advance_us(2**52),
        lambda: clock.set(-0.001),
        lambda: clock.set_us(2**52 + 1),
        lambda: clock.set_wall(-1),
    ]
    for call in wrong:
        with pytest.raises(SaqiyaError, match=r"from 0 to 2\*\*52 microseconds"):
            call()
    assert (clock.now_us, clock.wall_us) == (5_000_000, 5_000_000)
    clock.advance(-5)
    assert clock.now_us == 0


def test_a_policy_error_shows_the_place() -> None:
    with pytest.raises(SaqiyaError) as caught:
        Limiter("5/s; 10/mim")
    wanted = "expected a unit: us, ms, s, min, h, d or w (at byte 8 of '5/s; 10/mim')"
    assert (str(caught.value), caught.value.position) == (wanted, 8)
    with pytest.raises(SaqiyaError, match=r" \(at byte 1 of '5\\x00/s'\)$"):
        Limiter("5\0/s")
    with pytest.raises(SaqiyaError, match=r" \(at byte \d+\)$"):
        Limiter("5/s " + " " * 300 + "5")
    with pytest.raises(SaqiyaError) as caught:
        Limiter([])
    assert caught.value.position is None


def test_wrong_calls_are_type_errors() -> None:
    limiter: Any = Limiter("5/s")
    decision = limiter.check("k")
    wrong = [
        lambda: limiter.check(),
        lambda: limiter.check("k", 1, 2),
        lambda: limiter.check("k", price=1),
        lambda: limiter.check("k", key="k"),
        lambda: limiter.check(cost=1),
        lambda: limiter.refund("k"),
        lambda: limiter.refund("k", None),
        lambda: limiter.refund("k", True),
        lambda: limiter.http_body(None),
        lambda: limiter.http_headers(decision, "all"),
        lambda: Limiter(5),  # type: ignore[arg-type]
        lambda: Limiter("5/s", store=5),  # type: ignore[arg-type]
        lambda: Limiter(),  # type: ignore[call-arg]
    ]
    for call in wrong:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(SaqiyaError):
        limiter.http_headers(decision, 4)
    assert limiter.check(key="k", cost=2).remaining == 2


@pytest.mark.parametrize("row", vectors.read("policies.json")["accepted"], ids=repr)
def test_accepted_policy_texts(row: dict[str, Any]) -> None:
    limiter = Limiter(row["text"])
    assert limiter.check("k", 0).limit == row["capacity"]
    if "canonical" in row:
        assert limiter.policy == row["canonical"]
    assert Limiter(limiter.policy).policy == limiter.policy


@pytest.mark.parametrize("row", vectors.read("policies.json")["refused"], ids=repr)
def test_refused_policy_texts(row: dict[str, Any]) -> None:
    with pytest.raises(SaqiyaError) as caught:
        Limiter(row["text"])
    assert caught.value.code == "bad_policy"
    if "\0" in row["text"]:
        return  # not even read by the core, which takes C strings
    assert caught.value.position == row["offset"]
    for word in row.get("mentions", []):
        assert word.lower() in str(caught.value).lower()


@pytest.mark.parametrize("row", vectors.read("policies.json")["unlimited"], ids=repr)
def test_unlimited_policy_texts(row: dict[str, Any]) -> None:
    assert Limiter(row["text"]).policy == row["canonical"]


@pytest.mark.parametrize("row", vectors.read("policies.json")["numbers_accepted"], ids=repr)
def test_accepted_numbers(row: dict[str, Any]) -> None:
    capacity, tokens, period_us = row["given"]
    policy = TokenBucket(capacity, tokens, timedelta(microseconds=period_us))
    assert Limiter(policy).peek("k", 0).limit == row["capacity"]


@pytest.mark.parametrize("row", vectors.read("policies.json")["numbers_refused"], ids=repr)
def test_refused_numbers(row: dict[str, Any]) -> None:
    capacity, tokens, period_us = row["given"]
    with pytest.raises(SaqiyaError) as caught:
        Limiter(TokenBucket(capacity, tokens, timedelta(microseconds=period_us)))
    assert caught.value.code == "bad_policy"


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 0.5, -1, 2**63, 2**64])
def test_odd_numbers_of_a_bucket_are_configuration_errors(odd: Any) -> None:
    for capacity, tokens in ((odd, 1), (1, odd)):
        with pytest.raises(SaqiyaError):
            Limiter(TokenBucket(capacity, tokens, 1.0))
    for text in ("3", None, True):
        with pytest.raises(TypeError):
            TokenBucket(text, 1, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("period", [0, 0.0, 1e-9, 1 / 3, -1.0, math.nan, math.inf, 1e300, 10**30])
def test_odd_periods_are_configuration_errors(period: float) -> None:
    with pytest.raises(SaqiyaError):
        Limiter(TokenBucket(1, 1, period))


@pytest.mark.parametrize(
    ("period", "us"),
    [
        (0.5, 500_000),
        (600.001, 600_001_000),
        (1e-6, 1),
        (1, 1_000_000),
        (0.1, 100_000),
        (86_400 * 365.0, 31_536_000_000_000),
        (timedelta(weeks=1), 604_800_000_000),
        (timedelta(microseconds=1), 1),
        (timedelta(seconds=90), 90_000_000),
    ],
)
def test_periods_are_exact(period: Any, us: int) -> None:
    limiter = Limiter(TokenBucket(1, 1, period), store=Store(clock=ManualClock(5)))
    assert limiter.check("k").reset_after_us == us


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1/second", 10**6),
        ("1/minute", 60 * 10**6),
        ("1/hour", 3_600 * 10**6),
        ("1/day", 86_400 * 10**6),
        ("1/week", 604_800 * 10**6),
        ("1 per 90 s", 90 * 10**6),
        ("1/1.5 h", 5_400 * 10**6),
    ],
)
def test_units_of_text_are_exact(text: str, us: int) -> None:
    limiter = Limiter(text, store=Store(clock=ManualClock(5)))
    assert limiter.check("k").reset_after_us == us


@pytest.mark.parametrize(
    "url", ["", "redis", "http://localhost", "redis://", "redis://h:99999", "redis://h/x", "a\0b"]
)
def test_bad_urls_are_configuration_errors(url: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        Store(url)
    if "\0" not in url:
        assert isinstance(caught.value, SaqiyaError)
        assert caught.value.code == "bad_url"


def test_errors_do_not_tell_passwords() -> None:
    with pytest.raises(SaqiyaError) as caught:
        Store("redis://user:hunter2@host:port")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"max_keys": 0},
        {"max_keys": -1},
        {"deadline": 0},
        {"deadline": -1.0},
        {"deadline": math.nan},
        {"deadline": 4_000},
        {"connections": 0},
        {"connections": 65},
        {"url": "redis://h", "clock": ManualClock()},
        {"url": "redis://h", "prefix": "{a}"},
    ],
    ids=lambda options: "-".join(options),
)
def test_bad_store_options_are_configuration_errors(options: dict[str, Any]) -> None:
    with pytest.raises(SaqiyaError):
        Store(**options)


@pytest.mark.parametrize("name", ["", "x" * 65, "new\nline", "é"])
def test_bad_names_are_configuration_errors(name: str) -> None:
    with pytest.raises(SaqiyaError):
        Limiter("1/s", name=name)


@pytest.mark.parametrize(
    "options",
    [
        {"failure": "shut"},
        {"failure": ""},
        {"share": 0},
        {"share": -0.5},
        {"share": 1.000001},
        {"share": 9e-7},
        {"share": math.nan},
        {"failure": "open", "share": 0.5},
        {"failure": "closed", "fallback": "1/s"},
        {"share": 0.5, "fallback": "1/s"},
        {"fallback": "1/fortnight"},
        {"fallback": "1/s; 5/min"},
    ],
    ids=repr,
)
def test_bad_failure_policies_are_configuration_errors(options: dict[str, Any]) -> None:
    for make in (Limiter, AsyncLimiter):
        for store in (None, "redis://127.0.0.1:1"):
            with pytest.raises(SaqiyaError, match=next(iter(options))):
                make("5/s", store=store, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"failure": 1},
        {"failure": None},
        {"share": "0.5"},
        {"share": True},
        {"fallback": 5},
        {"deny_cache": 1},
        {"deny_cache": None},
    ],
    ids=repr,
)
def test_failure_policies_of_wrong_types(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Limiter("5/s", **options)


def test_a_bad_fallback_tells_the_place() -> None:
    with pytest.raises(SaqiyaError, match=r"^fallback: .*at byte 10") as caught:
        Limiter("5/s", fallback="1/s burst x")
    assert caught.value.code == "bad_policy"
    assert caught.value.position == 10


def test_in_this_process_failure_policies_are_without_effect() -> None:
    for options in (
        {"failure": "local", "share": 0.1},
        {"failure": "local", "fallback": TokenBucket(1, 1, 1.0)},
        {"failure": "open"},
        {"failure": "closed", "deny_cache": False},
        {"failure": "error"},
    ):
        limiter = Limiter("1/h burst 3", **options)  # type: ignore[arg-type]
        assert [limiter.check("k").source for _ in range(5)] == ["store"] * 5
        assert not limiter.check("k")


def test_manual_clock() -> None:
    clock = ManualClock(1.5)
    clock.advance(0.1)
    assert (clock.now_us, clock.wall_us) == (1_600_000, 1_600_000)
    clock.advance_us(-1)
    clock.set_wall(7)
    assert (clock.now_us, clock.wall_us) == (1_599_999, 7_000_000)
    clock.set(timedelta(days=1))
    assert (clock.now_us, clock.wall_us) == (86_400_000_000, 86_400_000_000)
    clock.set_us(2**52)
    for wrong in (lambda: clock.advance_us(1), lambda: clock.set(-1), lambda: clock.set_us(2**53)):
        with pytest.raises(SaqiyaError):
            wrong()
    assert clock.now_us == 2**52

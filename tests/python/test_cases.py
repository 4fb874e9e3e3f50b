"""Faults that users of rate limiters have suffered, on every store; C-numbers name them."""

from __future__ import annotations

import time
from itertools import cycle

from conftest import StoreMaker, make_memory_store

from saqiya import Limiter, Store, TokenBucket
from support import vectors
from support.model import Rule
from support.model import TokenBucket as Model
from support.redis_server import RedisServer

DAY = 86_400


def test_c2_a_refill_instant_is_no_refusal(make_store: StoreMaker) -> None:
    store, clock = make_store()
    once = Limiter("1/s", store=store, name="once")
    often = Limiter("10/s", store=store, name="often")
    for _ in range(2_000):
        assert once.check("k")
        for _ in range(10):
            assert often.check("k")
        clock.advance(1)


def test_c3_a_late_refund_gives_nothing(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter("10/s", store=store)
    clock.advance(0.9)
    decisions = [limiter.check("k") for _ in range(10)]
    clock.advance(1.6)
    for decision in decisions:
        assert limiter.refund("k", decision).outcome == "denied"
        assert limiter.refund("k", decision).outcome == "denied"
    assert sum(bool(limiter.check("k")) for _ in range(30)) == 10


def test_c6_c7_a_cost_above_capacity_is_never(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("10/s", store=store)
    assert limiter.check("k", 100).outcome == "never"
    assert limiter.check("k", 5)
    never = limiter.check("k", 100)
    assert (never.outcome, never.remaining) == ("never", 5)
    assert "Retry-After" not in limiter.http_headers(never)
    before = time.monotonic()
    assert limiter.acquire("k", 11, timeout=60).outcome == "never"
    assert time.monotonic() - before < 30


def test_c8_a_refusal_consumes_nothing(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("10/h", store=store)
    assert limiter.check("k", 8)
    refused = limiter.check("k", 5)
    assert (refused.outcome, refused.remaining) == ("denied", 2)
    assert limiter.check("k", 1).remaining == 1


def test_c11_retry_after_is_the_first_instant(make_store: StoreMaker) -> None:
    store, clock = make_store()
    for text in ("3/s", "7/min burst 4", "11/13ms burst 30", "1000003/s burst 50"):
        limiter = Limiter(text, store=store)
        capacity = limiter.peek("k").limit
        for cost in (1, 2, capacity // 2 + 1, capacity):
            while limiter.check("k"):
                pass
            clock.advance_us(limiter.check("k", cost).retry_after_us - 1)
            almost = limiter.check("k", cost)
            assert (almost.outcome, almost.retry_after_us) == ("denied", 1)
            clock.advance_us(1)
            assert limiter.check("k", cost)


def test_c15_polling_loses_no_fraction(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter("1/s", store=store)
    assert limiter.check("k")
    admitted = 0
    for _ in range(10_000):
        clock.advance(0.001)
        admitted += bool(limiter.check("k"))
    assert admitted == 10


def test_c15_three_per_second_for_a_day() -> None:
    store, clock = make_memory_store()
    limiter = Limiter("3/s", store=store)
    limiter.check("k", 3)
    admitted = 0
    step = 28_125  # odd in binary: never on a third of a second
    for _ in range(DAY * 1_000_000 // step):
        clock.advance_us(step)
        admitted += bool(limiter.check("k"))
    assert admitted == 3 * DAY


def test_c20_c21_edges_of_limits(make_store: StoreMaker) -> None:
    store, _ = make_store()
    assert Limiter(TokenBucket(0, 0, 1.0), store=store).check("k").outcome == "never"
    assert Limiter("0/s", store=store).check("k").outcome == "never"
    for capacity in (1, 2**31, 2**32, 10**15):
        limiter = Limiter(TokenBucket(capacity, 1_000_003, 1.0), store=store)
        assert limiter.check("k", capacity).remaining == 0
        assert limiter.check("k", capacity + 1).outcome == "never"
    largest = Limiter(TokenBucket(2**53 - 1, 8, 0.000_001), store=store)
    assert largest.check("k", 2**53 - 1).remaining == 0
    before = store.stats().requests
    assert Limiter("unlimited", store=store).check("k", 2**53 - 1)
    assert store.stats().requests == before


def test_c23_a_clock_that_jumps_gives_no_tokens(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter("1/s burst 5", store=store)
    readings = [clock.now_us]
    admitted = 0
    for jump in cycle((11, -11)):
        admitted += sum(bool(limiter.check("k")) for _ in range(8))
        clock.advance(jump)
        readings.append(clock.now_us)
        if len(readings) > 300:
            break
    assert admitted <= 5 + (max(readings) - min(readings)) // 1_000_000
    assert limiter.check("k", 5).outcome == "denied"
    clock.advance(-8 * 3_600)
    shut = limiter.check("k")
    assert shut.retry_after <= 8 * 3_600 + 11 + 5
    clock.advance_us(shut.retry_after_us)
    assert limiter.check("k")


def test_c23_the_wall_clock_moves_no_bucket_in_process() -> None:
    store, clock = make_memory_store()
    limiter = Limiter("1/h", store=store)
    limiter.check("k")
    for wall in (0, 10**8, 5):
        clock.set_wall(wall)
        assert limiter.check("k").retry_after == 3_600


def test_an_hour_bucket_refills_two_tokens_in_two_hours(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter("1/h burst 10", store=store)
    assert limiter.check("k", 10)
    clock.advance(2 * 3_600)
    assert sum(bool(limiter.check("k")) for _ in range(10)) == 2


def test_c34_a_key_lives_as_long_as_its_bucket_fills(redis: RedisServer) -> None:
    """A fixed expiry of an hour would make the empty bucket full after an hour."""
    limiter = Limiter("1/h burst 10", store=Store(redis.url, deadline=10))
    for cost in (4, 6):
        limiter.check("k", cost)
    (key,) = redis.keys()
    ten_hours_ms = 10 * 3_600_000
    assert ten_hours_ms - 60_000 < int(redis.cli("PTTL", key)) <= ten_hours_ms + 1
    limiter.refund("k", limiter.check("k", 0))
    assert limiter.reset("k")
    assert redis.keys() == []


def test_c35_policies_of_one_key_do_not_meet(make_store: StoreMaker) -> None:
    store, _ = make_store()
    first = Limiter("5/5min", store=store)
    second = Limiter("100/min", store=store)
    assert [first.check("k").remaining, second.check("k").remaining] == [4, 99]
    assert first.check("k", 4)
    assert second.check("k").remaining == 98


def test_a_limit_that_changes_keeps_the_used_share(make_store: StoreMaker) -> None:
    store, _ = make_store()
    assert Limiter("100/min", store=store, name="api").check("k", 30)
    assert Limiter("10/min", store=store, name="api").peek("k").remaining == 7


def test_a_thousand_users_get_what_the_model_gives(make_store: StoreMaker) -> None:
    """1,000 users, 100 requests each, in random order: equal to the reference, one by one."""
    scenario = next(s for s in vectors.read("users.json")["scenarios"] if s["name"] == "article")
    numbers = scenario["rule"]
    rule = Rule.make(numbers["capacity"], numbers["tokens"], numbers["period_us"])
    store, clock = make_store()
    limiter = Limiter(numbers["text"], store=store, name="users")
    model = Model(rule)
    admitted = [0] * scenario["users"]
    arrivals = list(vectors.crowd(scenario))
    assert len(arrivals) == 100_000
    for now, user, cost in arrivals:
        clock.set_us(now)
        decision = limiter.check(f"user{user}", cost)
        expected, _ticket = model.check(f"user{user}", cost, now, 0)
        assert (decision.outcome, decision.remaining) == (expected.outcome, expected.remaining)
        admitted[user] += decision.allowed
    assert admitted == scenario["expect"]["admitted_by_user"]

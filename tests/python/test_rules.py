"""Rules as numbers, what each algorithm is for, and settling what a request turned out to cost."""

from __future__ import annotations

import asyncio
import math
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from conftest import StoreMaker

from saqiya import (
    AsyncLimiter,
    Calendar,
    Concurrency,
    FixedWindow,
    Limiter,
    Policy,
    SaqiyaError,
    SlidingLog,
    SlidingWindow,
    TokenBucket,
)

MINUTE, HOUR, DAY = 60, 3_600, 86_400

FORMS: list[tuple[Policy, str]] = [
    (TokenBucket(20, 5, 1.0), "5/s burst 20"),
    (TokenBucket(1, 10, 1, queue=50), "leaky-bucket: 10/s burst 1 queue 50"),
    (FixedWindow(100, MINUTE), "fixed-window: 100/min"),
    (SlidingWindow(1000, timedelta(hours=1)), "sliding-window: 1000/hour"),
    (SlidingLog(5, 15 * MINUTE), "sliding-log: 5/15min"),
    (Calendar(10, "day"), "calendar: 10/day"),
    (Calendar(10, "week", "Asia/Kathmandu"), "calendar: 10/week tz Asia/Kathmandu"),
    (Calendar(7, "month", "Africa/Cairo", 15), "calendar: 7/month anchor 15 tz Africa/Cairo"),
    (Calendar(7, "year", zone="Europe/London"), "calendar: 7/year tz Europe/London"),
    (Concurrency(20, 30), "concurrency: 20 ttl 30s"),
    (["5/s burst 20", "1000/day"], "5/s burst 20; 1000/day"),
    (("5/s burst 20; 1000/day",), "5/s burst 20; 1000/day"),
    ([TokenBucket(20, 5, 1), FixedWindow(9, DAY)], "5/s burst 20; fixed-window: 9/day"),
    ([TokenBucket(20, 5, 1), "fixed-window: 9/day"], "5/s burst 20; fixed-window: 9/day"),
    (
        ["3/s", TokenBucket(1, 2, 2, queue=3), SlidingLog(4, 5), SlidingWindow(6, 7)],
        "3/s; 2/2s burst 1 queue 3; sliding-log: 4/5s; sliding-window: 6/7s",
    ),
    (
        ["3/s", Calendar(7, "month", "Africa/Cairo", 15), Concurrency(2, 0.5), FixedWindow(3, 4)],
        "3/s; calendar: 7/month anchor 15 tz Africa/Cairo; concurrency: 2 ttl 500ms; "
        "fixed-window: 3/4s",
    ),
]


@pytest.mark.parametrize(("policy", "text"), FORMS, ids=[text for _, text in FORMS])
def test_numbers_are_the_same_as_text(policy: Policy, text: str) -> None:
    limiter = Limiter(policy)
    assert limiter.policy == Limiter(text).policy
    assert Limiter(limiter.policy).policy == limiter.policy


def test_numbers_and_text_share_their_state(make_store: StoreMaker) -> None:
    store, _ = make_store()
    for policy, text in FORMS:
        name = str(FORMS.index((policy, text)))
        one = Limiter(policy, store=store, name=name)
        other = Limiter(text, store=store, name=name)
        assert one.check("k")
        assert [rule.remaining for rule in other.peek("k").rules] == [
            rule.remaining for rule in one.peek("k").rules
        ]
        assert other.peek("k").reset_after_us > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedWindow(-1, 1),
        lambda: FixedWindow(2**53, 1),
        lambda: FixedWindow(1.5, 1),  # type: ignore[arg-type]
        lambda: FixedWindow(1, math.inf),
        lambda: FixedWindow(1, 1 / 3),
        lambda: Limiter(FixedWindow(1, 0)),
        lambda: Limiter(FixedWindow(1, 1_125_899_907)),
        lambda: Limiter(SlidingWindow(2**32, 1)),
        lambda: Limiter(SlidingLog(2**32, 1)),
        lambda: Limiter(SlidingLog(1, 140_737_489)),
        lambda: Limiter(Concurrency(65_536, 1)),
        lambda: Limiter(Concurrency(1, 0)),
        lambda: Calendar(1, "hour"),
        lambda: Calendar(1, "month", "UTC; 5/s"),
        lambda: Calendar(1, "month", ""),
        lambda: Calendar(1, "month", anchor_day=0),
        lambda: Calendar(1, "month", anchor_day=32),
        lambda: Calendar(1, "day", anchor_day=2),
        lambda: Limiter(Calendar(1, "month", "Mars/Olympus")),
        lambda: TokenBucket(1, 1, 1, queue=-1),
        lambda: Limiter(TokenBucket(1, 1, DAY, queue=2**50)),
        lambda: Limiter([]),
        lambda: Limiter(["5/s"] * 2),
        lambda: Limiter(["5/s", FixedWindow(1, 1), "fixed-window: 9/s"]),
        lambda: Limiter([FixedWindow(1, second) for second in range(1, 10)]),
        lambda: Limiter(["unlimited", "5/s"]),
        lambda: Limiter(["5/s", "5 per moon"]),
    ],
)
def test_what_is_out_of_range(make: Any) -> None:
    with pytest.raises(SaqiyaError) as caught:
        make()
    assert caught.value.code == "bad_policy"


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedWindow("5", 1),  # type: ignore[arg-type]
        lambda: FixedWindow(True, 1),
        lambda: SlidingLog(5, "1s"),  # type: ignore[arg-type]
        lambda: Calendar(5, "day", zone=None),  # type: ignore[arg-type]
        lambda: Limiter([5]),  # type: ignore[list-item]
        lambda: Limiter({"5/s": 1}),  # type: ignore[arg-type]
        lambda: Limiter([["5/s"]]),  # type: ignore[list-item]
    ],
)
def test_what_is_of_another_type(make: Any) -> None:
    with pytest.raises(TypeError):
        make()


def at(text: str, zone: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def admitted(limiter: Limiter, times: int) -> int:
    return sum(bool(limiter.check("k")) for _ in range(times))


def test_the_edge_of_fixed_windows(make_store: StoreMaker) -> None:
    """Twice the limit passes within a moment; a sliding window or log, or a bucket with a small
    burst, does not have that."""
    store, clock = make_store()
    edge = at("2026-11-30T12:00:00", "UTC")
    policies = ("fixed-window: 100/h", "sliding-window: 100/h", "sliding-log: 100/h")
    limiters = [Limiter(text, store=store) for text in policies]
    limiters.append(Limiter("100/h burst 10", store=store))
    clock.set(edge - 0.001)
    assert [admitted(limiter, 300) for limiter in limiters] == [100, 100, 100, 10]
    clock.set(edge)
    assert [admitted(limiter, 300) for limiter in limiters] == [100, 0, 0, 0]


def test_a_steady_outflow(make_store: StoreMaker) -> None:
    """Voice or bandwidth: a leaky bucket as a queue lets requests leave at exactly the rate."""
    store, _ = make_store()
    limiter = Limiter("leaky-bucket: 50/s queue 4", store=store)
    decisions = [limiter.check("call") for _ in range(6)]
    assert [decision.delay for decision in decisions] == [0, 0.02, 0.04, 0.06, 0.08, 0]
    assert [decision.outcome for decision in decisions] == ["allowed"] * 5 + ["denied"]
    assert decisions[-1].retry_after == 0.02
    assert limiter.acquire("call", timeout=0).outcome == "denied"  # no wait at all


def test_a_customer_in_cairo_gets_a_new_month_at_cairos_midnight(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter(Calendar(100, "month", zone="Africa/Cairo"), store=store)
    midnight = at("2026-12-01T00:00:00", "Africa/Cairo")
    assert datetime.fromtimestamp(midnight, timezone.utc).hour == 22
    clock.set(midnight - 1.5)
    assert limiter.check("customer", 100)
    refused = limiter.check("customer")
    assert (refused.outcome, refused.retry_after) == ("denied", 1.5)
    clock.set(midnight)
    assert limiter.check("customer").remaining == 99


def test_months_that_begin_on_the_31st(make_store: StoreMaker) -> None:
    store, clock = make_store()
    limiter = Limiter(Calendar(1, "month", "UTC", anchor_day=31), store=store)
    for begin, end in (("2027-01-31", "2027-02-28"), ("2027-02-28", "2027-03-31")):
        clock.set(at(begin, "UTC"))
        assert limiter.check("k")
        assert limiter.check("k").retry_after == at(end, "UTC") - at(begin, "UTC")


def test_exact_counts(make_store: StoreMaker) -> None:
    """C12: the first free slot decides."""
    store, clock = make_store()
    limiter = Limiter("sliding-log: 10/10s", store=store)
    start = clock.now_us / 1e6
    for second in range(10):
        clock.set(start + second)
        assert limiter.check("k")
    clock.set(start + 9.5)
    assert limiter.check("k").retry_after == 0.5
    clock.set(start + 10)
    assert limiter.check("k")


def test_changed_limits_of_windows_keep_the_count(make_store: StoreMaker) -> None:
    """C159."""
    for kind in ("fixed-window", "sliding-window", "sliding-log", "calendar"):
        unit = "day" if kind == "calendar" else "min"
        for before, used, after, left in ((100, 30, 10, 0), (10, 10, 100, 90)):
            store, _ = make_store()
            assert Limiter(f"{kind}: {before}/{unit}", store=store, name="n").check("k", used)
            changed = Limiter(f"{kind}: {after}/{unit}", store=store, name="n")
            assert changed.peek("k").remaining == left


def test_another_algorithm_starts_afresh(make_store: StoreMaker) -> None:
    store, _ = make_store()
    for text in ("10/min", "fixed-window: 10/min", "sliding-window: 10/min", "sliding-log: 10/min"):
        limiter = Limiter(text, store=store, name="n")
        assert limiter.check("k").remaining == 9
        assert limiter.check("k").remaining == 8


def test_tokens_of_a_language_model(make_store: StoreMaker) -> None:
    """An estimate is charged before, what the answer took is settled after."""
    store, _ = make_store()
    budget = Limiter("100000/min; calendar: 1000000/month", store=store, name="tokens")

    def complete(user: str, estimate: int, used: int) -> bool:
        decision = budget.check(user, estimate)
        if decision:
            assert budget.settle(user, decision, used)
        return bool(decision)

    assert complete("ann", 8_000, 1_200)  # 6,800 come back
    assert [rule.remaining for rule in budget.peek("ann").rules] == [98_800, 998_800]
    assert complete("ann", 98_800, 120_000)  # more than was there: a debt
    assert [rule.remaining for rule in budget.peek("ann").rules] == [0, 878_800]
    refused = budget.check("ann", 1_000)
    assert (refused.outcome, refused.rule) == ("denied", 0)
    assert refused.retry_after == pytest.approx((21_200 + 1_000) * 60 / 100_000)
    assert not complete("ann", 1_000, 500)


@pytest.mark.parametrize(
    "text",
    [
        "10/h",
        "fixed-window: 10/h",
        "sliding-window: 10/h",
        "sliding-log: 10/h",
        "calendar: 10/day",
        "concurrency: 10 ttl 1h",
    ],
)
def test_settle(make_store: StoreMaker, text: str) -> None:
    store, clock = make_store()
    limiter = Limiter(text, store=store)
    decision = limiter.check("k", 6)
    assert limiter.settle("k", decision, 2).remaining == 8
    again = limiter.settle("k", decision, 10)
    assert (again.outcome, again.remaining) == ("denied", 8)
    assert not limiter.refund("k", decision)
    decision = limiter.check("k", 3)
    assert limiter.settle("k", decision, 3).outcome == "allowed"
    decision = limiter.check("k", 5)
    settled = limiter.settle("k", decision, 50)
    assert (settled.outcome, settled.remaining) == ("allowed", 0)
    assert not limiter.check("k")
    clock.advance(2 * DAY)
    late = limiter.check("k")
    clock.advance(2 * DAY)
    assert limiter.settle("k", late, 0).outcome == "denied"
    assert limiter.peek("k").remaining == 10
    for cost in (True, "1", 1.0, None):
        with pytest.raises(TypeError):
            limiter.settle("k", late, cost)  # type: ignore[arg-type]
    for cost in (-1, 2**53):
        with pytest.raises(SaqiyaError):
            limiter.settle("k", late, cost)


def test_a_mistake_does_not_spend_the_ticket(make_store: StoreMaker) -> None:
    store, _ = make_store()
    limiter = Limiter("10/h", store=store)
    decision = limiter.check("k", 4)
    for call in (limiter.refund, limiter.release, limiter.renew):
        with pytest.raises(SaqiyaError):
            call("k" * 65_537, decision)
    with pytest.raises(SaqiyaError):
        limiter.settle("k", decision, -1)
    assert limiter.refund("k", decision).remaining == 10


def test_settle_async(make_store: StoreMaker) -> None:
    async def main() -> None:
        store, _ = make_store()
        limiter = AsyncLimiter("10/h; fixed-window: 20/d", store=store, name="n")
        decision = await limiter.check("k", 6)
        assert (await limiter.settle("k", decision, 2)).remaining == 8
        assert not await limiter.settle("k", decision, 2)
        with pytest.raises(TypeError):
            await limiter.settle("k", decision, "2")  # type: ignore[arg-type]
        assert (await limiter.settle("k", await limiter.check("k"), 30)).remaining == 0
        assert not await limiter.renew("k", decision)
        assert not await limiter.release("k", decision)

    asyncio.run(main())

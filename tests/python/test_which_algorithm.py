"""The table "Which algorithm when" of docs/algorithms.md: every row keeps its promise.

Policies and promises are read from the table; a test proves the row with its very promise, so that
a row that changes fails until its proof is looked at again.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, Callable, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import pytest
from conftest import StoreMaker, make_memory_store

from saqiya import Decision, Limiter, ManualClock

MS, S = 1_000, 1_000_000
MIN, HOUR, DAY = 60 * S, 3_600 * S, 86_400 * S
START = 1_790_000_000 * S  # in September 2026; within a minute, an hour and a day

ROOT = Path(__file__).parents[2]
Test = TypeVar("Test", bound=Callable[..., Any])


class Row(NamedTuple):
    want: str
    policy: str
    promise: str


def read_table(file: str) -> list[Row]:
    """The rows below "you want | write | ..."; two columns do as well as three."""
    lines = iter((ROOT / file).read_text(encoding="utf-8").splitlines())
    assert any(line.startswith("| you want | write |") for line in lines)
    assert set(next(lines)) <= set("|- ")
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        want, policy, promise = ([part.strip() for part in line.strip("|").split("|")] + [""])[:3]
        rows.append(Row(want, policy.strip("`"), promise))
    return rows


TABLE = read_table("docs/algorithms.md")
PROVEN: list[str] = []


def proves(promise: str) -> Callable[[Test], Test]:
    """Gives the test the policy of the row that promises this."""
    PROVEN.append(promise)

    def decorate(test: Test) -> Test:
        found = [row.policy for row in TABLE if row.promise == promise]
        assert len(found) == 1, f"docs/algorithms.md does not promise: {promise}"
        marked: Test = pytest.mark.parametrize("policy", found)(test)
        return marked

    return decorate


def make(policy: str) -> tuple[Limiter, ManualClock]:
    store, clock = make_memory_store()
    clock.set_us(START)
    return Limiter(policy, store=store), clock


class Charge(NamedTuple):
    at: int
    cost: int


def hammer(
    limiter: Limiter, clock: ManualClock, times: int, gap: int, costs: tuple[int, ...] = (1,)
) -> Iterator[tuple[Charge, Decision]]:
    """Random arrivals: now and then several at once, then for a while none."""
    draw, now = random.Random(7), clock.now_us
    for _ in range(times):
        now += draw.choice((0, 0, 1, draw.randrange(gap), draw.randrange(5 * gap)))
        clock.set_us(now)
        asked = Charge(now, draw.choice(costs))
        yield asked, limiter.check("k", asked.cost)


def admitted(limiter: Limiter, times: int) -> int:
    return sum(bool(limiter.check("k")) for _ in range(times))


def sums(charges: list[Charge]) -> Callable[[int, int], int]:
    """What was charged in [begin, end)."""
    instants = [charge.at for charge in charges]
    before = [0, *accumulate(charge.cost for charge in charges)]

    def between(begin: int, end: int) -> int:
        return before[bisect_right(instants, end - 1)] - before[bisect_right(instants, begin - 1)]

    return between


def test_every_row_is_proven() -> None:
    assert len(TABLE) == 8
    assert [row.promise for row in TABLE] == PROVEN  # in the order of this file


def test_the_readme_says_the_same() -> None:
    short = read_table("README.md")
    assert [row.policy for row in short] == [row.policy for row in TABLE]


@proves("never more than 20 and 5 for each second, however you look at it")
def test_an_api_that_forgives_bursts(policy: str) -> None:
    limiter, clock = make(policy)
    assert admitted(limiter, 30) == 20
    clock.advance_us(10 * S)
    refused, charged, lowest = 0, 0, 0
    for asked, decision in hammer(limiter, clock, 5_000, 250 * MS, (1, 1, 2, 3)):
        if not decision:
            refused += 1
            continue
        # charged - 5 * at / S never rises by more than 20 from any instant to any later one.
        lowest = min(lowest, charged * S - 5 * (asked.at - START))
        charged += asked.cost
        assert charged * S - 5 * (asked.at - START) - lowest <= 20 * S
    assert refused > 1_000
    assert charged > 1_000


@proves("a burst leaves exactly 100 ms apart; the 52nd at once is refused")
def test_a_steady_outflow(policy: str) -> None:
    limiter, clock = make(policy)
    burst = [limiter.check("k") for _ in range(52)]
    assert [decision.delay_us for decision in burst[:51]] == [i * 100 * MS for i in range(51)]
    assert [decision.outcome for decision in burst] == ["allowed"] * 51 + ["denied"]
    assert burst[51].retry_after_us == 100 * MS
    clock.advance_us(100 * MS - 1)
    assert not limiter.check("k")
    # Whoever comes leaves 100 ms after the one before, or at once when that is longer ago.
    left, refused = START + 5 * S, 0
    for asked, decision in hammer(limiter, clock, 5_000, 80 * MS):
        if decision:
            left = max(asked.at, left + 100 * MS)
            assert asked.at + decision.delay_us == left
            assert decision.delay_us <= 5 * S
        else:
            refused += 1
    assert refused > 100


@proves("exactly 100 in each clock minute; up to 200 across the edge of two")
def test_a_simple_count(policy: str) -> None:
    limiter, clock = make(policy)
    charges = [asked for asked, decision in hammer(limiter, clock, 20_000, 300 * MS) if decision]
    between = sums(charges)
    first, last = charges[0].at // MIN + 1, charges[-1].at // MIN
    assert last - first > 50
    counts = [between(minute * MIN, (minute + 1) * MIN) for minute in range(first, last)]
    assert max(counts) == 100
    assert counts.count(100) > 10
    # The edge. What to use instead: the rows around this one.
    edge = clock.now_us // MIN * MIN + 5 * MIN
    clock.set_us(edge - 1)
    assert admitted(limiter, 300) == 100
    assert limiter.check("k").retry_after_us == 1
    clock.set_us(edge)
    assert admitted(limiter, 300) == 100  # 200 within 2 us
    assert limiter.check("k").retry_after_us == MIN


@proves("fewer than 2,000 in any hour, 999 of traffic that comes evenly")
def test_a_fair_count(policy: str) -> None:
    limiter, clock = make(policy)
    for gap in (1_800 * MS, 3_600 * MS, 3_604 * MS):
        limiter.reset("k")
        begin = clock.now_us // HOUR * HOUR + 5 * HOUR
        evenly = []
        for now in range(begin, begin + 10 * HOUR, gap):
            clock.set_us(now)
            if limiter.check("k"):
                evenly.append(Charge(now, 1))
        between = sums(evenly)
        for hour in range(begin + HOUR, begin + 9 * HOUR, HOUR):
            assert between(hour, hour + HOUR) in (998, 999)
    # The worst: all of one window at its very end, then as much as the falling weight lets through.
    edge = clock.now_us // HOUR * HOUR + 5 * HOUR
    clock.set_us(edge - 1)
    count = admitted(limiter, 1_100)
    assert count == 1_000
    while (now := clock.now_us) < edge - 1 + HOUR:
        decision = limiter.check("k")
        count += decision.allowed
        clock.set_us(now + decision.retry_after_us)
    assert count == 1_999 == 1_000 + 1_000 * (HOUR - 2) // HOUR
    # Any other traffic.
    limiter.reset("k")
    charges = [
        asked for asked, decision in hammer(limiter, clock, 20_000, 2 * S, (1, 3)) if decision
    ]
    between = sums(charges)
    assert 1_000 <= max(between(charge.at, charge.at + HOUR) for charge in charges) < 2_000


def test_a_fair_count_of_few() -> None:
    """One a second, the limit itself: the sliding window admits 9 in 10, the others all."""
    for policy, every_ten in (
        ("sliding-window: 10/10s", 9),
        ("sliding-log: 10/10s", 10),
        ("10/10s burst 1", 10),
    ):
        limiter, clock = make(policy)
        admissions = []
        for _ in range(100):
            admissions.append(limiter.check("k").allowed)
            clock.advance_us(S)
        assert sum(admissions[20:]) == 8 * every_ten


@proves("never more than 5 in any 15 minutes, and all that this leaves")
def test_an_exact_count(policy: str) -> None:
    limiter, clock = make(policy)
    charges: list[Charge] = []
    refused = 0
    for asked, decision in hammer(limiter, clock, 3_000, 2 * MIN, (1, 1, 1, 2, 5)):
        recent = [charge for charge in charges if charge.at > asked.at - 15 * MIN]
        assert decision.allowed == (sum(charge.cost for charge in recent) + asked.cost <= 5)
        if decision:
            charges.append(asked)
        else:
            refused += 1
    between = sums(charges)
    assert max(between(charge.at, charge.at + 15 * MIN) for charge in charges) == 5
    assert refused > 1_000
    assert len(charges) > 500


CAIRO = ZoneInfo("Africa/Cairo")


@proves("exactly 10,000 from midnight of the 1st to midnight of the 1st, there")
def test_a_quota(policy: str) -> None:
    limiter, clock = make(policy)
    months = [datetime(2026 + month // 12, month % 12 + 1, 1, tzinfo=CAIRO) for month in range(26)]
    midnights = [int(month.timestamp()) * S for month in months]
    assert {midnight // HOUR % 24 for midnight in midnights} == {21, 22}  # summer time and not
    draw = random.Random(1)
    for begin, end in zip(midnights, midnights[1:]):
        clock.set_us(begin)
        assert limiter.peek("k").remaining == 10_000
        used = 0
        for now in sorted(draw.randrange(begin, end) for _ in range(200)):
            clock.set_us(now)
            cost = draw.randrange(1, 200)
            decision = limiter.check("k", cost)
            assert decision.allowed == (used + cost <= 10_000)
            used += cost if decision else 0
        assert admitted(limiter, 300) == 10_000 - used
        clock.set_us(end - 1)
        assert limiter.check("k").retry_after_us == 1


@proves("never more than 20 that hold a lease; a holder that crashed is forgotten after 30 s")
def test_how_many_at_once(policy: str) -> None:
    limiter, clock = make(policy)
    draw = random.Random(5)
    held: list[tuple[int, Decision]] = []  # until when, by what
    refused, lost = 0, 0
    for _ in range(5_000):
        clock.advance_us(draw.randrange(2 * S))
        now = clock.now_us
        lost += sum(until <= now for until, _ in held)
        held = [(until, lease) for until, lease in held if until > now]
        for _ in range(draw.randrange(4)):
            lease = limiter.check("k")
            assert lease.allowed == (len(held) < 20)
            if lease:
                held.append((now + 30 * S, lease))
            else:
                refused += 1
        if held and draw.random() < 0.7:
            _, lease = held.pop(draw.randrange(len(held)))
            if draw.random() < 0.3:
                assert limiter.renew("k", lease)
                held.append((now + 30 * S, lease))
            else:
                assert limiter.release("k", lease)
                assert not limiter.release("k", lease)
        assert limiter.peek("k").remaining == 20 - len(held)
    assert refused > 200
    assert lost > 200
    # Crashed: none of them is ever released.
    clock.advance_us(30 * S)
    assert admitted(limiter, 30) == 20
    clock.advance_us(30 * S - 1)
    assert limiter.check("k").retry_after_us == 1
    clock.advance_us(1)
    assert admitted(limiter, 30) == 20


@proves("both, all or nothing")
def test_a_burst_limit_and_a_quota(policy: str) -> None:
    limiter, clock = make(policy)
    tomorrow = START // DAY * DAY + DAY
    charged, by_burst = 0, 0
    while charged < 1_000:
        before = [rule.remaining for rule in limiter.peek("k").rules]
        decision = limiter.check("k")
        after = [rule.remaining for rule in limiter.peek("k").rules]
        charged += decision.allowed
        by_burst += not decision
        assert after == ([left - 1 for left in before] if decision else before)
        assert after[1] == 1_000 - charged
        assert decision.allowed or decision.rule == 0
        assert charged <= 20 + 5 * (clock.now_us - START) / S
        clock.advance_us(70 * MS)
    assert by_burst > 1_000
    clock.advance_us(10 * S)
    refused = limiter.check("k")  # the bucket is full again, and stays so
    assert (refused.outcome, refused.rule) == ("denied", 1)
    assert refused.retry_after_us == tomorrow - clock.now_us
    assert [rule.remaining for rule in refused.rules] == [20, 0]
    clock.set_us(tomorrow - 1)
    assert admitted(limiter, 30) == 0
    clock.set_us(tomorrow)
    assert admitted(limiter, 30) == 20
    assert [rule.remaining for rule in limiter.peek("k").rules] == [0, 980]


def test_the_same_over_every_store(make_store: StoreMaker) -> None:
    """A short walk under each policy; its answers were made in memory."""
    walks = []
    for made in (make_memory_store, make_store):
        store, clock = made()
        walk = []
        for row in TABLE:
            clock.set_us(START)
            limiter = Limiter(row.policy, store=store)
            for _, decision in hammer(limiter, clock, 200, 500 * MS):
                walk.append((decision, decision.rules))
        walks.append(walk)
    assert walks[0] == walks[1]
    assert {decision.outcome for decision, _ in walks[0]} == {"allowed", "denied"}

"""What may pass at the most: every alignment of small rules, and random runs of larger ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from scenarios.dsl import MIN, D, H, S
from scenarios.words import Policy, bucket, calendar, fixed, leaky, leases, log, policy, sliding

from support import model_calendar
from support.model import ALLOWED, DENIED
from support.model_group import Item, Limiter, Store
from support.model_rules import Algorithm, make

# -- Exhaustive ------------------------------------------------------------------------------------


def more(rule: Algorithm, state: Any, now: int) -> Iterator[tuple[Any, int]]:
    """The states after 0, 1, 2, ... charges of cost 1 at that instant, and their number."""
    count = 0
    yield state, count
    while rule.judge(state, 1, now, 0).retry_after_us == 0:
        state, count = rule.charge(state, 1, now, 0)[0], count + 1
        yield state, count


def worst(rule: Algorithm, start: int, history: int, width: int) -> int:
    """The most that passes in `width` microseconds, whatever came before and wherever they lie."""
    reached, most = {None}, 0
    for first in range(start, start + history):
        best = dict.fromkeys(reached, 0)
        for now in range(first, first + width):
            following: dict[Any, int] = {}
            for state, count in best.items():
                for after, charged in more(rule, state, now):
                    following[after] = max(following.get(after, 0), count + charged)
            best = following
        most = max(most, *best.values())
        reached = {after for state in reached for after, _ in more(rule, state, first)}
    return most


SMALL = [(1, 1), (1, 3), (2, 2), (2, 4), (3, 3), (3, 4), (4, 3), (5, 2)]  # limit, period


def single(made: Policy) -> Algorithm:
    return make(made.rules[0])


@pytest.mark.parametrize(("limit", "period"), SMALL)
def test_fixed_window_lets_twice_the_limit_pass(limit: int, period: int) -> None:
    twice = 1 if period == 1 else 2  # windows of one microsecond have no edge within
    assert worst(single(fixed(limit, period)), 60, 2 * period, period) == twice * limit


@pytest.mark.parametrize(("limit", "period"), SMALL)
def test_log_lets_the_limit_pass(limit: int, period: int) -> None:
    assert worst(single(log(limit, period)), 60, period + 1, period) == limit


@pytest.mark.parametrize(("limit", "period"), SMALL)
def test_leases_without_release_let_the_limit_pass(limit: int, period: int) -> None:
    assert worst(single(leases(limit, period)), 60, period + 1, period) == limit


@pytest.mark.parametrize(("limit", "period"), SMALL)
def test_bucket_lets_its_burst_and_the_rate_pass(limit: int, period: int) -> None:
    """Within `period` from the first instant to the last, so one microsecond less of refill."""
    refilled = limit * (period - 1) // period
    assert worst(single(bucket(limit, period)), 60, 2 * period, period) == limit + refilled


@pytest.mark.parametrize(("limit", "period"), SMALL)
def test_sliding_window_lets_less_than_twice_the_limit_pass(limit: int, period: int) -> None:
    """All of it in the last microsecond of one window; then, as long as that one still lies within
    the period, what the falling weight lets pass: limit * (period - 2) / period."""
    expected = limit + max(0, limit * (period - 2) // period)
    assert worst(single(sliding(limit, period)), 60, 3 * period, period) == expected
    assert expected < 2 * limit


# -- Random runs -----------------------------------------------------------------------------------


def run(made: Policy, seed: int, count: int = 1_500) -> list[tuple[int, int]]:
    """Instants and costs of what passed, hammering about twice as much as is allowed."""
    rule, draw, state = single(made), random.Random(seed), None
    numbers = made.rules[0]
    period = numbers.get("period_us") or numbers.get("ttl_us") or D
    now, passed = 1_790_000_000 * S + draw.randrange(period), []
    for _ in range(count):
        now += draw.choice((0, 0, 1, period // 40, draw.randrange(period // 9 + 1)))
        cost = draw.choice((1, 1, 2, 3, rule.limit))
        if rule.judge(state, cost, now, 0).retry_after_us == 0:
            state = rule.charge(state, cost, now, len(passed))[0]
            passed.append((now, cost))
    return passed


def most_within(passed: list[tuple[int, int]], width: int) -> int:
    most = used = first = 0
    for now, cost in passed:
        used += cost
        while passed[first][0] + width <= now:
            used -= passed[first][1]
            first += 1
        most = max(most, used)
    return most


@pytest.mark.parametrize("seed", range(5))
def test_never_more_than_the_rule_says(seed: int) -> None:
    assert most_within(run(log(10, S), seed), S) <= 10
    assert most_within(run(sliding(10, S), seed), S) < 20
    assert most_within(run(leases(10, S), seed), S) <= 10
    for width in (1, S // 3, S, 7 * S):
        assert most_within(run(bucket(10, S, 15), seed), width) <= 15 + 10 * width / S
    by_window: dict[int, int] = {}
    for now, cost in run(fixed(10, S), seed):
        by_window[now // S] = by_window.get(now // S, 0) + cost
    assert max(by_window.values()) == 10
    by_day: dict[int, int] = {}
    for now, cost in run(calendar(10, "day", "Africa/Cairo"), seed):
        start, end = model_calendar.window("day", 1, "Africa/Cairo", now)
        assert start <= now < end
        by_day[start] = by_day.get(start, 0) + cost
    assert max(by_day.values()) == 10


@pytest.mark.parametrize("seed", range(3))
def test_a_queue_leaves_at_the_rate(seed: int) -> None:
    """What was admitted leaves one slot apart, in order; none waits longer than the queue."""
    rule, draw, state = single(leaky(3, S, 5)), random.Random(seed), None
    now, left, last = 1_790_000_000 * S, 0, -S
    for _ in range(2_000):
        now += draw.randrange(S // 4)
        verdict = rule.judge(state, 1, now, 0)
        if verdict.retry_after_us == 0:
            assert verdict.delay_us <= 5 * S // 3 + 1
            state = rule.charge(state, 1, now, 0)[0]
            assert now + verdict.delay_us - last >= S // 3
            last, left = now + verdict.delay_us, left + 1
    assert left > 500


MIXED = [
    bucket(10, S),
    leaky(5, S, 7, 3),
    fixed(10, S),
    sliding(10, S),
    log(10, S),
    leases(10, S),
    calendar(10, "day", "America/Santiago"),
    policy(bucket(5, S), fixed(8, MIN), log(20, H)),
    policy(sliding(12, S), leases(9, 2 * S)),
]


@pytest.mark.parametrize("made", MIXED, ids=lambda made: made.text)
def test_refusals_change_nothing_and_tell_the_first_instant(made: Policy) -> None:
    limiter = Limiter("x", tuple(make(rule) for rule in made.rules))
    store, draw, now, refused = Store(), random.Random(3), 1_790_000_000 * S, 0
    for _ in range(400):
        now += draw.choice((0, 1, draw.randrange(S // 5), S // 10))
        items = [Item(limiter, "k", draw.choice((0, 1, 1, 2, 3)))]
        before = store.memory()
        peeked = store.peek(items, now)
        assert store.memory() == before
        answer, _ = store.check(items, now)
        assert answer.outcome == peeked.outcome
        assert 0 <= answer.remaining <= answer.limit
        if answer.outcome != DENIED:
            continue
        refused += 1
        assert store.memory() == before
        retry = answer.retry_after_us
        assert retry is not None
        assert retry > 0
        assert store.peek(items, now + retry - 1).outcome == DENIED
        assert store.peek(items, now + retry).outcome == ALLOWED
    assert refused > 20


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_rules_does_not_matter(seed: int) -> None:
    draw = random.Random(seed)
    parts = draw.sample([bucket(5, S), fixed(8, MIN), sliding(9, S), log(20, H), leases(9, S)], 3)
    orders = [parts, parts[::-1], [parts[1], parts[2], parts[0]]]
    stores = [Store() for _ in orders]
    now = 1_790_000_000 * S
    for _ in range(300):
        now += draw.randrange(S // 4)
        cost = draw.choice((0, 1, 2, 6))
        told = set()
        for store, order in zip(stores, orders):
            rules = tuple(make(rule) for rule in policy(*order).rules)
            answer, _ = store.check([Item(Limiter("x", rules), "k", cost)], now)
            told.add((answer.outcome, answer.retry_after_us, answer.delay_us))
        assert len(told) == 1

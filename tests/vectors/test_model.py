"""The reference model against the vectors (through the player every Python runner uses) and against
what must hold of any token bucket, on random rules and walks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import generate
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scenarios.dsl import poll

from support.model import (
    ALLOWED,
    DENIED,
    MAX_CAPACITY,
    MAX_NOW_US,
    MAX_PERIOD_US,
    MAX_SPAN_US,
    MAX_TOKENS,
    NEVER,
    Decision,
    RangeError,
    Rule,
    Ticket,
    TokenBucket,
)
from support.policy_text import PolicyTextError, canonical, parse
from support.vectors import Operation, Player, RuleNumbers, Tally, Trace, crowd, load, read, run

settings.register_profile("vectors", deadline=None, max_examples=200, derandomize=True)
settings.load_profile("vectors")


class ModelDriver:
    """The model as a thing under test."""

    def __init__(self) -> None:
        self._model = TokenBucket(Rule(0, 0, 1))
        self._now = 0

    def set_now(self, now_us: int) -> None:
        self._now = now_us

    def set_rule(self, rule: RuleNumbers) -> None:
        self._model.rule = Rule.make(rule["capacity"], rule["tokens"], rule["period_us"])
        assert parse(rule["text"]) == self._model.rule

    def check(self, key: str, cost: int, max_wait_us: int) -> tuple[Decision, Ticket | None]:
        return self._model.check(key, cost, self._now, max_wait_us)

    def peek(self, key: str, cost: int) -> Decision:
        return self._model.peek(key, cost, self._now)

    def refund(self, key: str, ticket: Ticket) -> Decision:
        return self._model.refund(key, ticket, self._now)

    def reset(self, key: str) -> Decision:
        return self._model.reset(key, self._now)


TRACES = load("token_bucket.json")


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.name)
def test_trace(trace: Trace) -> None:
    run(trace, ModelDriver())


def test_random_trace() -> None:
    assert run(load("random.json")[0], ModelDriver()) == 10_000


@pytest.mark.parametrize("scenario", read("users.json")["scenarios"], ids=lambda s: s["name"])
def test_crowd(scenario: dict[str, Any]) -> None:
    driver, tally = ModelDriver(), Tally(scenario["users"])
    driver.set_rule(scenario["rule"])
    arrivals = [0] * scenario["users"]
    for now, user, cost in crowd(scenario):
        driver.set_now(now)
        decision, _ = driver.check(f"user{user}", cost, 0)
        tally.add(
            user, decision.outcome == ALLOWED, decision.remaining, decision.retry_after_us or 0
        )
        arrivals[user] += 1
    assert arrivals == [scenario["requests_per_user"]] * scenario["users"]
    assert tally.result() == scenario["expect"]


def test_player_notices_each_field() -> None:
    """A runner that answers wrongly in one number, anywhere, fails."""

    class Wrong(ModelDriver):
        def __init__(self, field: str) -> None:
            super().__init__()
            self._field = field

        def peek(self, key: str, cost: int) -> Decision:
            right = super().peek(key, cost)
            value = getattr(right, self._field)
            wrong = "none" if self._field == "outcome" else (value or 0) + 1
            return Decision(**{**right.__dict__, self._field: wrong})

    trace = next(t for t in TRACES if t.name == "peek-charges-nothing")
    for field in ("outcome", "limit", "remaining", "retry_after_us", "reset_after_us", "delay_us"):
        with pytest.raises(AssertionError, match="peek-charges-nothing, step 0"):
            run(trace, Wrong(field))


def test_player_counts_the_admitted() -> None:
    trace = next(t for t in TRACES if t.name == "three-per-second-polled")
    player, model = Player(trace), TokenBucket(Rule.make(3, 3, 1_000_000))

    def answer(op: Operation) -> Decision:
        decision, _ = model.check(op.key, op.cost, op.now, op.max_wait_us)
        hidden = decision.outcome == ALLOWED and op.step == 1 and op.expect is None
        return Decision(**{**decision.__dict__, "outcome": DENIED}) if hidden else decision

    def play() -> None:
        for op in player.operations():
            player.answer(op, answer(op))

    with pytest.raises(AssertionError, match="admitted"):
        play()


# -- Properties -----------------------------------------------------------------------------------


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    """Rules of everyday size, and rules at the edges of the ranges; limit 0 among them."""
    edges = draw(st.booleans())
    capacity = draw(
        st.sampled_from((1, 2**20, 2**32, MAX_CAPACITY)) if edges else st.integers(0, 50)
    )
    tokens = draw(
        st.sampled_from((1, 2, MAX_TOKENS - 1, MAX_TOKENS)) if edges else st.integers(1, 20)
    )
    period = draw(
        st.sampled_from((1, 2, 997, MAX_PERIOD_US - 1, MAX_PERIOD_US))
        if edges
        else st.integers(1, 100)
    )
    try:
        return Rule.make(capacity, tokens, period)
    except RangeError:
        assume(False)
        raise


@dataclass(frozen=True)
class Move:
    op: str
    step: int  # the clock's, in hundredths of the span, back too
    cost: int  # in quarters of the capacity, and one more
    wait: int  # in hundredths of the span
    pick: int


moves = st.lists(
    st.builds(
        Move,
        op=st.sampled_from(("check", "check", "check", "check", "peek", "refund", "reset", "rule")),
        step=st.integers(-40, 120),
        cost=st.integers(0, 6),
        wait=st.sampled_from((0, 0, 0, 1, 30, 150)),
        pick=st.integers(0, 1_000),
    ),
    max_size=60,
)


def cost_of(move: Move, rule: Rule) -> int:
    return min(MAX_CAPACITY, move.cost if rule.capacity < 20 else rule.capacity * move.cost // 5)


@given(st.lists(rules(), min_size=1, max_size=3), moves)
def test_invariants(some_rules: list[Rule], walk: list[Move]) -> None:
    """On any walk: 0 <= remaining <= limit; reset_after >= retry_after >= 0 without a wait; refused
    at retry_after - 1, allowed at retry_after; what is not allowed changes nothing."""
    bucket, now = TokenBucket(some_rules[0]), 2**40
    tickets: list[Ticket] = []
    for move in walk:
        rule, before = bucket.rule, dict(bucket.stored)
        now = min(MAX_NOW_US, max(0, now + move.step * int(rule.span + 1) // 100))
        cost, wait = cost_of(move, rule), move.wait * int(rule.span + 1) // 100
        if move.op == "rule":
            bucket.rule = some_rules[move.pick % len(some_rules)]
            continue
        if move.op == "refund" and tickets:
            decision = bucket.refund("k", tickets[move.pick % len(tickets)], now)
            assert decision.outcome in (ALLOWED, DENIED)
            assert (bucket.stored == before) == (decision.outcome == DENIED)
        elif move.op == "reset":
            decision = bucket.reset("k", now)
            assert decision.remaining == rule.capacity
            assert not bucket.stored
        elif move.op == "check":
            peeked = bucket.peek("k", cost, now, wait)
            decision, ticket = bucket.check("k", cost, now, wait)
            assert (decision.outcome, decision.retry_after_us) == (
                peeked.outcome,
                peeked.retry_after_us,
            )
            assert decision.delay_us == peeked.delay_us <= min(wait, MAX_SPAN_US)
            if ticket is None:
                assert bucket.stored == before
                assert decision == peeked
            else:
                tickets.append(ticket)
        else:
            decision = bucket.peek("k", cost, now, wait)
            assert bucket.stored == before
        check_decision(bucket, decision, cost, now, wait)


def check_decision(bucket: TokenBucket, decision: Decision, cost: int, now: int, wait: int) -> None:
    assert 0 <= decision.remaining <= decision.limit == bucket.rule.capacity
    assert decision.reset_after_us >= 0
    assert decision.delay_us >= 0
    assert (decision.outcome == NEVER) == (decision.retry_after_us is None)
    instant = bucket.stored.get("k")
    if instant is not None:
        assert instant.at == instant.q + Fraction(instant.r, instant.tokens or 1)
        assert instant.at <= MAX_NOW_US + 2 * MAX_SPAN_US
    retry = decision.retry_after_us
    if decision.outcome != DENIED or not retry:
        return
    assert wait > 0 or retry <= decision.reset_after_us
    assert bucket.peek("k", cost, now + retry - 1, wait).outcome == DENIED
    assert bucket.peek("k", cost, now + retry, wait).outcome == ALLOWED


@given(rules(), moves)
def test_bound(rule: Rule, walk: list[Move]) -> None:
    """Admitted <= C + rate * (largest - smallest clock reading) + what was refunded, with the clock
    going to and fro. So a refund gives back no more than its cost."""
    bucket, now = TokenBucket(rule), 2**40
    readings, taken, refunded = [now], 0, 0
    tickets: list[Ticket] = []
    for move in walk:
        now = min(MAX_NOW_US, max(0, now + move.step * int(rule.span + 1) // 100))
        readings.append(now)
        if move.op == "refund" and tickets:
            ticket = tickets[move.pick % len(tickets)]
            if bucket.refund("k", ticket, now).outcome == ALLOWED:
                refunded += ticket.cost
        elif move.op == "check":
            _, charged = bucket.check("k", cost_of(move, rule), now)
            if charged is not None:
                tickets.append(charged)
                taken += charged.cost
    elapsed = max(readings) - min(readings)
    accrued = Fraction(elapsed * rule.tokens, rule.period_us)
    assert taken <= rule.capacity + accrued + refunded


@given(rules(), moves)
def test_same_as_counting_tokens(rule: Rule, walk: list[Move]) -> None:
    """Said the other way round: a level of tokens that rises with time up to C and falls with
    charges, below 0 for those who wait. While the clock goes on it gives the same answers."""
    assume(rule.capacity > 0)
    bucket, now, last = TokenBucket(rule), 0, 0
    level = Fraction(rule.capacity)
    for move in walk:
        now = min(MAX_NOW_US, now + abs(move.step) * int(rule.span + 1) // 100)
        cost, wait = cost_of(move, rule), move.wait * int(rule.span + 1) // 100
        level = min(
            Fraction(rule.capacity), level + Fraction((now - last) * rule.tokens, rule.period_us)
        )
        last = now
        within = level + Fraction(min(wait, MAX_SPAN_US) * rule.tokens, rule.period_us) >= cost
        decision, _ = bucket.check("k", cost, now, wait)
        if cost > rule.capacity:
            assert decision.outcome == NEVER
        else:
            assert (decision.outcome == ALLOWED) == (within or cost == 0)
            if decision.outcome == ALLOWED:
                level -= cost
        assert decision.remaining == max(0, level.__floor__())


@given(rules(), st.integers(1, 8), st.integers(0, 60))
def test_refund_undoes(rule: Rule, cost: int, used: int) -> None:
    """At the same instant a refund leaves the bucket as it was; a second one gives nothing."""
    bucket = TokenBucket(rule)
    bucket.check("k", min(used, rule.capacity), 1_000)
    before = bucket.peek("k", 1, 1_000)
    _, ticket = bucket.check("k", cost, 1_000)
    assume(ticket is not None)
    assert ticket is not None
    assert bucket.refund("k", ticket, 1_000).outcome == ALLOWED
    assert bucket.peek("k", 1, 1_000) == before
    assert bucket.refund("k", ticket, 1_000).outcome == DENIED
    assert bucket.peek("k", 1, 1_000) == before


@given(rules(), rules(), st.integers(1, 50), st.integers(0, 100))
def test_another_rule_never_gives(first: Rule, second: Rule, used: int, later: int) -> None:
    """Read under another rule, an instant is later by under a microsecond, never earlier."""
    bucket = TokenBucket(first)
    _, ticket = bucket.check("k", min(used, first.capacity), 1_000)
    assume(ticket is not None)
    assert ticket is not None
    exact = bucket.stored["k"].at
    bucket.rule = second
    reset_after = bucket.peek("k", 1, 1_000).reset_after_us
    assert 0 <= reset_after - max(Fraction(0), exact - 1_000) < 1
    assert bucket.stored["k"].at == exact
    if bucket.refund("k", ticket, 1_000 + later).outcome == ALLOWED:
        worth = min(second.time_of(ticket.cost), exact - 1_000 - later)
        assert bucket.stored["k"].at >= exact - worth


@given(
    rules(),
    st.integers(0, 30),
    st.integers(1, 200),
    st.integers(0, 40),
    st.integers(0, 5),
    st.integers(0, 50),
)
def test_skipping_refused_polls(
    rule: Rule, used: int, count: int, every: int, cost: int, wait: int
) -> None:
    """The generator's short cut past refused polls gives what polling every time gives."""
    short, slow = TokenBucket(rule), TokenBucket(rule)
    for bucket in (short, slow):
        bucket.check("k", min(used, rule.capacity), 500)
    decisions = [slow.check("k", cost, 500 + i * every, wait)[0] for i in range(count)]
    allowed = sum(decision.outcome == ALLOWED for decision in decisions)
    step = poll(500, count, every, allowed, cost=cost, wait=wait)
    assert generate.poll(short, step) == (allowed, decisions[-1])
    assert short.stored == slow.stored


# -- Ranges and text ------------------------------------------------------------------------------


@given(rules())
def test_canonical_text_is_read_back(rule: Rule) -> None:
    assert parse(canonical(rule)) == rule


@given(st.text(alphabet="0159_./ \tspermhdwburstSPER:;-é\0", max_size=20))
def test_any_text_is_a_rule_or_an_offset(text: str) -> None:
    try:
        rule = parse(text)
        offset = 0
    except PolicyTextError as error:
        rule, offset = None, error.offset
    assert 0 <= offset <= len(text.encode())
    assert rule is None or parse(canonical(rule)) == rule


@given(
    st.integers(-1, 2**54),
    st.integers(-1, 2**54),
    st.integers(-1, 2**54),
    st.sampled_from((1, 2, 3, 6, 1_000)),
)
def test_ranges(capacity: int, tokens: int, period: int, factor: int) -> None:
    """A common factor changes nothing, and what is accepted is within every range."""

    def outcome(scale: int) -> Rule | str:
        try:
            return Rule.make(capacity, tokens * scale, period * scale)
        except RangeError as error:
            return error.limit

    assume(tokens != 0)
    made = outcome(1)
    assert outcome(factor) == made
    if isinstance(made, Rule):
        assert 0 <= made.capacity <= MAX_CAPACITY
        assert made.tokens <= MAX_TOKENS
        assert 1 <= made.period_us <= MAX_PERIOD_US
        assert made.span <= MAX_SPAN_US
        assert Fraction(made.tokens, made.period_us) == Fraction(tokens, period)

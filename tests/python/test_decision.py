"""Decision as a value."""

from __future__ import annotations

import copy
import math
import pickle

import pytest

from saqiya import Decision, Limiter, ManualClock, Store

DENIED = Decision("denied", None, 20, 3, 1_500_000, 4_000_000, 0, 0)
UNAVAILABLE = Decision("unavailable", reason="timeout")
LOCAL = Decision("allowed", "connect", 20, 3, 0, 4_000_000, source="local")
OPEN = Decision("allowed", "connect", source="open")
CLOSED = Decision("denied", "lost", retry_after_us=1_000_000, source="closed")
CACHED = Decision("denied", None, 20, 0, 1_500_000, 4_000_000, source="cache")
SEVERAL = Decision("allowed", limit=20, rules=(DENIED, LOCAL), source="local")


def test_numbers_in_seconds_and_microseconds() -> None:
    assert (DENIED.retry_after, DENIED.reset_after, DENIED.delay) == (1.5, 4.0, 0.0)
    assert (DENIED.retry_after_us, DENIED.reset_after_us, DENIED.delay_us) == (
        1_500_000,
        4_000_000,
        0,
    )
    assert (DENIED.limit, DENIED.remaining, DENIED.rule, DENIED.reason) == (20, 3, 0, None)
    never = Limiter("1/s").check("k", 2)
    assert (never.retry_after, never.retry_after_us) == (math.inf, 2**63 - 1)


def test_a_fraction_of_a_second_is_exact_in_microseconds() -> None:
    """C41: a wait of 0.4 s is 400,000 us, and Retry-After is 1."""
    limiter = Limiter("5/2s burst 1", store=Store(clock=ManualClock()))
    limiter.check("k")
    refused = limiter.check("k")
    assert (refused.retry_after_us, refused.retry_after) == (400_000, 0.4)
    assert limiter.http_headers(refused)["Retry-After"] == "1"


def test_truth_is_being_allowed() -> None:
    assert Decision("allowed")
    for outcome in ("denied", "never", "unavailable"):
        decision = Decision(outcome)
        assert not decision
        assert decision.allowed is False
        assert decision.outcome == outcome


def test_equality_and_hash() -> None:
    same = Decision("denied", None, 20, 3, 1_500_000, 4_000_000)
    assert same == DENIED
    assert hash(same) == hash(DENIED)
    assert len({same, DENIED, UNAVAILABLE}) == 2
    assert Decision("denied", None, 20, 2, 1_500_000, 4_000_000) != DENIED
    assert Decision("unavailable", "lost") != UNAVAILABLE
    assert Decision("allowed", "connect", 20, 3, 0, 4_000_000) != LOCAL
    assert len({LOCAL, OPEN, CLOSED, CACHED}) == 4
    assert DENIED != "denied"
    with pytest.raises(TypeError):
        _ = same > DENIED  # type: ignore[operator]


@pytest.mark.parametrize(
    "decision",
    [DENIED, UNAVAILABLE, LOCAL, OPEN, CLOSED, CACHED, SEVERAL, Limiter("3/s").check("k")],
    ids=repr,
)
def test_copies_and_pickles(decision: Decision) -> None:
    for made in (
        pickle.loads(pickle.dumps(decision)),
        copy.copy(decision),
        copy.deepcopy(decision),
    ):
        assert made == decision
        assert repr(made) == repr(decision)
        assert (made.source, made.reason) == (decision.source, decision.reason)
        assert made.rules == (decision.rules if decision is SEVERAL else (made,))


def test_a_copy_cannot_be_refunded() -> None:
    limiter = Limiter("3/s")
    decision = limiter.check("k")
    assert not limiter.refund("k", pickle.loads(pickle.dumps(decision)))
    assert limiter.refund("k", decision)


def test_repr() -> None:
    limiter = Limiter("5/s burst 20", store=Store(clock=ManualClock()))
    assert repr(limiter.check("k", 20)) == (
        "Decision(allowed, limit=20, remaining=0, reset_after=4.0)"
    )
    assert repr(limiter.check("k")) == (
        "Decision(denied, limit=20, remaining=0, retry_after=0.2, reset_after=4.0)"
    )
    assert repr(limiter.check("k", 21)) == (
        "Decision(never, limit=20, remaining=0, reset_after=4.0)"
    )
    assert repr(limiter.reserve("k", 1, 10**6)) == (
        "Decision(allowed, limit=20, remaining=0, delay=0.2, reset_after=4.2)"
    )
    assert repr(UNAVAILABLE) == "Decision(unavailable, reason=timeout)"
    assert repr(LOCAL) == (
        "Decision(allowed, limit=20, remaining=3, reset_after=4.0, source=local, reason=connect)"
    )
    assert repr(OPEN) == "Decision(allowed, source=open, reason=connect)"
    assert repr(CLOSED) == "Decision(denied, retry_after=1.0, source=closed, reason=lost)"
    assert repr(CACHED) == (
        "Decision(denied, limit=20, remaining=0, retry_after=1.5, reset_after=4.0, source=cache)"
    )


def test_the_source() -> None:
    assert Limiter("3/s").check("k").source == "store"
    assert [d.source for d in (UNAVAILABLE, LOCAL, OPEN, CLOSED, CACHED)] == [
        *("store", "local", "open", "closed", "cache")
    ]
    with pytest.raises(ValueError, match="unknown source"):
        Decision("allowed", source="elsewhere")


def test_it_is_as_small_as_a_decision_of_one_rule_can_be() -> None:
    """Header, decision, ticket, and a word of flags."""
    assert Decision.__basicsize__ == 16 + 64 + 48 + 8


def test_it_is_immutable_and_final() -> None:
    for name in ("limit", "allowed", "retry_after", "anything"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(DENIED, name, 1)
    with pytest.raises(TypeError):
        type("Mine", (Decision,), {})
    with pytest.raises(ValueError, match="unknown outcome"):
        Decision("perhaps")
    with pytest.raises(ValueError, match="unknown outcome"):
        Decision("none")
    with pytest.raises(ValueError, match="unknown reason"):
        Decision("unavailable", "mood")

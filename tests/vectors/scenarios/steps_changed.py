"""Limits that are changed while they are in use, and old and new rules side by side."""

from __future__ import annotations

from .dsl import (
    EPOCH,
    MIN,
    MS,
    D,
    H,
    S,
    Step,
    allowed,
    check,
    denied,
    given,
    never,
    not_given,
    peek,
    refund,
)
from .words import (
    Case,
    Maker,
    Policy,
    bucket,
    calendar,
    change,
    fixed,
    leaky,
    leases,
    log,
    policy,
    probe,
    renew,
    says,
    settle,
    sliding,
    trace,
)

T = EPOCH - EPOCH % D  # a day begins
COUNTING: dict[str, Maker] = {
    "fixed": lambda limit: fixed(limit, MIN),
    "sliding": lambda limit: sliding(limit, MIN),
    "log": lambda limit: log(limit, MIN),
    "calendar": lambda limit: calendar(limit, "day"),
    "leases": lambda limit: leases(limit, MIN),
}


def counting(name: str, make: Maker) -> list[Case]:
    """The count stays whatever the limit."""
    return [
        trace(
            f"changed-{name}-lowered",
            make(100),
            "100 to 10 with 30 used: none left.",
            check(T, 30, says("allowed", remaining=70)),
            change(T, make(10)),
            peek(T, 1, says("denied", limit=10, remaining=0)),
            check(T, 0, says("allowed", limit=10, remaining=0)),
            check(T, 11, says("never", limit=10, remaining=0)),
            probe(T + 1, 1),
            case="C159",
        ),
        trace(
            f"changed-{name}-raised",
            make(10),
            "10 used up, then 100: 90 left.",
            check(T, 10, says("allowed", remaining=0)),
            check(T, 1, says("denied")),
            change(T, make(100)),
            check(T, 91, says("denied", limit=100, remaining=90)),
            check(T, 90, says("allowed", remaining=0)),
            case="C159",
        ),
        trace(
            f"changed-{name}-to-zero-and-back",
            make(10),
            "Shut for a while; what was used is still used.",
            check(T, 4, says("allowed", remaining=6)),
            change(T + 1, make(0)),
            check(T + 1, 1, says("never", limit=0, remaining=0)),
            change(T + 2, make(10)),
            check(T + 2, 6, says("allowed", remaining=0)),
            case="C21 C159",
        ),
        trace(
            f"changed-{name}-old-and-new-side-by-side",
            make(10),
            "Old and new app versions take turns on one key: never more than the larger allows.",
            *[
                step
                for i in range(12)
                for step in (
                    change(T + i, make(20) if i % 2 else make(10)),
                    check(T + i, 2, says("allowed" if i < 5 or i % 2 else "denied")),
                )
            ],
            case="C159",
        ),
        trace(
            f"changed-{name}-refund-after",
            make(100),
            "A ticket of the old limit is worth the same under the new.",
            check(T, 30, says("allowed", remaining=70), id="a"),
            check(T, 5, says("allowed", remaining=65), id="b"),
            change(T + 1, make(10)),
            refund(T + 1, "a", says("allowed", limit=10, remaining=5)),
            settle(T + 2, "b", 9, says("allowed", limit=10, remaining=1)),
            case="C159",
        ),
    ]


def other_algorithm(first: str, second: str) -> Case:
    """Each algorithm keeps its own state."""
    old, new = (COUNTING[first](10), COUNTING[second](10))
    return trace(
        f"changed-{first}-to-{second}",
        old,
        "Another algorithm starts afresh; a ticket of the old gives nothing; going back, the old"
        " count is still there.",
        check(T, 10, says("allowed", remaining=0), id="a"),
        check(T, 1, says("denied")),
        change(T + 1, new),
        refund(T + 1, "a", given(10, 0) | {"outcome": "denied"}),
        check(T + 1, 3, says("allowed", remaining=7)),
        change(T + 2, old),
        check(T + 2, 1, says("denied", remaining=0)),
        change(T + 3, new),
        check(T + 3, 7, says("allowed", remaining=0)),
        case="C159",
    )


def alternating(name: str, one: Policy, two: Policy, unit: int) -> Case:
    """Two rules on one key by turns, with charges, refunds and settlements between."""
    steps: list[Step] = []
    for i in range(24):
        now = T + i * unit
        steps += [change(now, two if i % 2 else one), check(now, 1 + i % 3), peek(now, 2)]
    return trace(
        f"changed-alternating-{name}",
        one,
        f"{one.text} and {two.text} by turns on one key.",
        steps,
        case="C159",
    )


NAMES = list(COUNTING)

SCENARIOS = [
    *[case for name, make in COUNTING.items() for case in counting(name, make)],
    *[other_algorithm(a, b) for a, b in zip(NAMES, [*NAMES[1:], NAMES[0]])],
    alternating("limits-fixed", fixed(10, MIN), fixed(6, MIN), 4 * S),
    alternating("limits-sliding", sliding(10, MIN), sliding(6, MIN), 7 * S),
    alternating("limits-log", log(10, MIN), log(6, MIN), 4 * S),
    alternating("limits-leases", leases(10, MIN), leases(6, MIN), 4 * S),
    alternating("periods-fixed", fixed(10, MIN), fixed(10, 5 * MIN), 11 * S),
    alternating("periods-sliding", sliding(10, MIN), sliding(10, 5 * MIN), 11 * S),
    alternating("periods-sliding-unaligned", sliding(10, 7 * S), sliding(10, 3 * S), S + 1),
    alternating("lives-leases", leases(10, MIN), leases(10, 20 * S), 3 * S),
    alternating("queues", leaky(1, S, 5, 3), leaky(2, S, 3, 3), 300 * MS),
    alternating("denominators", leaky(3, S, 5, 3), leaky(7, S, 3, 3), 100 * MS),
    trace(
        "changed-fixed-period-shortened",
        fixed(10, H),
        "1 h to 1 min: the hour under way ends when it would have; then minutes.",
        check(T, 10, allowed(0, H)),
        change(T + MIN, fixed(10, MIN)),
        check(T + MIN, 1, denied(0, 59 * MIN, 59 * MIN)),
        probe(T + 59 * MIN, 1, retry=MIN),
        check(T + H + MIN, 10, allowed(0, MIN)),
        case="C159",
    ),
    trace(
        "changed-fixed-period-lengthened",
        fixed(10, MIN),
        "1 min to 1 h: the minute ends, then the hour that holds it begins to count.",
        check(T + 10 * MIN, 10, allowed(0, MIN)),
        change(T + 10 * MIN, fixed(10, H)),
        check(T + 10 * MIN, 1, denied(0, MIN, MIN)),
        check(T + 11 * MIN, 10, allowed(0, 49 * MIN)),
        check(T + 11 * MIN, 1, denied(0, 49 * MIN, 49 * MIN)),
        case="C159",
    ),
    trace(
        "changed-fixed-refund-after-the-period",
        fixed(10, H),
        "The window under way is still the ticket's, whatever the period now.",
        check(T, 6, allowed(4, H), id="a"),
        check(T, 4, allowed(0, H), id="b"),
        change(T + MIN, fixed(10, MIN)),
        refund(T + MIN, "a", given(6, 59 * MIN)),
        settle(T + MIN, "b", 5, given(5, 59 * MIN)),
    ),
    trace(
        "changed-bucket-lowered",
        bucket(100, MIN),
        "100/min with 30 used to 10/min: 7 left at once.",
        check(T, 30, allowed(70, 18 * S), id="a"),
        change(T, bucket(10, MIN)),
        check(T, 8, denied(7, 6 * S, 18 * S)),
        check(T, 7, allowed(0, MIN)),
        check(T, 11, never(0, MIN)),
        case="C159",
    ),
    trace(
        "changed-bucket-raised",
        bucket(10, MIN),
        "10/min used up to 100/min: the next after 0.6 s.",
        check(T, 10, allowed(0, MIN)),
        change(T, bucket(100, MIN)),
        probe(T, 1, retry=600 * MS),
        case="C159",
    ),
    trace(
        "changed-bucket-settled-after",
        bucket(100, MIN),
        "A settlement is worth what the cost is under the rule of now.",
        check(T, 30, allowed(70, 18 * S), id="a"),
        check(T, 10, allowed(60, 24 * S), id="b"),
        change(T, bucket(10, MIN)),
        settle(T, "b", 9, given(7, 18 * S)),
        settle(T, "a", 32, given(5, 30 * S)),
        case="C159",
    ),
    trace(
        "changed-bucket-to-counting",
        bucket(10, MIN),
        "From a token bucket to a window: afresh, and back.",
        check(T, 10, allowed(0, MIN), id="a"),
        change(T, fixed(10, MIN)),
        refund(T, "a", not_given(10, 0)),
        check(T, 10, allowed(0, MIN), id="b"),
        change(T, bucket(10, MIN)),
        check(T, 1, denied(0, 6 * S, MIN)),
        refund(T, "b", not_given(0, MIN)),
        case="C159",
    ),
    trace(
        "changed-one-rule-to-two",
        fixed(10, MIN),
        "One rule to two: among several each is told apart by its period, so they start afresh.",
        check(T, 10, allowed(0, MIN)),
        change(T, policy(fixed(10, MIN), log(20, H))),
        check(T, 8, says("allowed", rule=0, remaining=2)),
        change(T, policy(log(20, H), fixed(10, MIN))),
        check(T, 2, says("allowed", rule=1, remaining=0)),
        change(T, fixed(10, MIN)),
        check(T, 1, denied(0, MIN, MIN)),
        case="C159",
    ),
    trace(
        "changed-period-of-one-of-two",
        policy(fixed(10, MIN), log(20, H)),
        "Another period of one of several rules is another rule; the other one goes on.",
        check(T, 10, says("allowed", rule=0, remaining=0)),
        change(T, policy(fixed(10, 2 * MIN), log(20, H))),
        check(T, 5, says("allowed", rule=1, remaining=5)),
        change(T, policy(fixed(12, MIN), log(20, H))),
        check(T, 3, says("denied", rule=0, remaining=2)),
        check(T, 2, says("allowed", rule=0, remaining=0)),
        case="C159",
    ),
    trace(
        "changed-lease-renewed-after",
        leases(10, MIN),
        "A lease renewed under a longer life, then under a lower limit.",
        check(T, 4, allowed(6, MIN), id="a"),
        change(T + 30 * S, leases(10, H)),
        renew(T + 30 * S, "a", given(6, H)),
        change(T + MIN, leases(3, 10 * S)),
        check(T + MIN, 1, denied(0, H - 30 * S, H - 30 * S)),
        renew(T + MIN, "a", given(0, 10 * S)),
        probe(T + MIN, 1, retry=10 * S),
        case="C159",
    ),
]
